"""Whether a slot takes work that a hook has fetched, and what follows. Decides; no I/O.

The order is HTCondor's: a slot that still makes a job leave takes nothing; then the slot's Requirements are asked of
the work (the work's own are not, as in HTCondor); a slot in use takes only what it ranks higher than its claim. The
hook that replies hears of either, and a partitionable slot gives the work a dynamic one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import attribute, truth
from slotwise.classad.long_form import on_one_line
from slotwise.errors import UsageError
from slotwise.model.claim import Claim, lease_length
from slotwise.model.slot import SlotKind, State, VacateCode
from slotwise.startd.fetch import work
from slotwise.startd.host.claim_ids import ClaimIds
from slotwise.startd.host.claims import run_of
from slotwise.startd.host.dynamic_slots import DynamicSlots
from slotwise.startd.host.hook_calls import REPLY_FETCH, two_ads
from slotwise.startd.host.hook_notices import HookNotices
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.host.transitions import ApplyEvent
from slotwise.startd.records.slot_record import Activation, FetchedWork, Job, SlotRecord, Terms, WaitingClient
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Cause, Claimed
from slotwise.table import pack_ads

_log = logging.getLogger(__name__)


class WorkOffers:
    """Offers fetched work to slots."""

    def __init__(
        self,
        host: HostState,
        claim_ids: ClaimIds,
        ads: SlotAds,
        dynamic_slots: DynamicSlots,
        hooks: HookNotices,
        apply: ApplyEvent,
    ) -> None:
        self._host, self._claim_ids, self._ads = host, claim_ids, ads
        self._dynamic_slots, self._hooks, self._apply = dynamic_slots, hooks, apply

    def offer(
        self, record: SlotRecord, ad: ClassAd, owner_of: Callable[[ClassAd], str], call_id: str, now: float
    ) -> bool:
        """Offer ``ad``, which a hook has fetched, to the slot; whether it, or a dynamic one of it, takes the work.

        :param owner_of: whose the work is; raises UsageError with the reason when the ad does not say.
        :param call_id: names the fetch; the run's id is made of it.
        """
        self._ads.show(record, now)
        keyword = self._host.settings.hook_keyword(record.slot_id, record.type_number)
        ad = work.completed(ad, keyword, static=record.kind is SlotKind.STATIC, now=now)
        reason = work.unfit(ad, now=now)
        user = ""
        if not reason:
            try:
                user = owner_of(ad)
            except UsageError as error:
                reason = str(error)
        job = Job.of(pack_ads([ad]), ad, None, now, user=user)
        reason = reason or _unwilling(record, job, now)
        before, taken_by = record.ad.copy(), record
        if not reason:
            found = self._take(record, job, user, call_id, now)
            if isinstance(found, str):
                reason = found
            else:
                taken_by = found
        if reason:
            _log.warning("%s: rejected fetched work %s: %s", record.name, job.job_id, on_one_line(reason))
            self._hooks.notify(record, REPLY_FETCH, two_ads(job.ad, before), call_id, ("reject",))
            self._apply(record, ev.NoWorkFetched("the work that was fetched is not taken"), now)
            return False
        slot_ad = before if taken_by is record else taken_by.ad
        claim_id = _claim_of_work(taken_by)
        self._ads.show(taken_by, now)
        _log.info("%s: accepted fetched work %s for %s", taken_by.name, job.job_id, user)
        self._hooks.notify(taken_by, REPLY_FETCH, two_ads(job.ad, slot_ad, claim_id), call_id, ("accept",))
        return True

    def _take(self, record: SlotRecord, job: Job, user: str, call_id: str, now: float) -> SlotRecord | str:
        """The slot that has the work now, or why none."""
        if record.kind is not SlotKind.PARTITIONABLE:
            return self._take_here(record, job, user, call_id, now)
        reasons: list[str] = []

        def claim(child: SlotRecord) -> None:
            child.fetch.attempts = record.fetch.attempts.end(
                now, failed=False
            )  # the slot has just got what was fetched
            found = self._take_here(child, job, user, call_id, now)
            if isinstance(found, str):
                reasons.append(found)

        child = self._dynamic_slots.carve_for_work(record, job, claim, now)
        return reasons[0] if reasons else child

    def _take_here(self, record: SlotRecord, job: Job, user: str, call_id: str, now: float) -> SlotRecord | str:
        lease_s = lease_length(job.lease_s, None)
        rank = self._host.settings.policy(record.slot_id, record.type_number).rank(record.ad, job.ad, now)
        claim = Claim(self._claim_ids.new_id(), "", now, lease_s, now, rank, user, fetched=True)
        activation = Activation(0, f"{job.job_id}#{call_id}", "", "", job, fetched=True)
        run = run_of(activation, now)
        before_offer = record.fetch.work, record.request, record.terms
        terms = Terms("", "", user)
        in_use = isinstance(record.slot.state, Claimed)
        displaced, record.fetch.work = record.fetch.work, FetchedWork(activation, claim.claim_id)
        if not in_use:
            record.request, record.terms = job, terms
        outcome = self._apply(record, ev.WorkFetched(claim, run), now)
        kinds = {type(action) for action in outcome.actions}
        if displaced is not None and kinds & {ev.ClaimQueued, ev.StartRun}:
            self._hooks.not_started(record, displaced, Cause(VacateCode.PREEMPTED_BY_RANK, "better work was fetched"))
        if ev.StartRun in kinds:
            record.request, record.terms, record.waiting = job, terms, None
            return record
        if ev.ClaimQueued in kinds:
            record.fetch.work = FetchedWork(activation, claim.claim_id, accepted=True)
            if in_use:
                record.waiting = WaitingClient(job, terms)
            self._host.outbox.save(record.name)
            self._ads.show(record, now)  # policies may refer to PreemptingRank
            self._apply(record, ev.Evaluate(), now)
            return record
        record.fetch.work, record.request, record.terms = before_offer
        refusals = (action for action in outcome.actions if isinstance(action, ev.ClaimRefused))
        return next(
            (action.reason for action in refusals if action.claim_id == claim.claim_id), "the slot does not take it"
        )


def _unwilling(record: SlotRecord, job: Job, now: float) -> str:
    if record.slot.state.state is State.PREEMPTING:
        return "the slot still makes its job leave"
    if not truth(attribute(record.ad, "Requirements", job.ad, now=now)):
        return "the machine's Requirements do not accept the job"
    return ""


def _claim_of_work(record: SlotRecord) -> str:
    """The id of the claim that the work just taken has, or will have."""
    if record.fetch.work is not None:
        return record.fetch.work.claim_id
    return record.slot.claim.claim_id if record.slot.claim is not None else ""
