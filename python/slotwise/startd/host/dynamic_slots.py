"""Dynamic slots: carved out of partitionable ones for claim requests and fetched work; others are preempted for them.

A schedd may have the partitionable slot to itself for a while. Source: manual, ENABLE_CLAIMABLE_PARTITIONABLE_SLOTS.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from slotwise.classad.evaluate import attribute
from slotwise.model.resources import Resources, total
from slotwise.model.slot import SlotKind, VacateCode
from slotwise.startd.host.backfill_amounts import open_to
from slotwise.startd.host.claim_ids import ClaimIds
from slotwise.startd.host.claim_request import ClaimRequest, new_claim, refuse, why_no_match
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.outbox import Granted, ToSchedd
from slotwise.startd.host.policy_evaluation import PolicyEvaluation
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.host.transitions import ApplyEvent
from slotwise.startd.host.withheld_amounts import numbers_in_use
from slotwise.startd.policy.consumption import as_consumed, requested
from slotwise.startd.records.slot_record import Job, SlotRecord
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.retirement import own_remaining
from slotwise.startd.slot.states import Claimed, Drained, Slot, Unclaimed
from slotwise.startd.slot_types.carve import NotCarved, carve, lowest_free
from slotwise.startd.slot_types.devices import names_device

_AT_ONCE = "the machine's policy would end the claim at once"


def has_claim(record: SlotRecord, claim_id: str) -> bool:
    """Whether the partitionable slot itself is claimed with this id."""
    claim = record.slot.claim
    return record.kind is SlotKind.PARTITIONABLE and claim is not None and claim.claim_id == claim_id


class DynamicSlots:
    """Carves partitionable slots."""

    def __init__(
        self, host: HostState, claim_ids: ClaimIds, ads: SlotAds, policies: PolicyEvaluation, apply: ApplyEvent
    ) -> None:
        self._host, self._claim_ids, self._ads = host, claim_ids, ads
        self._policies, self._apply = policies, apply

    def request(self, record: SlotRecord, request: ClaimRequest, now: float) -> None:
        """Grant up to ``count`` dynamic slots of a partitionable one."""
        outbox, settings = self._host.outbox, self._host.settings
        closed = _closed(record, request)
        if closed is not None:
            refuse(outbox, request, *closed)
            return
        unfit = self._preempt_for(record, request, now)
        if unfit is not None:
            refuse(outbox, request, VacateCode.NO_MATCH, unfit)
            return
        self._ads.show(record, now)
        granted, reason = self._carve(record, request, max(1, request.count), now)
        if not granted:
            refuse(outbox, request, VacateCode.NO_MATCH, reason)
            return
        leftovers = request.want_leftovers and settings.gives_leftovers
        self._claim_ids.used(record, request.claim_id, now, renew=leftovers)
        left = (record.ids.current, record.name) if leftovers else ("", "")
        answer = Granted(tuple(granted), *left)
        outbox.schedds.append(ToSchedd(request.terms.schedd, request.serial, request.claim_id, answer))

    def coalesce(self, record: SlotRecord, parts: list[SlotRecord], request: ClaimRequest, now: float) -> None:
        """Make one dynamic slot for the request of what claimed ones of a partitionable slot have; they go.

        The new slot has no more than they had, whatever else of the partitionable slot is free.
        """
        outbox = self._host.outbox
        closed = _closed(record, request)
        if closed is None and any(part.returned for part in parts):
            closed = VacateCode.BEING_PREEMPTED, "a claim is being ended already"
        if closed is not None:
            refuse(outbox, request, *closed)
            return
        pool = total([part.total for part in parts])
        for part in parts:
            self._return(record, part, now)
        self._ads.show(record, now)
        self._ads.show_amounts(record, pool)
        mismatch = partial(why_no_match, record.ad, request.job.ad, now)
        taken = self._amounts(record, request.job, now, mismatch, of=pool)
        child = self._claimed_child(record, taken, request, now) if not isinstance(taken, str) else taken
        self._ads.show(record, now)
        if isinstance(child, str):
            refuse(outbox, request, VacateCode.NO_MATCH, child)
            return
        outbox.schedds.append(ToSchedd(request.terms.schedd, request.serial, request.claim_id, Granted((child,))))

    def request_pslot(self, record: SlotRecord, request: ClaimRequest, now: float) -> None:
        """Grant the partitionable slot itself for a while: only its schedd may carve it then."""
        outbox, settings = self._host.outbox, self._host.settings
        closed = _closed(record, request)
        if closed is None and record.slot.claim is not None:
            closed = VacateCode.UNCLAIMED, "the partitionable slot is claimed already"
        if closed is None and settings.requesting(record.slot_id, record.type_number).consumption:
            closed = VacateCode.BAD_REQUEST, "a partitionable slot with a consumption policy cannot be claimed itself"
        if closed is not None:
            refuse(outbox, request, *closed)
            return
        self._ads.show(record, now)
        longest = settings.pslot_claim_s
        time_s = request.pslot_claim_s if 0 < request.pslot_claim_s < longest else longest
        before = record.request, record.terms
        record.request, record.terms = request.job, request.terms
        claim = replace(new_claim(settings, record, request, request.claim_id, now), ends_at=now + time_s)
        self._apply(record, ev.ClaimRequested(claim), now, quiet=True)
        if record.slot.claim is None:
            record.request, record.terms = before
            refuse(outbox, request, VacateCode.NO_MATCH, _AT_ONCE)
            return
        granted, _ = self._carve(record, request, request.count, now)
        answer = Granted(((request.claim_id, record.name), *granted))
        outbox.schedds.append(ToSchedd(request.terms.schedd, request.serial, request.claim_id, answer))

    def carve_for_work(
        self, record: SlotRecord, job: Job, claim: Callable[[SlotRecord], None], now: float
    ) -> SlotRecord | str:
        """A dynamic slot for fetched work, which ``claim`` puts into it, or why there is none."""
        if not isinstance(record.slot.state, Unclaimed):
            return f"the slot is in state {record.slot.state.state}"
        taken = self._amounts(record, job, now, lambda: None)
        if isinstance(taken, str):
            return taken
        child = self._add_child(record, taken, now)
        claim(child)
        if child.slot.claim is None:
            if child.name in self._host.slots:
                self._apply(child, ev.Evaluate(), now)
            return "the dynamic slot does not take it"
        self._claim_ids.used(record, record.ids.current, now)
        self._host.outbox.touch(record.name)
        self._ads.show(child, now)
        return child

    # -------------------------------------------------------------------------------------------------------- carving

    def _carve(
        self, record: SlotRecord, request: ClaimRequest, count: int, now: float
    ) -> tuple[list[tuple[str, str]], str]:
        """Up to ``count`` dynamic slots for a request: their claim ids and names, and why there are no more."""
        granted: list[tuple[str, str]] = []
        reason = ""
        for _ in range(count):
            taken = self._amounts(record, request.job, now, lambda: why_no_match(record.ad, request.job.ad, now))
            if isinstance(taken, str):
                reason = taken
                break
            child = self._claimed_child(record, taken, request, now)
            if isinstance(child, str):
                reason = child
                break
            granted.append(child)
            self._ads.show_amounts(record, open_to(self._host.slots, record))
        return granted, reason

    def _amounts(
        self,
        record: SlotRecord,
        job: Job,
        now: float,
        mismatch: Callable[[], str | None],
        of: Resources | None = None,
    ) -> Resources | str:
        """What a dynamic slot for the job is made of, or why there is none. ``of``: instead of all that is free."""
        settings = self._host.settings
        free = of if of is not None else open_to(self._host.slots, record)
        how = settings.requesting(record.slot_id, record.type_number)
        wanted = requested(how, record.ad, job.ad, free, now)
        if isinstance(wanted, str):
            return wanted
        if (reason := mismatch()) is not None:
            return reason
        swap_of = record.total.memory_mib if settings.proportional_swap else 0
        taken = carve(free, wanted, proportional_swap_of=swap_of, suits=self._suits(job, now))
        return taken.reason if isinstance(taken, NotCarved) else taken

    def _suits(self, job: Job, now: float) -> Callable[[str, str], bool] | None:
        """``Require<tag>`` of the job over a device's properties; None when nothing is required."""
        settings = self._host.settings
        machine = settings.resources
        required = {tag: name for tag in (*machine.devices, *machine.shared) if (name := f"Require{tag}") in job.ad}
        if not required:
            return None

        def suits(tag: str, device: str) -> bool:
            if tag not in required:
                return True
            wanted = attribute(job.ad, required[tag], settings.device(tag, device), now=now)
            return names_device(wanted, device)

        return suits

    def _claimed_child(
        self, record: SlotRecord, taken: Resources, request: ClaimRequest, now: float
    ) -> tuple[str, str] | str:
        """Carve one dynamic slot and claim it: claim id and name, or why it cannot be.

        The machine is asked once more, now of what was carved: START may tell dynamic slots from others.
        """
        child = self._add_child(record, taken, now)
        name, claim_id = child.name, child.ids.current
        how = self._host.settings.requesting(record.slot_id, record.type_number)
        asking = as_consumed(how.consumption, record.ad, request.job.ad, now)
        unfit = asking if isinstance(asking, str) else why_no_match(child.ad, asking, now)
        if unfit is None:
            child.request, child.terms = request.job, request.terms
            claim = new_claim(self._host.settings, child, request, claim_id, now)
            self._apply(child, ev.ClaimRequested(claim), now, quiet=True)
            unfit = None if child.slot.claim is not None else _AT_ONCE
        if unfit is not None:
            if name in self._host.slots:
                self._apply(child, ev.Evaluate(), now)
            return unfit
        self._host.outbox.touch(record.name)
        self._ads.show(child, now)
        return claim_id, name

    def _add_child(self, record: SlotRecord, taken: Resources, now: float) -> SlotRecord:
        """A dynamic slot of these amounts, with a claim id of its own."""
        slots, lasting = self._host.slots, self._host.settings.broken_lasts
        number = lowest_free({child.dslot_id for child in slots.children(record)} | numbers_in_use(record))
        local, _, host = record.name.partition("@")
        name = f"{local}_{number}@{host}"
        slot = Slot(name, SlotKind.DYNAMIC, Unclaimed(), now, now, draining=record.slot.draining, lasting=lasting)
        child = record.child(slot, taken, number)
        record.free = record.free.minus(taken)
        record.children.add(name)
        slots.add(child)
        self._host.outbox.removed.pop(name, None)
        self._claim_ids.add(child)
        self._ads.show(child, now)
        return child

    def _preempt_for(self, record: SlotRecord, request: ClaimRequest, now: float) -> str | None:
        """Pslot preemption: end the dynamic claims that the schedd names, if all may be; their amounts come back now.

        Returns why they may not be.
        """
        victims: list[SlotRecord] = []
        for claim_id in request.preempt:
            victim = self._claim_ids.slot_of(claim_id)
            if victim is None or victim.parent != record.name or victim.returned or victim in victims:
                return "a claim that was to make room is gone"
            run = victim.slot.run
            if run is not None and own_remaining(victim.slot, self._policies.evaluate(victim, now), run, now) > 0:
                return "a claim that was to make room has retirement time left"
            victims.append(victim)
        for victim in victims:
            self._return(record, victim, now)
        return None

    def _return(self, record: SlotRecord, part: SlotRecord, now: float) -> None:
        """End the claim on a dynamic slot; what it has is free at once."""
        record.free = record.free.plus(part.total)
        part.returned = True
        self._host.outbox.touch(record.name)
        self._apply(part, ev.EvictedForPslot(), now)


def _closed(record: SlotRecord, request: ClaimRequest) -> tuple[int, str] | None:
    """Why a partitionable slot gives no dynamic ones now, if so."""
    slot = record.slot
    if slot.broken:
        return VacateCode.BROKEN, f"the slot is broken: {slot.broken}"
    if slot.shutdown:
        return VacateCode.SHUTDOWN, "the startd is shutting down"
    if isinstance(slot.state, Unclaimed) or (isinstance(slot.state, Drained) and slot.draining):
        return None
    if isinstance(slot.state, Claimed):
        same = record.terms.schedd == request.terms.schedd
        return None if same else (VacateCode.UNCLAIMED, "another schedd has the partitionable slot to itself")
    return VacateCode.UNCLAIMED, f"the slot is in state {slot.state.state}"
