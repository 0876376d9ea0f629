"""Amounts that follow the machine: disk and swap change while the startd runs.

Slots keep the parts of disk and swap that the layout gave them; dynamic slots keep their amounts, and the partitionable
slot takes the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeGuard

from msgspec.structs import replace

from slotwise.model.resources import Resources
from slotwise.model.slot import SlotKind
from slotwise.startd.host.host_state import HostState
from slotwise.startd.records.saved_slot import SavedSlot
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot.states import Claimed, Preempting


def with_disk_in_use(machine: Resources, saved: Iterable[SavedSlot], disk_kib: object) -> Resources:
    """What there is to divide where slots of a previous startd are claimed: as much disk as that divided.

    Their jobs have used up some of what was given to them; it would be counted twice, and they would not fit any more.

    :param saved: the slots of the previous startd.
    :param disk_kib: what it had divided; None where that is not known.
    """
    held = any(isinstance(one.state, Claimed | Preempting) for one in saved)
    return replace(machine, disk_kib=disk_kib) if held and _more(disk_kib, machine.disk_kib) else machine


def _more(former: object, now: int) -> TypeGuard[int]:
    return isinstance(former, int) and former > now


def divide_disk(host: HostState, disk_kib: int, parts: Mapping[str, int]) -> None:
    """The disk, which was full when it was divided, has so much now, and each slot such a part of it.

    :param parts: KiB by local name of the slot.
    """
    host.settings.resources = replace(host.settings.resources, disk_kib=disk_kib)
    for record in host.slots:
        part = parts.get(record.name.partition("@")[0])
        if part is not None and record.kind is not SlotKind.DYNAMIC and not record.slot.broken:
            _grow(record, max(part - record.total.disk_kib, -record.free.disk_kib), 0)


def resize(host: HostState, *, disk_kib: int | None = None, swap_kib: int | None = None) -> None:
    """The machine has so much disk and swap now; None: as before."""
    before = host.settings.resources
    new = replace(
        before,
        disk_kib=before.disk_kib if disk_kib is None else disk_kib,
        swap_kib=before.swap_kib if swap_kib is None else swap_kib,
    )
    if new == before:
        return
    host.settings.resources = new
    for record in host.slots:
        if record.kind is SlotKind.DYNAMIC or record.slot.broken:
            continue
        whole, free = record.total, record.free
        disk = _part(whole.disk_kib, before.disk_kib, new.disk_kib)
        swap = _part(whole.swap_kib, before.swap_kib, new.swap_kib)
        _grow(record, max(disk - whole.disk_kib, -free.disk_kib), max(swap - whole.swap_kib, -free.swap_kib))


def _part(mine: int, of: int, now: int) -> int:
    """The same part of what there is now."""
    return mine if of <= 0 else mine * now // of


def _grow(record: SlotRecord, disk_kib: int, swap_kib: int) -> None:
    """Add to what the slot has and to what it has left; both never fall below what is given out."""
    more = Resources(disk_kib=disk_kib, swap_kib=swap_kib)
    record.free, record.total = record.free.plus(more), record.total.plus(more)
