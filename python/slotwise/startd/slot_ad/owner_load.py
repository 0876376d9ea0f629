"""Sharing the owner's load out among the slots. Source: manual, LoadAvg and CondorLoadAvg of machine ads.

The load that jobs do not make is the owner's; slots in Owner get it first, then Unclaimed ones, then the rest, each at
most its cores, so that policies see it where it matters.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slotwise.model.slot import State

#: What remains up to this much is dropped.
DUST = 0.05


class LoadOf(Struct, frozen=True):
    """A slot as the sharing sees it: its state, how many cores it may carry load on, and its jobs' load.

    ``room`` is TotalCpus for a slot of its own; for a dynamic slot its own cores.
    """

    name: str
    state: State
    room: float
    condor_load: float


def share_load(machine_load: float, slots: Sequence[LoadOf]) -> dict[str, tuple[float, float]]:
    """``LoadAvg`` and ``CondorLoadAvg`` of each slot by name, rounded to 0.01."""
    condor = {slot.name: min(slot.condor_load, machine_load) for slot in slots}
    owner_load = max(0.0, machine_load - sum(condor.values()))
    share = dict.fromkeys((slot.name for slot in slots), 0.0)
    for slot in sorted(slots, key=_turn):
        if owner_load <= DUST:
            break
        part = min(owner_load, slot.room)
        share[slot.name] = part
        owner_load -= part
    return {slot.name: (round(share[slot.name] + condor[slot.name], 2), round(condor[slot.name], 2)) for slot in slots}


def _turn(slot: LoadOf) -> int:
    """Owner first, then Unclaimed, then the rest; the sort keeps slot order within each."""
    return {State.OWNER: 0, State.UNCLAIMED: 1}.get(slot.state, 2)


def smoothed(former: float, rate: float, seconds: float, over_s: float = 60.0) -> float:
    """A moving average over ``over_s`` after a further ``seconds`` in which the load was ``rate``."""
    return former + (rate - former) * min(1.0, seconds / over_s)
