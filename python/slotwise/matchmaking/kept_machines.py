"""Machines that are kept for large requests: what access points, jobs and the machines' ads are told. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from slotwise.classad.values import Value
from slotwise.matchmaking.rows import ClaimsToReturn, KeptMachine, Rejection
from slotwise.table import AdTable

#: The reason of a request for which a machine is kept.
RESERVED = "a machine is reserved"
#: What the ad of a kept machine says.
KeptAttributes = dict[str, str | int]


def claims_to_end(reservations: Iterable[KeptMachine], slots: AdTable) -> list[ClaimsToReturn]:
    """The claims on kept machines that have to end, by machine, access point and holder."""
    found: dict[tuple[str, str, str], ClaimsToReturn] = {}
    for kept in reservations:
        held: dict[tuple[str, str], list[str]] = {}
        for slot in kept.claims:
            if slot not in slots:
                continue
            schedd, holder = slots.value(slot, "RemoteScheddName"), slots.value(slot, "AccountingGroup")
            if not isinstance(holder, str):
                holder = slots.value(slot, "RemoteUser")
            if isinstance(schedd, str) and isinstance(holder, str):
                held.setdefault((schedd, holder), []).append(slot)
        for (schedd, holder), names in held.items():
            reason = f"{kept.slot} is kept for job {kept.job} of {kept.submitter}"
            weights = [1.0] * len(names)
            found[kept.slot, schedd, holder] = ClaimsToReturn(
                holder, schedd, names, weights, float(len(names)), until=kept.starts_at, reason=reason
            )
    return list(found.values())


def explained(rejections: Iterable[Rejection], reservations: Iterable[KeptMachine]) -> list[Rejection]:
    """Rejections, with the machine and the time where one is kept."""
    of = {(kept.submitter, kept.job): kept for kept in reservations}
    out = []
    for row in rejections:
        kept = of.get((row.submitter, row.autocluster))
        if row.reason == RESERVED and kept is not None:
            row = _with_reason(row, f"{RESERVED}: {kept.slot}, expected to be ready by {minute(kept.starts_at)}")
        out.append(row)
    return out


def _with_reason(row: Rejection, reason: str) -> Rejection:
    return Rejection(
        autocluster=row.autocluster,
        autocluster_id=row.autocluster_id,
        submitter=row.submitter,
        schedd=row.schedd,
        request=row.request,
        reason=reason,
        count=row.count,
        slots=row.slots,
    )


def minute(moment: float) -> str:
    """The minute in which a moment lies, or that it ends; local time."""
    return datetime.fromtimestamp(60 * -(-moment // 60)).strftime("%Y-%m-%d %H:%M")


def attributes(reservations: Iterable[KeptMachine]) -> dict[str, KeptAttributes]:
    """What the ads of kept machines say, by slot."""
    return {
        kept.slot: {
            "ReservedFor": kept.submitter,
            "ReservedForJob": kept.job,
            "ReservedUntil": int(kept.starts_at),
            "ReservationEnds": int(kept.gives_up_at),
        }
        for kept in reservations
    }


def changes(
    before: Mapping[str, KeptAttributes], after: Mapping[str, KeptAttributes], slots: AdTable
) -> dict[str, dict[str, Value]]:
    """Attributes to be merged into slot ads; None takes one away."""
    times = ("ReservedUntil", "ReservationEnds")
    out: dict[str, dict[str, Value]] = {
        slot: dict(ad) for slot, ad in after.items() if any(slots.value(slot, name) != ad[name] for name in times)
    }
    for slot in before.keys() - after.keys():
        if slot in slots:
            out[slot] = dict.fromkeys(before[slot])
    return out
