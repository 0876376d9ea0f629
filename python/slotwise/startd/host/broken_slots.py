"""Slots that cannot be used any more, and amounts that dynamic slots take with them when they break.

A slot breaks when something of a job cannot be removed. A broken dynamic slot vanishes like any other, but what it was
made of does not come back (``BrokenSlot<R>`` of its partitionable slot). What a job left behind may become known only
when its slot has gone; then the amounts are withheld as soon as they are free. Source: manual, machine ad attributes.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from slotwise.model.resources import Resources
from slotwise.model.slot import BrokenCode, SlotKind
from slotwise.startd.host.breakages import Breakages
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.host.transitions import ApplyEvent
from slotwise.startd.host.withheld_amounts import withhold_pending
from slotwise.startd.records.breakage import Breakage, Withheld, WithheldAmounts
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot import events as ev

_log = logging.getLogger(__name__)

#: What is repaired once the leftovers could be removed; processes that cannot be killed are another matter.
_CLEANABLE = (BrokenCode.UNCLEAN, BrokenCode.UNCLEAN_VOLUME)


class BrokenSlots:
    """Breaks slots because of what runs left behind, and repairs them."""

    def __init__(self, host: HostState, ads: SlotAds, breakages: Breakages, apply: ApplyEvent) -> None:
        self._host, self._ads, self._breakages, self._apply = host, ads, breakages, apply

    def report_leftover(self, name: str, amounts: Resources, breakage: Breakage, now: float) -> None:
        """A run that is over has left something behind: no further job for its slot, or for what that was made of."""
        slots = self._host.slots
        for record in slots:
            if record.last_run == breakage.run_id or (record.name == name and record.kind is not SlotKind.DYNAMIC):
                self._break(record, breakage, now)
                return
        local, _, host = name.partition("@")
        parent = slots.get(f"{local.rpartition('_')[0]}@{host}")
        if parent is None or parent.kind is not SlotKind.PARTITIONABLE:
            return
        known = (*parent.withheld.entries, *parent.withheld.pending)
        if all(entry.breakage.run_id != breakage.run_id for entry in known):
            parent.withheld.pending.append(Withheld(name, amounts, replace(breakage, at=now)))
            withhold_pending(parent)
            self._host.outbox.own_ad = True
            self._host.outbox.touch(parent.name)

    def _break(self, record: SlotRecord, breakage: Breakage, now: float) -> None:
        if record.slot.broken:
            return
        self._breakages.mark(record, breakage.reason, breakage.code, now, breakage.run_id)
        if record.slot.run is None:
            self._apply(record, ev.FoundBroken(breakage.reason, breakage.code), now)
        else:
            self._apply(record, ev.MarkedBroken(breakage.reason, breakage.code), now)
        self._host.outbox.touch(record.name)

    def repaired(self, run_id: str, now: float) -> None:
        """What a run had left behind has been removed after all: repair what it broke."""

        def clean(breakage: Breakage | None) -> bool:
            return breakage is not None and breakage.run_id == run_id and breakage.code in _CLEANABLE

        for record in self._host.slots:
            back = [entry for entry in record.withheld.entries if clean(entry.breakage)]
            pending = [entry for entry in record.withheld.pending if not clean(entry.breakage)]
            broken = record.slot.broken is not None and clean(record.breakage)
            if not back and not broken and len(pending) == len(record.withheld.pending):
                continue
            for entry in back:
                record.withheld.entries.remove(entry)
                record.withheld.total = record.withheld.total.minus(entry.amounts)
                record.free = record.free.plus(entry.amounts)
            record.withheld.pending = pending
            withhold_pending(record)
            if broken:
                record.breakage = None
                self._apply(record, ev.Repaired(), now)
            self._host.outbox.touch(record.name)
            self._host.outbox.own_ad = True
            _log.info("%s: the leftovers of run %s have been removed", record.name, run_id)
            self._ads.show(record, now)
            self._apply(record, ev.Evaluate(), now)

    def clear(self, now: float) -> None:
        """Forget all breakages, at an orderly stop: whoever starts the startd again has looked after them."""
        for record in self._host.slots:
            if record.withheld.entries or record.withheld.pending or record.slot.broken:
                record.withheld, record.breakage = WithheldAmounts(), None
                self._apply(record, ev.Repaired(), now)
                self._host.outbox.save(record.name)
