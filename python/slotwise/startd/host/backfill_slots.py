"""Backfill slots (SLOT_TYPE_<N>_BACKFILL): a second division of the machine, for jobs that run where nobody else does.

Primary and backfill slots are made of the same machine. What primary slots have in use, backfill slots do not offer;
and what backfill jobs have when a primary slot takes it is a conflict, which the slot's ad names (``ResourceConflict``)
and which makes the job leave as PREEMPT would. Source: manual, SLOT_TYPE_<N>_BACKFILL; HTCondor's machine ads.
"""

from __future__ import annotations

from slotwise.model.resources import Resources
from slotwise.startd.host import backfill_amounts
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.host.transitions import ApplyEvent
from slotwise.startd.slot import events as ev


class BackfillSlots:
    """Keeps backfill slots out of the way of primary ones."""

    def __init__(self, host: HostState, ads: SlotAds, apply: ApplyEvent) -> None:
        self._host, self._ads, self._apply = host, ads, apply
        #: What primary slots had in use when backfill slots were updated last.
        self._primary_in_use = Resources()

    def settle(self, now: float) -> None:
        """Update what backfill slots offer; those whose conflicts have changed evaluate their policy at once."""
        host = self._host
        if not any(record.backfill for record in host.slots):
            return
        primary = backfill_amounts.used(host.slots, backfill=False)
        if primary != self._primary_in_use:
            self._primary_in_use = primary
            host.outbox.own_ad = True
            for record in host.slots:
                if record.backfill and record.parent is None:
                    self._ads.show(record, now)
                    host.outbox.advertise(record.name)
        found = backfill_amounts.conflicts(host.slots)
        for record in host.slots:
            if not record.backfill or record.conflict == found.get(record.name, ""):
                continue
            record.conflict = found.get(record.name, "")
            self._ads.show(record, now)
            host.outbox.advertise(record.name)
            self._apply(record, ev.Evaluate(), now)

    def daemon_attributes(self) -> dict[str, float]:
        """``TotalInUse<R>``, ``TotalBackfillInUse<R>`` and ``ExcessBackfill<R>`` of the startd's own ad."""
        slots = self._host.slots
        sums = {
            "TotalInUse": backfill_amounts.used(slots, backfill=False),
            "TotalBackfillInUse": backfill_amounts.used(slots, backfill=True),
            "ExcessBackfill": backfill_amounts.excess(slots),
        }
        tags = ("Cpus", "Memory", "Disk", *self._host.settings.resources.custom)
        return {
            f"{prefix}{tag}": backfill_amounts.amount_of(amounts, tag)
            for prefix, amounts in sums.items()
            for tag in tags
        }
