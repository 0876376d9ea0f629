"""Amounts that follow the machine: swap and free disk change, devices go offline and come back.

Slots keep the parts of disk and swap that the layout gave them; dynamic slots keep their amounts, and the partitionable
slot takes the difference. A device that goes offline while a slot has it leaves when that slot gives it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slotwise.model.resources import Resources
from slotwise.model.slot import SlotKind
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.records.slot_record import Holding


def resize(point: ExecutionPoint, *, disk_kib: int | None = None, swap_kib: int | None = None) -> None:
    """The machine has so much disk and swap now; None: as before."""
    former = point.settings.resources
    new = replace(
        former,
        disk_kib=former.disk_kib if disk_kib is None else disk_kib,
        swap_kib=former.swap_kib if swap_kib is None else swap_kib,
    )
    if new == former:
        return
    point.settings.resources = new
    for h in point.holdings.values():
        if h.kind is SlotKind.DYNAMIC or h.slot.broken:
            continue
        disk = _part(h.total.disk_kib, former.disk_kib, new.disk_kib)
        swap = _part(h.total.swap_kib, former.swap_kib, new.swap_kib)
        _grow(h, max(disk - h.total.disk_kib, -h.free.disk_kib), max(swap - h.total.swap_kib, -h.free.swap_kib))


def _part(mine: int, of: int, now: int) -> int:
    """The same part of what there is now."""
    return mine if of <= 0 else mine * now // of


def _grow(h: Holding, disk_kib: int, swap_kib: int) -> None:
    """Add to what the slot has and to what it has left; both never fall below what is given out."""
    more = Resources(disk_kib=disk_kib, swap_kib=swap_kib)
    h.free, h.total = h.free.plus(more), h.total.plus(more)


def set_offline(point: ExecutionPoint, offline: Mapping[str, tuple[str, ...]]) -> None:
    """These devices, by tag, are not to be handed out from now on; all others that the machine has are."""
    point.offline = {tag: frozenset(names) for tag, names in offline.items()}
    for h in list(point.holdings.values()):
        if h.kind is SlotKind.DYNAMIC:
            continue
        for tag, parked in list(h.parked.items()):
            back = tuple(name for name in parked if name not in point.offline.get(tag, ()))
            here = Resources(custom={tag: len(back)}, devices={tag: back})
            h.free, h.total = h.free.plus(here), h.total.plus(here)
            h.parked[tag] = tuple(name for name in parked if name not in back)
        if h.slot.run is None:
            point.park_offline(h)
        point.outbox.changed[h.name] = None
