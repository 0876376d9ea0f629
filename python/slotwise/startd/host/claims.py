"""What schedds ask for, decided: claims, carving, activations, releases, keep-alives.

Functions over an :class:`~slotwise.startd.host.execution_point.ExecutionPoint`; answers go to its outbox.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slotwise.classad.evaluate import attribute, truth
from slotwise.model.claim import Run
from slotwise.model.slot import BrokenCode, SlotKind, State, VacateCode
from slotwise.startd.host import broken_slots, dynamic_slots
from slotwise.startd.host import claim_ids as capabilities
from slotwise.startd.host.claim_request import Ask, new_claim, refuse, why_no_match, why_not_to_its_match
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.host.outbox import RefusedRun, ToSchedd
from slotwise.startd.records.slot_record import Activation, Holding, Job
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Backfill, Busy, Claimed, Cleaning, Idle, Matched, Suspended

#: How long an activation may wait for the former run's end (seconds).
QUEUED_ACTIVATION_S = 20.0


def request(point: ExecutionPoint, ask: Ask, now: float) -> None:
    """A schedd wants a slot, or up to ``count`` like dynamic slots of a partitionable one."""
    h = point.holding_of_claim(ask.claim_id)
    if h is None:
        refuse(point, ask, VacateCode.CLAIM_NOT_FOUND, "no slot has this claim id (any more)")
    elif not capabilities.carves(h, ask.claim_id, now) and not dynamic_slots.holds_whole(h, ask):
        refuse(point, ask, VacateCode.OLD_CLAIM, "the claim id is in use already")
    elif h.kind is SlotKind.PARTITIONABLE and ask.whole and point.settings.pslot_claim_s > 0:
        dynamic_slots.request_whole(point, h, ask, now)
    elif h.kind is SlotKind.PARTITIONABLE:
        dynamic_slots.request_dynamic(point, h, ask, now)
    else:
        _request_single(point, h, ask, now)


def _request_single(point: ExecutionPoint, h: Holding, ask: Ask, now: float) -> None:
    point.show(h, now)
    matched = isinstance(h.slot.state, Matched)
    mismatch = why_not_to_its_match(point, h, ask.job, now) if matched else why_no_match(h, ask.job, now)
    if mismatch is not None:
        refuse(point, ask, VacateCode.NO_MATCH, mismatch)
        if matched:
            point.happen(h, ev.MatchFailed(), now)
        return
    claim = new_claim(h, point, ask, ask.claim_id, now)
    h.serials[ask.claim_id], h.askers[ask.claim_id] = ask.serial, ask.terms.schedd_name
    if isinstance(h.slot.state, Claimed):
        former = (h.waiting, h.waiting_terms)
        before = h.slot.state.waiting
        outcome = point.happen(h, ev.ClaimRequested(claim), now)
        if any(isinstance(action, ev.ClaimQueued) for action in outcome.actions):
            h.waiting, h.waiting_terms = ask.job, ask.terms
            point.show(h, now)  # policies may look at PreemptingRank
            point.happen(h, ev.Evaluate(), now)
        elif before is not None:
            h.waiting, h.waiting_terms = former
        return
    if isinstance(h.slot.state, Backfill) and h.slot.state.claim is not None:
        del h.serials[ask.claim_id], h.askers[ask.claim_id]
        refuse(point, ask, VacateCode.NO_MATCH, "another claim waits for the end of the filler work")
        return
    h.request, h.terms = ask.job, ask.terms
    point.happen(h, ev.ClaimRequested(claim), now)
    waits = isinstance(h.slot.state, Backfill) and h.slot.state.claim is not None
    if h.slot.claim is None and not waits:
        h.request = None


# -------------------------------------------------------------------------------------------------------- activation


def activate(point: ExecutionPoint, claim_id: str, what: Activation, now: float, *, schedd: str = "") -> None:
    """Start a job under a claim, at once or as soon as the former one has gone."""
    h = point.holding_of_claim(claim_id)
    if h is None:
        point.outbox.schedds.append(
            ToSchedd(
                schedd, what.serial, claim_id, RefusedRun(what.run_id, VacateCode.CLAIM_NOT_FOUND, "no such claim")
            )
        )
        return
    state = h.slot.state
    if h.slot.run is not None and h.slot.run.run_id == what.run_id:
        return  # said twice, after a break of the stream
    if h.queued is not None and h.queued.run_id == what.run_id:
        return
    if isinstance(state, Claimed) and isinstance(state.doing, Busy | Suspended | Cleaning) and not h.queued:
        h.queued = replace(what)
        h.queued_at = now
        return
    h.serials[claim_id] = what.serial
    refusal = _unfit(point, h, what.job, now)
    if refusal is not None:
        point.tell(h, claim_id, RefusedRun(what.run_id, *refusal))
        return
    former = h.activation
    h.activation = what
    run = run_of(what, now)
    point.happen(h, ev.Activated(run), now)
    if h.slot.run is None or h.slot.run.run_id != what.run_id:
        h.activation = former


def _unfit(point: ExecutionPoint, h: Holding, job: Job, now: float) -> tuple[int, str] | None:
    if "JobUniverse" not in job.values:
        return VacateCode.BAD_REQUEST, "the job has no JobUniverse"
    if h.slot.state.state is not State.CLAIMED:
        return None  # the state machine says why
    knobs = point.settings.slot_knobs(h.slot_id, h.type_number)
    if knobs.health and not truth(attribute(h.ad, "Healthy", None, now=now)):
        return VacateCode.UNHEALTHY, "the slot is not healthy"
    mismatch = why_no_match(h, job, now)
    return None if mismatch is None else (VacateCode.NO_MATCH, mismatch)


def run_of(what: Activation, now: float) -> Run:
    """The run that an activation begins, with what the job says of its end."""
    values = what.job.values
    vacate = values.get("JobMaxVacateTime", values.get("KillSigTimeout"))
    return Run(
        what.run_id,
        now,
        vacate_s=_seconds(vacate),
        retirement_s=_seconds(values.get("MaxJobRetirementTime")),
        nice_user=truth(values.get("NiceUser")),
    )


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def run_gone(
    point: ExecutionPoint,
    run_id: str,
    now: float,
    *,
    broken: str | None = None,
    code: int = BrokenCode.UNCLEAN,
    finished: bool = False,
    reason: str = "",
) -> bool:
    """The starter is done with a run: the slot is free for the next one. False when no slot has this run.

    ``finished``: fetched work came to its end; ``reason``: why it did not.
    """
    h = point.holdings.get(point.by_run.pop(run_id, ""))
    if h is None or h.slot.run is None or h.slot.run.run_id != run_id:
        return False
    if broken is not None:
        broken_slots.mark(point, h, broken, code, now, run_id)
    h.last_run = run_id
    point.statistics.ended(now - h.slot.run.activated_at, h.slot.run.ran(now), now)
    h.usage, h.condor_load, h.cpu_seen = {}, 0.0, None
    h.finished = finished
    unfinished = "" if finished else reason or "The starter has lost the run"
    h.attempts = h.attempts if finished or not _is_fetched(h) else h.attempts.work_failed()
    point.happen(h, ev.RunGone(broken, code, unfinished if _is_fetched(h) else ""), now)
    h.activation = None if h.slot.run is None else h.activation
    if h.parent is None and h.slot.run is None:
        point.park_offline(h)
    if not any(other.slot.run is not None for other in point.holdings.values()):
        point.idle_since = now
    queued, claim = h.queued, h.slot.claim
    if queued is not None and claim is not None and _idle(h):
        h.queued = None
        activate(point, claim.claim_id, queued, now)
    return True


def _is_fetched(h: Holding) -> bool:
    return h.slot.claim is not None and h.slot.claim.fetched


def _idle(h: Holding) -> bool:
    return isinstance(h.slot.state, Claimed) and isinstance(h.slot.state.doing, Idle)


def drop_stale_activations(point: ExecutionPoint, now: float) -> None:
    """Refuse activations that waited too long for the former run's end."""
    for h in point.holdings.values():
        if h.queued is not None and now - h.queued_at >= QUEUED_ACTIVATION_S and h.slot.claim is not None:
            refusal = RefusedRun(h.queued.run_id, VacateCode.STILL_CLEANING, "the former job is still being cleaned up")
            point.outbox.schedds.append(ToSchedd(h.terms.schedd_name, h.queued.serial, h.slot.claim.claim_id, refusal))
            h.queued = None


# ------------------------------------------------------------------------------------------------- the claim's life


def keep_alive(point: ExecutionPoint, claim_ids: Iterable[str], now: float) -> list[str]:
    """Renew leases; returns the claims that are unknown."""
    unknown = []
    for claim_id in claim_ids:
        h = point.holding_of_claim(claim_id)
        if h is None or h.slot.claim is None or h.slot.claim.claim_id != claim_id:
            unknown.append(claim_id)
        else:
            point.happen(h, ev.KeptAlive(), now)
    return unknown


def tell_claim(point: ExecutionPoint, claim_id: str, serial: int, stimulus: ev.SlotEvent, now: float) -> bool:
    """Something happens to a claim; False when there is no such claim. ``serial`` waits for the claim's end."""
    h = point.holding_of_claim(claim_id)
    if h is None or h.slot.claim is None or h.slot.claim.claim_id != claim_id:
        return False
    if serial:
        h.serials[claim_id] = serial
    point.happen(h, stimulus, now)
    return True


def schedd_lost(point: ExecutionPoint, schedd: str, now: float) -> None:
    """A schedd's stream broke: claims live on, but requests that wait are withdrawn."""
    for h in list(point.holdings.values()):
        if h.waiting_terms is not None and h.waiting_terms.schedd_name == schedd:
            h.waiting = h.waiting_terms = None
            point.happen(h, ev.PreempterWithdrawn(), now)
