"""What a job asks of a partitionable slot: its requests, rounded by MODIFY_REQUEST_EXPR_*, or its consumption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import Expression, Value, attribute, number
from slotwise.model.resources import Resources


@dataclass(frozen=True)
class Requesting:
    """How requests are read for one partitionable slot.

    ``modifiers`` by resource; with ``must_modify`` a request that fits only unmodified is refused. ``consumption``
    (CONSUMPTION_<R> by resource) replaces the requests.
    """

    tags: Sequence[str] = ()
    modifiers: Mapping[str, Expression] = field(default_factory=dict)
    must_modify: bool = False
    consumption: Mapping[str, Expression] = field(default_factory=dict)


def requested(how: Requesting, slot: ClassAd, job: ClassAd, free: Resources, now: float) -> Resources | str:
    """The amounts a dynamic slot for ``job`` takes, or why there are none.

    The rounded request counts if it fits into ``free``; else the plain one, unless the rounding is a must.
    """
    if how.consumption:
        amounts = {tag: expression.value(slot, job, now) for tag, expression in how.consumption.items()}
        return _resources(how, amounts)
    plain = {tag: attribute(job, f"Request{tag}", slot, now=now) for tag in ("Cpus", "Memory", "Disk", *how.tags)}
    if plain["Cpus"] is None:
        plain["Cpus"] = 1
    for tag in ("Memory", "Disk"):
        if not isinstance(plain[tag], int | float) or isinstance(plain[tag], bool):
            return f"the job has no Request{tag}"
    modified = dict(plain)
    for tag, expression in how.modifiers.items():
        value = expression.value(slot, job, now)
        if isinstance(value, int | float):
            modified[tag] = value
    rounded = _resources(how, modified)
    if how.must_modify or isinstance(rounded, str) or free.shortfall(rounded) is None:
        return rounded
    return _resources(how, plain)


def _resources(how: Requesting, amounts: Mapping[str, Value]) -> Resources | str:
    cpus = number(amounts.get("Cpus"), 1.0)
    if cpus < 0:
        return "the request is negative"
    custom = {tag: _whole(number(amounts.get(tag))) for tag in how.tags if number(amounts.get(tag)) > 0}
    return Resources(
        _whole(cpus), int(-(-number(amounts.get("Memory")) // 1)), int(-(-number(amounts.get("Disk")) // 1)), 0, custom
    )


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value
