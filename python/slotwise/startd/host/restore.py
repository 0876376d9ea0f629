"""Restores the claims of a previous startd on the same host.

Slots of the layout get their claims back; dynamic slots are made again out of what their partitionable slots have. A
claim whose slot no longer exists, or no longer fits, is given up. The starter reports afterwards what runs. Schedds
call for their claims; one that does not may have given them back while no startd, or one that could not write it down,
was there (:meth:`slotwise.startd.slot.states.Slot.lease_ends`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from slotwise.classad import ClassAd
from slotwise.errors import InvariantError
from slotwise.model.slot import SlotKind, VacateCode
from slotwise.startd.host.claim_ids import ClaimIds
from slotwise.startd.host.hook_notices import HookNotices
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.outbox import Forget
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.host.withheld_amounts import withhold
from slotwise.startd.records.saved_slot import SavedSlot
from slotwise.startd.records.slot_record import Activation, FetchedWork, Job, SlotRecord, Terms, WaitingClient
from slotwise.startd.slot.states import Cause, Claimed, Owner, Preempting, Slot, Waiting

Unpack = Callable[[bytes], list[ClassAd]]

_NO_SLOT = Cause(VacateCode.CLAIM_NOT_FOUND, "the slot that had the work is there no longer", tell_schedd=False)


class Restoration:
    """Puts saved slots back, before the startd serves anybody."""

    def __init__(
        self, host: HostState, claim_ids: ClaimIds, ads: SlotAds, hooks: HookNotices, unpack: Unpack, now: float
    ) -> None:
        self._host, self._claim_ids, self._ads, self._hooks = host, claim_ids, ads, hooks
        self._unpack, self._now = unpack, now

    def restore(self, saved_slots: Iterable[SavedSlot]) -> list[str]:
        """Put claims back; returns the run ids whose slots could not be, which must be ended."""
        lost: list[str] = []
        names = set()
        for saved in sorted(saved_slots, key=lambda saved: (saved.parent or "", saved.slot_id, saved.dslot_id)):
            names.add(saved.name)
            state = saved.state
            if not isinstance(state, Claimed | Preempting):
                if saved.parent is not None and saved.broken:
                    self._keep_broken(saved)
                self._give_back(saved)
                self._restore_record(saved)
                continue
            record = self._slot_for(saved)
            if record is not None and saved.parent is None:
                self._restore_record(saved)
            if record is None:
                if state.run is not None:
                    lost.append(state.run.run_id)
                    self._host.outbox.starter.append(Forget(state.run.run_id))
                self._give_back(saved)
                continue
            self._restore_claim(record, saved, state)
        for name in names.difference(self._host.slots.names()):
            self._host.outbox.save(name)
            self._host.outbox.removed[name] = None
        return lost

    def _give_back(self, saved: SavedSlot) -> None:
        """Fetched work of a slot that cannot have it any more, as the layout has changed or filler work came first."""
        found: list[tuple[str, str, bytes]] = [saved.fetched_work] if saved.fetched_work is not None else []
        state = saved.state
        if isinstance(state, Claimed | Preempting) and state.claim.fetched and state.run is not None:
            found.append((state.run.run_id, state.claim.claim_id, saved.job))
        record = self._host.slots.get(saved.name) or SlotRecord(
            Slot(saved.name, SlotKind.STATIC, Owner(), self._now, self._now), saved.slot_id, saved.type_number,
            saved.total, saved.total,
        )  # fmt: skip
        for run_id, claim_id, pack in found:
            job = self._job(pack)
            if job is not None:
                self._hooks.evicted(record, Activation(0, run_id, "", "", job, fetched=True), claim_id, _NO_SLOT)

    def _keep_broken(self, saved: SavedSlot) -> None:
        """A broken dynamic slot that stays (CONTINUE_TO_ADVERTISE_BROKEN_DYNAMIC_SLOTS)."""
        record = self._slot_for(saved)
        if record is not None:
            record.slot = replace(record.slot, state=Owner(), lasting=True)
            self._ads.show(record, self._now)

    def _restore_record(self, saved: SavedSlot) -> None:
        """Counters, breakage and withheld amounts."""
        record = self._host.slots.get(saved.name)
        if record is None:
            return
        slot = replace(record.slot, counters=saved.counters)
        record.last_run = saved.last_run
        if saved.broken and not slot.broken:
            slot = replace(slot, broken=saved.broken, broken_code=saved.broken_code)
            record.breakage = saved.breakage
        record.slot = slot
        if record.kind is SlotKind.PARTITIONABLE:  # as far as the slot of the present layout still has it
            known = record.withheld.pending
            record.withheld.pending = [entry for entry in saved.pending_withheld if entry not in known]
            for entry in saved.withheld:
                withhold(record, entry)
        self._host.outbox.touch(record.name)

    def _slot_for(self, saved: SavedSlot) -> SlotRecord | None:
        """The slot that the claim was on, made anew when it is a dynamic one."""
        slots = self._host.slots
        if saved.parent is None:
            record = slots.get(saved.name)
            if record is not None and record.kind is SlotKind.PARTITIONABLE:
                return record if self._host.settings.pslot_claim_s > 0 else None
            return record
        parent = slots.get(saved.parent)
        if parent is None or parent.kind is not SlotKind.PARTITIONABLE:
            return None
        if not saved.returned:
            try:
                left = parent.free.minus(saved.total)
            except InvariantError:
                return None
            if not left.nowhere_negative():
                return None
            parent.free = left
        slot = Slot(saved.name, SlotKind.DYNAMIC, saved.state, saved.entered_state, saved.entered_activity)
        child = parent.child(slot, saved.total, saved.dslot_id)
        child.slot_id, child.type_number, child.returned = saved.slot_id, saved.type_number, saved.returned
        parent.children.add(saved.name)
        slots.add(child)
        self._claim_ids.renew(child)
        self._host.outbox.advertise(parent.name)
        return child

    def _restore_claim(self, record: SlotRecord, saved: SavedSlot, state: Claimed | Preempting) -> None:
        claim = state.claim if state.claim.fetched else replace(state.claim, unheard_since=self._now)
        state = replace(state, claim=claim, waiting=self._work_that_waits(record, saved, state))
        record.slot = Slot(
            saved.name, record.kind, state, saved.entered_state, saved.entered_activity,
            counters=saved.counters, broken=saved.broken, broken_code=saved.broken_code,
            lasting=self._host.settings.broken_lasts and record.kind is SlotKind.DYNAMIC,
        )  # fmt: skip
        record.breakage, record.last_run = saved.breakage, saved.last_run
        record.terms = saved.terms
        if not state.claim.fetched:
            self._claim_ids.by_id[state.claim.claim_id] = record.name
        request = self._job(saved.request)
        record.request = request
        job = self._job(saved.job) or request
        if saved.activation is not None and job is not None:
            run_id, token, shadow = saved.activation
            record.activation = Activation(0, run_id, token, shadow, job, fetched=state.claim.fetched)
        if state.run is not None:
            self._host.slots.by_run[state.run.run_id] = record.name
        self._ads.show(record, self._now)
        self._host.outbox.touch(record.name)

    def _work_that_waits(self, record: SlotRecord, saved: SavedSlot, state: Claimed | Preempting) -> Waiting | None:
        """Fetched work that was accepted still waits; schedds repeat their requests that waited."""
        if saved.fetched_work is None or state.waiting is None or not state.waiting.claim.fetched:
            return None
        run_id, claim_id, pack = saved.fetched_work
        job = self._job(pack)
        if job is None:
            return None
        record.fetch.work = FetchedWork(Activation(0, run_id, "", "", job, fetched=True), claim_id, accepted=True)
        record.waiting = WaitingClient(job, Terms("", "", state.waiting.claim.submitter))
        return state.waiting

    def _job(self, pack: bytes) -> Job | None:
        if not pack:
            return None
        found = self._unpack(pack)
        return Job.of(pack, found[0], None, self._now) if found else None
