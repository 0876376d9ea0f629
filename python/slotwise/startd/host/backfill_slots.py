"""Backfill slots (SLOT_TYPE_<N>_BACKFILL): a second division of the machine, for jobs that run where nobody else does.

Primary and backfill slots are made of the same machine. What primary slots have in use, backfill slots do not offer;
and what backfill jobs have when a primary slot takes it is a conflict, which the slot's ad names (``ResourceConflict``)
and which makes the job leave as PREEMPT would. Source: manual, SLOT_TYPE_<N>_BACKFILL; HTCondor's machine ads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slotwise.model.resources import Resources, total
from slotwise.model.slot import SlotKind
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Claimed, Preempting

if TYPE_CHECKING:
    from slotwise.startd.host.execution_point import ExecutionPoint
    from slotwise.startd.records.slot_record import Holding


def in_use(h: Holding) -> bool:
    """Whether the slot's amounts are taken: by a claim, or as those of a dynamic slot that still has them."""
    if h.kind is SlotKind.DYNAMIC:
        return not h.returned
    return h.kind is SlotKind.STATIC and isinstance(h.slot.state, Claimed | Preempting)


def used(holdings: Iterable[Holding], *, backfill: bool) -> Resources:
    """What the primary slots, or the backfill slots, have in use."""
    return total([h.total for h in holdings if h.backfill is backfill and in_use(h)])


def excess(holdings: Iterable[Holding]) -> Resources:
    """How much more the layout gives to backfill slots than to primary ones; nowhere negative."""
    tops = [h for h in holdings if h.parent is None]
    much = total([h.total for h in tops if h.backfill]).without_devices()
    return _positive(_less(much, total([h.total for h in tops if not h.backfill])))


def spare(holdings: Iterable[Holding]) -> Resources:
    """What of the machine no slot of either kind has in use; negative where both kinds have the same."""
    all_of_them = list(holdings)
    whole = total([h.total for h in all_of_them if h.parent is None and not h.backfill]).without_devices()
    whole = whole.plus(excess(all_of_them))
    return _less(_less(whole, used(all_of_them, backfill=False)), used(all_of_them, backfill=True))


def open_to(point: ExecutionPoint, h: Holding) -> Resources:
    """What a slot has to give: what it has left, and for backfill slots what primary slots leave of that."""
    if not h.backfill or h.parent is not None or in_use(h):
        return h.free
    here = _positive(spare(point.holdings.values()))
    taken = used(point.holdings.values(), backfill=False).devices
    devices = {
        tag: tuple(name for name in names if name not in taken.get(tag, ())) for tag, names in h.free.devices.items()
    }
    custom = {tag: min(amount, here.custom.get(tag, 0)) for tag, amount in h.free.custom.items()}
    custom.update({tag: len(names) for tag, names in devices.items() if names or h.free.devices[tag]})
    return Resources(
        min(h.free.cpus, here.cpus),
        min(h.free.memory_mib, here.memory_mib),
        min(h.free.disk_kib, here.disk_kib),
        h.free.swap_kib,
        custom,
        devices,
        h.free.shared,
    )


def settle(point: ExecutionPoint, now: float) -> None:
    """Tell backfill slots what primary slots have taken of theirs; those whose conflicts changed look at it at once."""
    if not any(h.backfill for h in point.holdings.values()):
        return
    primary = used(point.holdings.values(), backfill=False)
    if primary != point.primary_in_use:
        point.primary_in_use = primary
        point.outbox.own_ad = True
        for h in point.holdings.values():
            if h.backfill and h.parent is None:
                point.show(h, now)
                point.outbox.changed[h.name] = None
    found = assigned(point.holdings.values())
    for h in [h for h in point.holdings.values() if h.backfill and h.conflict != found.get(h.name, "")]:
        h.conflict = found.get(h.name, "")
        point.show(h, now)
        point.outbox.changed[h.name] = None
        point.happen(h, ev.Evaluate(), now)


def assigned(holdings: Iterable[Holding]) -> dict[str, str]:
    """Conflicts by slot: so many backfill slots as must go that nothing is in use twice, and what each has.

    Those that have a primary slot's devices are the first to go, then those that were to go before.
    """
    slots = list(holdings)
    taken = used(slots, backfill=False).devices
    active = [h for h in slots if h.backfill and in_use(h)]
    devices = {
        h.name: [name for tag, names in h.total.devices.items() for name in names if name in taken.get(tag, ())]
        for h in active
    }
    left = spare(slots)
    found: dict[str, str] = {}
    for h in sorted(active, key=lambda h: (not devices[h.name], not h.conflict)):
        names = [name for name in _short(left) if _amount(h.total, name) > 0]
        if names or devices[h.name]:
            found[h.name] = ",".join([*names, *devices[h.name]])
            left = left.plus(h.total.without_devices())
    return found


def daemon_attributes(point: ExecutionPoint) -> dict[str, Any]:
    """``TotalInUse<R>``, ``TotalBackfillInUse<R>`` and ``ExcessBackfill<R>`` of the startd's own ad."""
    slots = list(point.holdings.values())
    sums = {
        "TotalInUse": used(slots, backfill=False),
        "TotalBackfillInUse": used(slots, backfill=True),
        "ExcessBackfill": excess(slots),
    }
    tags = ("Cpus", "Memory", "Disk", *point.settings.resources.custom)
    return {f"{prefix}{tag}": _amount(amounts, tag) for prefix, amounts in sums.items() for tag in tags}


def _amount(r: Resources, tag: str) -> float:
    standard = {"Cpus": r.cpus, "Memory": r.memory_mib, "Disk": r.disk_kib}
    return standard[tag] if tag in standard else r.custom.get(tag, 0)


def _short(r: Resources) -> list[str]:
    """The resources of which there is less than nothing."""
    return [tag for tag in ("Cpus", "Memory", "Disk", *r.custom) if _amount(r, tag) < -1e-9]


def _less(r: Resources, other: Resources) -> Resources:
    return r.minus(other.without_devices())


def _positive(r: Resources) -> Resources:
    return replace(
        r,
        cpus=max(0, r.cpus),
        memory_mib=max(0, r.memory_mib),
        disk_kib=max(0, r.disk_kib),
        swap_kib=max(0, r.swap_kib),
        custom={tag: max(0, amount) for tag, amount in r.custom.items()},
    )
