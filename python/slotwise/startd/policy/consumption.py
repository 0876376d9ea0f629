"""What a job asks of a partitionable slot: its requests, rounded by MODIFY_REQUEST_EXPR_*, or its consumption.

Source: manual, "Consumption Policy". Where one is in force, Requirements are evaluated against the job as the policy
sees it, here as in the negotiator: with what it takes in place of what it asked for, which stays in
``_cp_orig_Request<R>``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import Expression, Value, attribute, number, write
from slotwise.model.resources import Resources


class Requesting(Struct, frozen=True):
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
    plain = {tag: attribute(job, f"Request{tag}", slot, now=now) for tag in ("Cpus", "Memory", "Disk", *how.tags)}
    if not how.consumption:
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
    rounded = _taken(how, slot, job, modified, now)
    if how.must_modify or isinstance(rounded, str) or free.shortfall(rounded) is None:
        return rounded
    return _taken(how, slot, job, plain, now)


def as_consumed(consumption: Mapping[str, Expression], slot: ClassAd, job: ClassAd, now: float) -> ClassAd | str:
    """The job as a consumption policy sees it on this slot, or which amount the policy does not give.

    Without a policy it is the job itself.
    """
    if not consumption:
        return job
    amounts = _consumed(consumption, slot, job, now)
    if isinstance(amounts, str):
        return amounts
    seen = job.copy()
    for tag, amount in amounts.items():
        if (request := f"Request{tag}") in job:
            seen[f"_cp_orig_{request}"] = job.lookup(request)
            seen[request] = _whole(amount)
    return seen


def _taken(how: Requesting, slot: ClassAd, job: ClassAd, requests: Mapping[str, Value], now: float) -> Resources | str:
    """What a dynamic slot is made of where the job asks for ``requests``."""
    if not how.consumption:
        return _resources(how, requests)
    asking = job.copy()
    write(asking, {f"Request{tag}": value for tag, value in requests.items() if value is not None})
    amounts = _consumed(how.consumption, slot, asking, now)
    if isinstance(amounts, str):
        return amounts
    # The least that a slot may have, whatever the policy says.
    return _resources(how, {**amounts, "Cpus": max(1, amounts["Cpus"]), "Memory": max(1, amounts["Memory"])})


def _consumed(consumption: Mapping[str, Expression], slot: ClassAd, job: ClassAd, now: float) -> dict[str, float] | str:
    """What the policy takes of each resource for a job; a request that the job does not have counts as 0."""
    asking = job.copy()
    write(asking, {request: 0 for tag in consumption if (request := f"Request{tag}") not in job})
    amounts: dict[str, float] = {}
    for tag, expression in consumption.items():
        value = expression.value(slot, asking, now)
        if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
            return f"CONSUMPTION_{tag.upper()} is not an amount for the job"
        amounts[tag] = value
    return amounts if any(amounts.values()) else "the consumption policy takes nothing for the job"


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
