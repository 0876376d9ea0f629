"""What each stimulus does to a slot at once; the policy is looked at afterwards, by :mod:`slotwise.startd.slot.fsm`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from slotwise.model.claim import Claim
from slotwise.model.slot import VacateCode
from slotwise.startd.slot import backfill
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.policy_checks import (
    DRAINED,
    SHUT_DOWN,
    resume,
    row_10_idle_make_room,
    row_11_owner,
    row_13_draining,
    suspend,
    worklife_over,
)
from slotwise.startd.slot.retirement import vacate_time
from slotwise.startd.slot.states import (
    Backfill,
    Busy,
    Cause,
    Claimed,
    Cleaning,
    Idle,
    Matched,
    Owner,
    Preempting,
    Retiring,
    Slot,
    SoftEnd,
    Suspended,
    Unclaimed,
    Vacating,
    Waiting,
)
from slotwise.startd.slot.transition import Motion


def _evaluate(m: Motion, _: ev.Evaluate) -> None:
    m.look = True


def _matched(m: Motion, _: ev.MatchNoticed) -> None:
    if isinstance(m.slot.state, Unclaimed) and not m.slot.draining:
        if m.slot.state.benchmarking:
            m.do(ev.StopBenchmarks())
        m.enter(Matched(m.now + m.facts.match_timeout_s))
    elif isinstance(m.slot.state, Backfill) and not m.slot.draining:
        backfill.matched(m)


def _match_failed(m: Motion, _: ev.MatchFailed) -> None:
    if isinstance(m.slot.state, Matched):
        m.enter(Owner())
        m.do(ev.ReplaceClaimId())


def _claim(m: Motion, stimulus: ev.ClaimRequested) -> None:
    """A schedd wants the slot: at once, or when the present claim has gone, or not at all."""
    claim, state = stimulus.claim, m.slot.state
    refusal = _closed(m.slot)
    if refusal is not None:
        m.do(ev.ClaimRefused(claim.claim_id, *refusal))
    elif isinstance(state, Claimed):
        _queue(m, state, claim)
    elif isinstance(state, Unclaimed | Matched):
        _take(m, claim)
    elif isinstance(state, Backfill):
        backfill.requested(m, stimulus)
    else:
        code = VacateCode.BEING_PREEMPTED if isinstance(state, Preempting) else 0
        m.do(ev.ClaimRefused(claim.claim_id, code, f"the slot is in state {state.state}"))


def _closed(slot: Slot) -> tuple[int, str] | None:
    if slot.broken:
        return VacateCode.BROKEN, f"the slot is broken: {slot.broken}"
    if slot.shutdown:
        return VacateCode.SHUTDOWN, "the startd is shutting down"
    return None


def _take(m: Motion, claim: Claim) -> None:
    """Claim a free slot, unless the policy would throw the claim out at once."""
    former, actions, trace = m.slot, len(m.actions), len(m.trace)
    if isinstance(former.state, Unclaimed) and former.state.benchmarking:
        m.do(ev.StopBenchmarks())
    claimed = Claimed(claim)
    m.enter(claimed)
    taken = (m.slot, len(m.actions), len(m.trace))
    if row_10_idle_make_room(m, claimed) or row_11_owner(m, claimed) or row_13_draining(m, claimed):
        m.slot, m.look = former, False
        del m.actions[actions:], m.trace[trace:]
        m.do(ev.ClaimRefused(claim.claim_id, 0, "the machine's policy would end the claim at once"))
        return
    m.slot = taken[0]
    m.do(ev.ClaimGranted(claim), ev.ReplaceClaimId())


def _queue(m: Motion, state: Claimed, claim: Claim) -> None:
    """A better claim for a slot that is in use: it waits for the present job's retirement."""
    if claim.rank < state.claim.rank:
        m.do(ev.ClaimRefused(claim.claim_id, 0, "the machine prefers the present job"))
        return
    if state.waiting is not None:
        if claim.rank < state.waiting.claim.rank:
            m.do(ev.ClaimRefused(claim.claim_id, 0, "the machine prefers the claim that waits already"))
            return
        m.do(ev.ClaimRefused(state.waiting.claim.claim_id, 0, "a better claim came while this one waited"))
    _wait(m, state, Waiting(claim, claim.rank > state.claim.rank))


def _wait(m: Motion, state: Claimed, waiting: Waiting) -> None:
    """Put a better claim behind the present one."""
    m.enter(replace(state, waiting=waiting))
    m.slot = replace(m.slot, counters=m.slot.counters.preempted(waiting.by_rank))
    m.do(ev.ClaimQueued(waiting.claim), ev.ReplaceClaimId())
    m.look = True


def _fetched(m: Motion, stimulus: ev.WorkFetched) -> None:
    """A hook has fetched work: it starts at once, or when the present claim has gone, or is refused."""
    claim, run, state = stimulus.claim, stimulus.run, m.slot.state
    refusal = _closed(m.slot)
    if refusal is not None:
        m.do(ev.ClaimRefused(claim.claim_id, *refusal))
    elif isinstance(state, Owner | Unclaimed):
        if isinstance(state, Unclaimed) and state.benchmarking:
            m.do(ev.StopBenchmarks())
        m.take(claim, run)
    elif isinstance(state, Claimed) and awaits_work(state):
        m.begin(replace(state, claim=replace(state.claim, rank=claim.rank)), run)
    elif isinstance(state, Claimed):
        _displace(m, state, stimulus)
    elif isinstance(state, Backfill):
        backfill.requested(m, stimulus)
    else:
        code = VacateCode.BEING_PREEMPTED if isinstance(state, Preempting) else 0
        m.do(ev.ClaimRefused(claim.claim_id, code, f"the slot is in state {state.state}"))


def _displace(m: Motion, state: Claimed, stimulus: ev.WorkFetched) -> None:
    """Fetched work has no user whose priority could count: only a higher rank makes others leave."""
    claim = stimulus.claim
    others = [state.claim, *([state.waiting.claim] if state.waiting is not None else [])]
    if any(claim.rank <= other.rank for other in others):
        m.do(ev.ClaimRefused(claim.claim_id, 0, "its rank is not higher than that of the present claim"))
        return
    if state.waiting is not None:
        m.do(ev.ClaimRefused(state.waiting.claim.claim_id, 0, "better work was fetched while this claim waited"))
    _wait(m, state, Waiting(claim, by_rank=True, run=stimulus.run))


def awaits_work(state: Claimed) -> bool:
    """Whether a claim of fetched work is idle, and nothing wants it to end."""
    return state.claim.fetched and isinstance(state.doing, Idle) and state.waiting is None and not state.final


def _nothing_fetched(m: Motion, stimulus: ev.NoWorkFetched) -> None:
    state = m.slot.state
    if isinstance(state, Claimed) and awaits_work(state):
        m.preempt(Cause(VacateCode.RELEASE_COMMAND, stimulus.reason, tell_schedd=False))


def _withdraw(m: Motion, _: ev.PreempterWithdrawn) -> None:
    state = m.slot.state
    if isinstance(state, Claimed | Preempting) and state.waiting is not None:
        m.enter(
            replace(state, waiting=None, pledge=_pledge_without(state))
            if isinstance(state, Claimed)
            else replace(state, waiting=None)
        )
        m.look = True


def _pledge_without(state: Claimed) -> Cause | None:
    """A cause that came from the claim that waited goes with it."""
    codes = (VacateCode.PREEMPTED_BY_RANK, VacateCode.PREEMPTED_BY_PRIORITY)
    return None if state.pledge is not None and state.pledge.code in codes else state.pledge


def _activate(m: Motion, stimulus: ev.Activated) -> None:
    """Start a job under the claim, or say why not with HTCondor's codes."""
    run, state = stimulus.run, m.slot.state
    refusal = _cannot_activate(m)
    if refusal is not None:
        m.do(ev.ActivationRefused(run.run_id, *refusal))
        return
    assert isinstance(state, Claimed)
    m.begin(state, run)


def _cannot_activate(m: Motion) -> tuple[int, str] | None:
    slot, state = m.slot, m.slot.state
    if slot.broken:
        return VacateCode.BROKEN, f"the slot is broken: {slot.broken}"
    if isinstance(state, Preempting):
        return VacateCode.BEING_PREEMPTED, "the claim is being preempted"
    if not isinstance(state, Claimed):
        return VacateCode.UNCLAIMED, f"the slot is {state.state}"
    if isinstance(state.doing, Cleaning):
        return VacateCode.STILL_CLEANING, "the former job is still being cleaned up"
    if not isinstance(state.doing, Idle):
        return VacateCode.NOT_IDLE, f"the claim is {state.activity}"
    if state.waiting is not None or slot.shutdown:
        return VacateCode.BEING_PREEMPTED, "the claim is about to end"
    if worklife_over(m, state):
        return VacateCode.WORKLIFE_OVER, "the claim has reached its CLAIM_WORKLIFE"
    if m.facts.start is False:
        return VacateCode.NO_MATCH, "START is not true for this job"
    return None


def _finishing(m: Motion, _: ev.RunFinishing) -> None:
    state = m.slot.state
    if isinstance(state, Claimed) and isinstance(state.doing, Busy | Suspended | Retiring):
        retiring = isinstance(state.doing, Retiring)
        cause = (state.pledge or (DRAINED if m.slot.draining else None)) if retiring else None
        m.enter(replace(state, doing=Cleaning(state.doing.run.paused(m.now), cause)))


def _gone(m: Motion, stimulus: ev.RunGone) -> None:
    """The job and all its leavings have gone."""
    state = m.slot.state
    if stimulus.broken:
        m.slot = replace(m.slot, broken=stimulus.broken, broken_code=stimulus.code)
    if isinstance(state, Preempting):
        m.leave()
    elif isinstance(state, Claimed) and not isinstance(state.doing, Idle):
        _run_over(m, state, stimulus.unfinished)


def _run_over(m: Motion, state: Claimed, unfinished: str) -> None:
    run = state.run
    cause: Cause | None = None
    if m.slot.broken:
        cause = Cause(VacateCode.BROKEN, f"the slot is broken: {m.slot.broken}")
    elif isinstance(state.doing, Cleaning):
        cause = state.doing.then_leave
    elif isinstance(state.doing, Retiring):
        cause = state.pledge or (DRAINED if m.slot.draining else SHUT_DOWN)
    elif unfinished and state.claim.fetched:
        cause = Cause(VacateCode.CLAIM_DEACTIVATED, unfinished, tell_schedd=False)
    claim = state.claim
    if run is not None:
        ran = run.ran(m.now)
        stood = max(0.0, m.now - run.activated_at - ran)
        claim = replace(claim, ran_s=claim.ran_s + ran, suspended_s=claim.suspended_s + stood)
    idle = replace(state, claim=claim, doing=Idle(), ending=None)
    if cause is None:
        m.enter(idle)
        m.tell(run)
        return
    if run is not None:  # the schedd learns the end of the run before the end of the claim
        m.do(ev.ClaimChanged(state.claim.claim_id, state.state, idle.activity, run.run_id))
    m.enter(Preempting(state.claim, None, Vacating(m.now), cause, state.waiting))
    m.leave()


def _deactivate(m: Motion, stimulus: ev.Deactivated) -> None:
    """The schedd ends the run and keeps the claim: softly for the vacate time, then with force."""
    state = m.slot.state
    run = m.slot.run
    if not isinstance(state, Claimed) or run is None or isinstance(state.doing, Cleaning):
        return
    cause = Cause(stimulus.code, stimulus.reason, tell_schedd=False, fast=stimulus.fast)
    if stimulus.fast:
        deadline = m.now + m.facts.killing_timeout_s
        m.do(ev.HardKill(run.run_id, cause))
    else:
        vacate_s = vacate_time(m.slot, m.facts, m.now)
        deadline = m.now + vacate_s
        if isinstance(state.doing, Suspended):
            resume(m, state)
            state = m.slot.state
            assert isinstance(state, Claimed)
        m.do(ev.SoftKill(run.run_id, vacate_s, cause))
    m.enter(replace(state, ending=SoftEnd(deadline, cause, hard=stimulus.fast)))


def _release(m: Motion, stimulus: ev.Released) -> None:
    m.preempt(Cause(stimulus.code, stimulus.reason, tell_schedd=False, fast=stimulus.fast))


def _alive(m: Motion, _: ev.KeptAlive) -> None:
    state = m.slot.state
    if isinstance(state, Claimed):
        m.enter(replace(state, claim=replace(state.claim, last_alive=m.now)))


def _suspend(m: Motion, _: ev.SuspendCommanded) -> None:
    state = m.slot.state
    if isinstance(state, Claimed):
        if isinstance(state.doing, Suspended):
            m.enter(replace(state, doing=Suspended(state.doing.run, by_command=True)))
        else:
            suspend(m, state, by_command=True)


def _continue(m: Motion, _: ev.ContinueCommanded) -> None:
    state = m.slot.state
    if isinstance(state, Claimed):
        resume(m, state)


def _vacate(m: Motion, stimulus: ev.VacateCommanded) -> None:
    cause = Cause(VacateCode.VACATE_COMMAND, "An administrator asked the job to leave", fast=stimulus.fast)
    backfill.leave(m)
    if isinstance(m.slot.state, Matched):
        m.enter(Owner())
        m.do(ev.ReplaceClaimId())
    elif stimulus.fast:
        m.preempt(cause)
    else:
        m.retire(cause, final=True)


def _drain(m: Motion, stimulus: ev.DrainBegun) -> None:
    """Graceful: retire, reversibly. Quick: vacate time only. Fast: kill. What has no claim becomes Drained."""
    order = stimulus.draining
    m.slot = replace(m.slot, draining=order)
    state = m.slot.state
    cause = replace(DRAINED, reason=f"The machine is being drained: {order.reason}")
    if isinstance(state, Matched):
        m.enter(Owner())
        m.do(ev.ReplaceClaimId())
    elif isinstance(state, Unclaimed) and state.benchmarking:
        m.do(ev.StopBenchmarks())
        m.enter(Unclaimed())
    elif isinstance(state, Claimed) and not isinstance(state.doing, Idle):
        if order.schedule <= 0:
            m.retire(cause, final=False)
        else:
            m.preempt(replace(cause, fast=order.schedule > 10))
    m.look = True


def _undrain(m: Motion, _: ev.DrainEnded) -> None:
    m.slot = replace(m.slot, draining=None)
    state = m.slot.state
    if isinstance(state, Claimed):
        stale = state.pledge is not None and state.pledge.code == VacateCode.DRAINING and not state.final
        m.enter(replace(state, pledge=None if stale else state.pledge))
    m.look = True


def _shutdown(m: Motion, stimulus: ev.ShutdownBegun) -> None:
    m.slot = replace(m.slot, shutdown=stimulus.mode)
    backfill.leave(m)
    if isinstance(m.slot.state, Matched):
        m.enter(Owner())
        m.do(ev.ReplaceClaimId())
    elif stimulus.mode == "fast":
        m.preempt(replace(SHUT_DOWN, fast=True))
    else:
        m.retire(SHUT_DOWN, final=True)


def _benchmarked(m: Motion, _: ev.BenchmarksDone) -> None:
    if isinstance(m.slot.state, Unclaimed) and m.slot.state.benchmarking:
        m.enter(Unclaimed())


def _shadow_lost(m: Motion, _: ev.ShadowLost) -> None:
    m.preempt(Cause(VacateCode.RELEASE_COMMAND, "The shadow is gone for good", tell_schedd=False, fast=True))


def _evicted(m: Motion, _: ev.EvictedForPslot) -> None:
    m.preempt(Cause(VacateCode.PREEMPTED_BY_PRIORITY, "Its resources go to a better claim", fast=True))


def _break(m: Motion, stimulus: ev.FoundBroken) -> None:
    m.slot = replace(m.slot, broken=stimulus.reason, broken_code=stimulus.code)
    backfill.leave(m)
    m.preempt(Cause(VacateCode.BROKEN, f"the slot is broken: {stimulus.reason}", fast=True))


def _hibernate(m: Motion, _: ev.HibernateBegun) -> None:
    backfill.leave(m)
    m.preempt(Cause(VacateCode.HIBERNATE, "Startd hibernated"))


def _abandoned(m: Motion, stimulus: ev.Abandoned) -> None:
    m.preempt(Cause(VacateCode.EXCEPTION, stimulus.reason, fast=True))


REACTIONS: dict[type, Callable[[Motion, Any], None]] = {
    ev.Evaluate: _evaluate,
    ev.MatchNoticed: _matched,
    ev.MatchFailed: _match_failed,
    ev.ClaimRequested: _claim,
    ev.WorkFetched: _fetched,
    ev.NoWorkFetched: _nothing_fetched,
    ev.PreempterWithdrawn: _withdraw,
    ev.Activated: _activate,
    ev.RunFinishing: _finishing,
    ev.RunGone: _gone,
    ev.Deactivated: _deactivate,
    ev.Released: _release,
    ev.KeptAlive: _alive,
    ev.SuspendCommanded: _suspend,
    ev.ContinueCommanded: _continue,
    ev.VacateCommanded: _vacate,
    ev.DrainBegun: _drain,
    ev.DrainEnded: _undrain,
    ev.ShutdownBegun: _shutdown,
    ev.BenchmarksDone: _benchmarked,
    ev.ShadowLost: _shadow_lost,
    ev.EvictedForPslot: _evicted,
    ev.FillerStarted: backfill.started,
    ev.FillerEnded: backfill.ended,
    ev.FoundBroken: _break,
    ev.HibernateBegun: _hibernate,
    ev.Abandoned: _abandoned,
}
