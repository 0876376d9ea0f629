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
from slotwise.startd.host import claims, dynamic_slots, hook_notices
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.host.hook_calls import REPLY_FETCH, two_ads
from slotwise.startd.records.slot_record import Activation, Coming, Holding, Job, Terms
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Cause, Claimed
from slotwise.table import pack_ads

_log = logging.getLogger(__name__)


def offer(
    point: ExecutionPoint, h: Holding, ad: ClassAd, owner_of: Callable[[ClassAd], str], call_id: str, now: float
) -> bool:
    """A hook has fetched ``ad`` for the slot; whether the slot, or a dynamic one of it, takes it.

    :param owner_of: whose the work is; raises UsageError with the reason when the ad does not say.
    :param call_id: names the fetch; the run's id is made of it.
    """
    point.show(h, now)
    keyword = point.settings.hook_keyword(h.slot_id, h.type_number)
    ad = work.completed(ad, keyword, static=h.kind is SlotKind.STATIC, now=now)
    reason = work.unfit(ad, now=now)
    user = ""
    if not reason:
        try:
            user = owner_of(ad)
        except UsageError as error:
            reason = str(error)
    job = Job.of(pack_ads([ad]), ad, None, now, user=user)
    reason = reason or _unwilling(h, job, now)
    before, taken_by = h.ad.copy(), h
    if not reason:
        found = _take(point, h, job, user, call_id, now)
        if isinstance(found, str):
            reason = found
        else:
            taken_by = found
    if reason:
        _log.warning("%s: rejected fetched work %s: %s", h.name, job.job_id, on_one_line(reason))
        hook_notices.tell(point, h, REPLY_FETCH, two_ads(job.ad, before), call_id, ("reject",))
        point.happen(h, ev.NoWorkFetched("the work that was fetched is not taken"), now)
        return False
    slot_ad = before if taken_by is h else taken_by.ad
    claim_id = _claim_of_work(taken_by)
    point.show(taken_by, now)
    _log.info("%s: accepted fetched work %s for %s", taken_by.name, job.job_id, user)
    hook_notices.tell(point, taken_by, REPLY_FETCH, two_ads(job.ad, slot_ad, claim_id), call_id, ("accept",))
    return True


def _unwilling(h: Holding, job: Job, now: float) -> str:
    if h.slot.state.state is State.PREEMPTING:
        return "the slot still makes its job leave"
    if not truth(attribute(h.ad, "Requirements", job.ad, now=now)):
        return "the machine's Requirements do not accept the job"
    return ""


def _take(point: ExecutionPoint, h: Holding, job: Job, user: str, call_id: str, now: float) -> Holding | str:
    """The slot that has the work now, or why none."""
    if h.kind is not SlotKind.PARTITIONABLE:
        return _take_here(point, h, job, user, call_id, now)
    reasons: list[str] = []

    def claim(child: Holding) -> None:
        child.attempts = h.attempts.end(now, failed=False)  # the slot has just got what was fetched
        found = _take_here(point, child, job, user, call_id, now)
        if isinstance(found, str):
            reasons.append(found)

    child = dynamic_slots.carve_for_work(point, h, job, claim, now)
    return reasons[0] if reasons else child


def _take_here(point: ExecutionPoint, h: Holding, job: Job, user: str, call_id: str, now: float) -> Holding | str:
    lease_s = lease_length(job.values.get("JobLeaseDuration"), None)
    rank = point.settings.policy(h.slot_id, h.type_number).rank(h.ad, job.ad, now)
    claim = Claim(point.new_id(), "", now, lease_s, now, rank, user, fetched=True)
    activation = Activation(0, f"{job.job_id}#{call_id}", "", "", job, fetched=True)
    run = claims.run_of(activation, now)
    former = h.coming, h.request, h.terms
    terms = Terms("", "", user)
    in_use = isinstance(h.slot.state, Claimed)
    displaced, h.coming = h.coming, Coming(activation, claim.claim_id)
    if not in_use:
        h.request, h.terms = job, terms
    outcome = point.happen(h, ev.WorkFetched(claim, run), now)
    kinds = {type(action) for action in outcome.actions}
    if displaced is not None and kinds & {ev.ClaimQueued, ev.StartRun}:
        hook_notices.evict(point, h, displaced, Cause(VacateCode.PREEMPTED_BY_RANK, "better work was fetched"))
    if ev.StartRun in kinds:
        h.request, h.terms, h.waiting, h.waiting_terms = job, terms, None, None
        return h
    if ev.ClaimQueued in kinds:
        h.coming = Coming(activation, claim.claim_id, accepted=True)
        if in_use:
            h.waiting, h.waiting_terms = job, terms
        point.outbox.dirty[h.name] = None
        point.show(h, now)  # policies may look at PreemptingRank
        point.happen(h, ev.Evaluate(), now)
        return h
    h.coming, h.request, h.terms = former
    refusals = (action for action in outcome.actions if isinstance(action, ev.ClaimRefused))
    return next(
        (action.reason for action in refusals if action.claim_id == claim.claim_id), "the slot does not take it"
    )


def _claim_of_work(h: Holding) -> str:
    """The id of the claim that the work just taken has, or will have."""
    if h.coming is not None:
        return h.coming.claim_id
    return h.slot.claim.claim_id if h.slot.claim is not None else ""
