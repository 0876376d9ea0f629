"""How many nodes of a parallel job the dedicated slots of a pool hold, in all and by scheduling group. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from slotwise.classad import ClassAd, SpecialValue
from slotwise.schedd.jobs.job import finite
from slotwise.table import Allowance

#: What a job may ask of a partitionable slot that it is divided by.
_RESOURCES = ("Cpus", "Memory", "Disk", "GPUs")
GROUP = "ParallelSchedulingGroup"
#: Nodes of one job that one slot holds at most, however little they ask for.
_MOST = 10_000
#: Steps that the expressions of a job may take with one slot, and with each slot on average besides the first many.
_SLOT_STEPS, _MEAN_STEPS, _FIRST_STEPS = 5_000, 100, 100_000


def capacity(job: ClassAd, slots: Iterable[ClassAd]) -> Mapping[str, int]:
    """Nodes of one proc that whole slots hold when nothing else runs there, by group; "" is for slots without one.

    Whether a slot would accept the job is not asked: START may depend on what runs there now. What the job asks of the
    slot is, with all that a partitionable slot has to give. A slot with which that takes too many steps holds none.
    """
    found: Counter[str] = Counter()
    left = _FIRST_STEPS
    for slot in slots:
        left += _MEAN_STEPS
        with Allowance(max(1, min(_SLOT_STEPS, left))) as used:
            group, held = _group_and_held(job, slot)
        left -= used.used
        found[group] += held
    return found


def _group_and_held(job: ClassAd, slot: ClassAd) -> tuple[str, int]:
    try:
        if slot.get("DynamicSlot", False) is True:
            return "", 0  # its partitionable slot stands for it
        group = slot.get(GROUP, "")
        return (group if isinstance(group, str) else ""), _held(job, slot)
    except ValueError:  # users write one of the two ads, and hosts the other
        return "", 0


def _held(job: ClassAd, slot: ClassAd) -> int:
    if slot.get("PartitionableSlot", False) is not True:
        return int(_satisfies(job, slot))
    whole = slot.copy()
    for name in _RESOURCES:
        if (total := finite(_plain(slot.eval(f"TotalSlot{name}")))) > 0:
            whole[name] = total
    if not _satisfies(job, whole):
        return 0
    amounts = [(finite(_plain(whole.eval(name))), _asked(job, whole, name)) for name in _RESOURCES]
    return max(0, min((int(min(_MOST, has // asks)) for has, asks in amounts if asks > 0), default=1))


def _asked(job: ClassAd, slot: ClassAd, name: str) -> float:
    """How much of a resource a node asks for; infinitely much where that is no amount."""
    if f"Request{name}" not in job:
        return 1.0 if name == "Cpus" else 0.0
    amount = _plain(job.lookup(f"Request{name}").eval(job, slot))
    return math.inf if math.isnan(amount) else amount


def _satisfies(job: ClassAd, slot: ClassAd) -> bool:
    return "Requirements" not in job or job.lookup("Requirements").eval(job, slot) is True


def _plain(value: object) -> float:
    ok = isinstance(value, (int, float)) and not isinstance(value, SpecialValue)
    return float(value) if ok else 0.0  # type: ignore[arg-type]


def best_group(needed: int, held: Mapping[str, int]) -> str:
    """The group to gather in: the smallest that holds the job, so that large ones stay free for large jobs; "" if none
    does."""
    fitting = [(count, group) for group, count in held.items() if group and count >= needed]
    return min(fitting, default=(0, ""))[1]
