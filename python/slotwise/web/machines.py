"""Machines with what their slots do, for a map of the pool."""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.classad import ClassAd
from slotwise.classad.values import whole
from slotwise.model.slot import State

MACHINE_ATTRIBUTES = ("Machine", "State", "Activity", "Cpus", "PartitionableSlot", "SlotBrokenReason", "Offline")


def machines(slots: Iterable[ClassAd]) -> list[dict[str, object]]:
    """One row for each machine, by name: slots, and cores by state. The rest of a partitionable slot counts as
    unclaimed cores, and a slot that is broken or offline under ``broken`` or ``offline``."""
    found: dict[str, dict[str, int]] = {}
    counts: dict[str, int] = {}
    for ad in slots:
        name, state = str(ad.get("Machine")), str(ad.get("State"))
        cores = max(0, whole(ad.get("Cpus")))
        if isinstance(ad.get("SlotBrokenReason"), str):
            state = "broken"
        elif ad.get("Offline") is True:
            state = "offline"
        elif state not in _STATES:
            state = "other"
        by_state = found.setdefault(name, {})
        by_state[state.lower()] = by_state.get(state.lower(), 0) + cores
        counts[name] = counts.get(name, 0) + 1
    return [{"machine": name, "slots": counts[name], "cores": by_state} for name, by_state in sorted(found.items())]


_STATES = frozenset(State)
