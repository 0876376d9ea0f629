"""Matches with sleeping slots: nobody claims them, but the collector is told, so that they can be woken up.

It is told what ``rooster`` and scalers read (administrators' manual, power management): when a slot was last
matched, how many jobs wanted it in this cycle, and which.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import Value
from slotwise.matchmaking.rows import Match
from slotwise.negotiator.gather import AccessPoint, Demand
from slotwise.table import AdTable

_NUMBERED = re.compile(r"^([^0-9@]+)[0-9][^@]*(@.*)$")


def offline_updates(
    matches: Iterable[Match],
    slots: AdTable,
    demand: Demand,
    points: Mapping[str, AccessPoint],
    now: int,
) -> dict[str, dict[str, Value]]:
    """Attributes to be merged into slot ads, by slot: those of each sleeping slot that was matched, and of slot 1."""
    wanted: dict[str, dict[str, tuple[str, int, int]]] = {}
    for row in matches:
        if not row.offline or row.slot not in slots:
            continue
        schedd, _, autocluster, _ = demand.origins[row.request]
        count = demand.requests.value(row.request, "ResourceRequestCount")
        target = points[schedd].target if schedd in points else schedd
        entry = (target, autocluster, count if isinstance(count, int) else 1)
        wanted.setdefault(row.slot, {})[row.request] = entry
    updates: dict[str, dict[str, Value]] = {}
    for slot, requests in wanted.items():
        records = [
            str(ExprTree(ClassAd({"Scheduler": schedd, "AutoclusterID": autocluster, "RequestCount": count})))
            for schedd, autocluster, count in requests.values()
        ]
        updates.setdefault(slot, {}).update(
            MachineLastMatchTime=now,
            MachineMatchCount=sum(count for _, _, count in requests.values()),
            OfflineMatches=ExprTree("{" + ", ".join(records) + "}"),
        )
        first, number = _first_slot(slots, slot), slots.value(slot, "SlotID")
        if first in slots and isinstance(number, int):
            updates.setdefault(first, {})[f"slot{number}_MachineLastMatchTime"] = now
    return updates


def _first_slot(slots: AdTable, slot: str) -> str:
    """The slot that collects the times of all slots of its machine."""
    primary = slots.value(slot, "OfflinePrimarySlotName")
    if isinstance(primary, str):
        return primary
    found = _NUMBERED.match(slot)
    return f"{found[1]}1{found[2]}" if found else ""
