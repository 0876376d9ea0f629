"""Machines that are kept for large requests: what access points, jobs and the machines' ads are told. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from slotwise.table import AdTable

#: The reason of a request for which a machine is kept.
RESERVED = "a machine is reserved"
Row = Mapping[str, Any]


def claims_to_end(reservations: Iterable[Row], slots: AdTable) -> list[dict[str, Any]]:
    """The claims on kept machines that have to end, in the form of :meth:`CycleOutcome.excess`."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for kept in reservations:
        for slot in kept["claims"]:
            if slot not in slots:
                continue
            schedd, holder = slots.value(slot, "RemoteScheddName"), slots.value(slot, "AccountingGroup")
            if not isinstance(holder, str):
                holder = slots.value(slot, "RemoteUser")
            if not isinstance(schedd, str) or not isinstance(holder, str):
                continue
            row = rows.setdefault(
                (kept["slot"], schedd, holder),
                {
                    "submitter": holder,
                    "schedd": schedd,
                    "slots": [],
                    "weights": [],
                    "weight": 0.0,
                    "until": float(kept["starts_at"]),
                    "reason": f"{kept['slot']} is kept for job {kept['job']} of {kept['submitter']}",
                },
            )
            row["slots"].append(slot)
            row["weights"].append(1.0)
            row["weight"] += 1.0
    return list(rows.values())


def explained(rejections: Iterable[dict[str, Any]], reservations: Iterable[Row]) -> list[dict[str, Any]]:
    """Rejections, with the machine and the time where one is kept."""
    of = {(kept["submitter"], kept["job"]): kept for kept in reservations}
    out = []
    for row in rejections:
        kept = of.get((row["submitter"], row["autocluster"]))
        if row["reason"] == RESERVED and kept is not None:
            row = row | {"reason": f"{RESERVED}: {kept['slot']}, expected to be ready by {minute(kept['starts_at'])}"}
        out.append(row)
    return out


def minute(moment: float) -> str:
    """The minute in which a moment lies, or that it ends; local time."""
    return datetime.fromtimestamp(60 * -(-moment // 60)).strftime("%Y-%m-%d %H:%M")


def attributes(reservations: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """What the ads of kept machines say, by slot."""
    return {
        kept["slot"]: {
            "ReservedFor": kept["submitter"],
            "ReservedForJob": kept["job"],
            "ReservedUntil": int(kept["starts_at"]),
            "ReservationEnds": int(kept["gives_up_at"]),
        }
        for kept in reservations
    }


def changes(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]], slots: AdTable
) -> dict[str, dict[str, Any]]:
    """Attributes to be merged into slot ads; None takes one away."""
    times = ("ReservedUntil", "ReservationEnds")
    out = {slot: dict(ad) for slot, ad in after.items() if any(slots.value(slot, name) != ad[name] for name in times)}
    for slot in before.keys() - after.keys():
        if slot in slots:
            out[slot] = dict.fromkeys(before[slot])
    return out
