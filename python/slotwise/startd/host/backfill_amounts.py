"""What primary and backfill slots have in use of the machine that both are made of. Pure.

Source: manual, SLOT_TYPE_<N>_BACKFILL; HTCondor's machine ads.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from slotwise.model.resources import Resources, total
from slotwise.model.slot import SlotKind
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot.states import Claimed, Preempting


def in_use(record: SlotRecord) -> bool:
    """Whether the slot's amounts are taken: by a claim, or as those of a dynamic slot that still has them."""
    if record.kind is SlotKind.DYNAMIC:
        return not record.returned
    return record.kind is SlotKind.STATIC and isinstance(record.slot.state, Claimed | Preempting)


def used(slots: Iterable[SlotRecord], *, backfill: bool) -> Resources:
    """What the primary slots, or the backfill slots, have in use."""
    return total([record.total for record in slots if record.backfill is backfill and in_use(record)])


def excess(slots: Iterable[SlotRecord]) -> Resources:
    """How much more the layout gives to backfill slots than to primary ones; nowhere negative."""
    tops = [record for record in slots if record.parent is None]
    backfill = total([record.total for record in tops if record.backfill]).without_devices()
    return _positive(_less(backfill, total([record.total for record in tops if not record.backfill])))


def spare(slots: Iterable[SlotRecord]) -> Resources:
    """What of the machine no slot of either kind has in use; negative where both kinds have the same."""
    every = list(slots)
    machine = total([record.total for record in every if record.parent is None and not record.backfill])
    whole = machine.without_devices().plus(excess(every))
    return _less(_less(whole, used(every, backfill=False)), used(every, backfill=True))


def open_to(slots: Iterable[SlotRecord], record: SlotRecord) -> Resources:
    """What a slot has to give: what it has left, and for backfill slots what primary slots leave of that."""
    free = record.free
    if not record.backfill or record.parent is not None or in_use(record):
        return free
    every = list(slots)
    here = _positive(spare(every))
    taken = used(every, backfill=False).devices
    devices = {
        tag: tuple(name for name in names if name not in taken.get(tag, ())) for tag, names in free.devices.items()
    }
    custom = {tag: min(amount, here.custom.get(tag, 0)) for tag, amount in free.custom.items()}
    custom.update({tag: len(names) for tag, names in devices.items() if names or free.devices[tag]})
    return Resources(
        min(free.cpus, here.cpus),
        min(free.memory_mib, here.memory_mib),
        min(free.disk_kib, here.disk_kib),
        free.swap_kib,
        custom,
        devices,
        free.shared,
    )


def conflicts(slots: Iterable[SlotRecord]) -> dict[str, str]:
    """ResourceConflict by slot: so many backfill slots as must go that nothing is in use twice, and what each has.

    Those that have a primary slot's devices are the first to go, then those that were to go before.
    """
    every = list(slots)
    taken = used(every, backfill=False).devices
    active = [record for record in every if record.backfill and in_use(record)]
    devices = {
        record.name: [
            name for tag, names in record.total.devices.items() for name in names if name in taken.get(tag, ())
        ]
        for record in active
    }
    left = spare(every)
    found: dict[str, str] = {}
    for record in sorted(active, key=lambda record: (not devices[record.name], not record.conflict)):
        names = [name for name in _short(left) if amount_of(record.total, name) > 0]
        if names or devices[record.name]:
            found[record.name] = ",".join([*names, *devices[record.name]])
            left = left.plus(record.total.without_devices())
    return found


def amount_of(r: Resources, tag: str) -> float:
    """The amount of a resource by its name in ads: Cpus, Memory (MiB), Disk (KiB), or a custom one."""
    standard = {"Cpus": r.cpus, "Memory": r.memory_mib, "Disk": r.disk_kib}
    return standard[tag] if tag in standard else r.custom.get(tag, 0)


def _short(r: Resources) -> list[str]:
    """The resources of which there is less than nothing."""
    return [tag for tag in ("Cpus", "Memory", "Disk", *r.custom) if amount_of(r, tag) < -1e-9]


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
