"""Devices that go offline and come back. One that goes offline while a job has it leaves when the job gives it back."""

from __future__ import annotations

from collections.abc import Mapping

from slotwise.model.resources import Resources
from slotwise.model.slot import SlotKind
from slotwise.startd.host.host_state import HostState
from slotwise.startd.records.slot_record import SlotRecord


class OfflineDevices:
    """The devices of the host that are not handed out."""

    def __init__(self, host: HostState) -> None:
        self._host = host
        self._offline: dict[str, frozenset[str]] = {}

    def follow(self, offline: Mapping[str, tuple[str, ...]]) -> None:
        """Hand out none of these devices (by tag) from now on, and all others that the machine has."""
        self._offline = {tag: frozenset(names) for tag, names in offline.items()}
        for record in self._host.slots:
            if record.kind is SlotKind.DYNAMIC:
                continue
            for tag, names in list(record.offline_devices.items()):
                back = tuple(name for name in names if name not in self._offline.get(tag, ()))
                here = Resources(custom={tag: len(back)}, devices={tag: back})
                record.free, record.total = record.free.plus(here), record.total.plus(here)
                record.offline_devices[tag] = tuple(name for name in names if name not in back)
            if record.slot.run is None:
                self.withdraw(record)
            self._host.outbox.advertise(record.name)

    def withdraw(self, record: SlotRecord) -> None:
        """Take the devices that are offline out of what the slot has left."""
        for tag, offline in self._offline.items():
            leave = tuple(name for name in record.free.devices.get(tag, ()) if name in offline)
            if leave:
                gone = Resources(custom={tag: len(leave)}, devices={tag: leave})
                record.free, record.total = record.free.minus(gone), record.total.minus(gone)
                record.offline_devices[tag] = record.offline_devices.get(tag, ()) + leave
