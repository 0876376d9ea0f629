"""What each event does to a slot at once; the policy is looked at afterwards, by :mod:`slotwise.startd.slot.fsm`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from slotwise.model.claim import Claim
from slotwise.model.slot import VacateCode
from slotwise.startd.slot import backfill
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.deadlines import deferred
from slotwise.startd.slot.policy_checks import (
    CHECKPOINTED,
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
from slotwise.startd.slot.transition_context import TransitionContext


def _evaluate(ctx: TransitionContext, _: ev.Evaluate) -> None:
    ctx.reevaluate = True


def _matched(ctx: TransitionContext, _: ev.MatchNoticed) -> None:
    if isinstance(ctx.slot.state, Unclaimed) and not ctx.slot.draining:
        if ctx.slot.state.benchmarking:
            ctx.do(ev.StopBenchmarks())
        ctx.enter(Matched(ctx.now + ctx.policy.match_timeout_s))
    elif isinstance(ctx.slot.state, Backfill) and not ctx.slot.draining:
        backfill.matched(ctx)


def _match_failed(ctx: TransitionContext, _: ev.MatchFailed) -> None:
    if isinstance(ctx.slot.state, Matched):
        ctx.enter(Owner())
        ctx.do(ev.ReplaceClaimId())


def _claim(ctx: TransitionContext, event: ev.ClaimRequested) -> None:
    """A schedd wants the slot: at once, or when the present claim has gone, or not at all."""
    claim, state = event.claim, ctx.slot.state
    refusal = _closed(ctx.slot)
    if refusal is not None:
        ctx.do(ev.ClaimRefused(claim.claim_id, *refusal))
    elif isinstance(state, Claimed):
        _queue(ctx, state, claim)
    elif isinstance(state, Unclaimed | Matched):
        _take(ctx, claim)
    elif isinstance(state, Backfill):
        backfill.requested(ctx, event)
    else:
        code = VacateCode.BEING_PREEMPTED if isinstance(state, Preempting) else 0
        ctx.do(ev.ClaimRefused(claim.claim_id, code, f"the slot is in state {state.state}"))


def _closed(slot: Slot) -> tuple[int, str] | None:
    if slot.broken:
        return VacateCode.BROKEN, f"the slot is broken: {slot.broken}"
    if slot.shutdown:
        return VacateCode.SHUTDOWN, "the startd is shutting down"
    return None


def _take(ctx: TransitionContext, claim: Claim) -> None:
    """Claim a free slot, unless the policy would throw the claim out at once."""
    former, actions, trace = ctx.slot, len(ctx.actions), len(ctx.trace)
    if isinstance(former.state, Unclaimed) and former.state.benchmarking:
        ctx.do(ev.StopBenchmarks())
    claimed = Claimed(claim)
    ctx.enter(claimed)
    taken = (ctx.slot, len(ctx.actions), len(ctx.trace))
    if row_10_idle_make_room(ctx, claimed) or row_11_owner(ctx, claimed) or row_13_draining(ctx, claimed):
        ctx.slot, ctx.reevaluate = former, False
        del ctx.actions[actions:], ctx.trace[trace:]
        ctx.do(ev.ClaimRefused(claim.claim_id, 0, "the machine's policy would end the claim at once"))
        return
    ctx.slot = taken[0]
    ctx.do(ev.ClaimGranted(claim), ev.ReplaceClaimId())


def _queue(ctx: TransitionContext, state: Claimed, claim: Claim) -> None:
    """A better claim for a slot that is in use: it waits for the present job's retirement."""
    if claim.rank < state.claim.rank:
        ctx.do(ev.ClaimRefused(claim.claim_id, 0, "the machine prefers the present job"))
        return
    if state.waiting is not None and claim.rank < state.waiting.claim.rank:
        ctx.do(ev.ClaimRefused(claim.claim_id, 0, "the machine prefers the claim that waits already"))
        return
    _wait(ctx, state, Waiting(claim, claim.rank > state.claim.rank), "a better claim came while this one waited")


def _wait(ctx: TransitionContext, state: Claimed, waiting: Waiting, overtaken: str) -> None:
    """Put a better claim behind the present one and tell the one that waited before, which is ``overtaken``.

    A claim that the slot would not take is refused: the present one would have to leave for nothing."""
    former = ctx.slot
    ctx.enter(replace(state, waiting=waiting))
    if not ctx.waiting_is_welcome():
        ctx.slot = former
        ctx.do(ev.ClaimRefused(waiting.claim.claim_id, 0, "the slot would not take it after the present claim"))
        return
    if state.waiting is not None:
        ctx.do(ev.ClaimRefused(state.waiting.claim.claim_id, 0, overtaken))
    ctx.slot = replace(ctx.slot, counters=ctx.slot.counters.preempted(waiting.by_rank))
    ctx.do(ev.ClaimQueued(waiting.claim), ev.ReplaceClaimId())
    ctx.reevaluate = True


def _fetched(ctx: TransitionContext, event: ev.WorkFetched) -> None:
    """A hook has fetched work: it starts at once, or when the present claim has gone, or is refused."""
    claim, run, state = event.claim, event.run, ctx.slot.state
    refusal = _closed(ctx.slot)
    if refusal is not None:
        ctx.do(ev.ClaimRefused(claim.claim_id, *refusal))
    elif isinstance(state, Owner | Unclaimed):
        if isinstance(state, Unclaimed) and state.benchmarking:
            ctx.do(ev.StopBenchmarks())
        ctx.take(claim, run)
    elif isinstance(state, Claimed) and awaits_work(state):
        ctx.begin(replace(state, claim=replace(state.claim, rank=claim.rank)), run)
    elif isinstance(state, Claimed):
        _displace(ctx, state, event)
    elif isinstance(state, Backfill):
        backfill.requested(ctx, event)
    else:
        code = VacateCode.BEING_PREEMPTED if isinstance(state, Preempting) else 0
        ctx.do(ev.ClaimRefused(claim.claim_id, code, f"the slot is in state {state.state}"))


def _displace(ctx: TransitionContext, state: Claimed, event: ev.WorkFetched) -> None:
    """Fetched work has no user whose priority could count: only a higher rank makes others leave."""
    claim = event.claim
    others = [state.claim, *([state.waiting.claim] if state.waiting is not None else [])]
    if any(claim.rank <= other.rank for other in others):
        ctx.do(ev.ClaimRefused(claim.claim_id, 0, "its rank is not higher than that of the present claim"))
        return
    waiting = Waiting(claim, by_rank=True, run=event.run)
    _wait(ctx, state, waiting, "better work was fetched while this claim waited")


def awaits_work(state: Claimed) -> bool:
    """Whether a claim of fetched work is idle, and nothing wants it to end."""
    return state.claim.fetched and isinstance(state.doing, Idle) and state.waiting is None and not state.irrevocable


def _nothing_fetched(ctx: TransitionContext, event: ev.NoWorkFetched) -> None:
    state = ctx.slot.state
    if isinstance(state, Claimed) and awaits_work(state):
        ctx.preempt(Cause(VacateCode.RELEASE_COMMAND, event.reason, tell_schedd=False))


def _withdraw(ctx: TransitionContext, _: ev.PreempterWithdrawn) -> None:
    state = ctx.slot.state
    if isinstance(state, Claimed | Preempting) and state.waiting is not None:
        ctx.enter(
            replace(state, waiting=None, pending_cause=_pending_cause_without(state))
            if isinstance(state, Claimed)
            else replace(state, waiting=None)
        )
        ctx.reevaluate = True


def _pending_cause_without(state: Claimed) -> Cause | None:
    """A cause that came from the claim that waited goes with it."""
    codes = (VacateCode.PREEMPTED_BY_RANK, VacateCode.PREEMPTED_BY_PRIORITY)
    return None if state.pending_cause is not None and state.pending_cause.code in codes else state.pending_cause


def _activate(ctx: TransitionContext, event: ev.Activated) -> None:
    """Start a job under the claim, or say why not with HTCondor's codes."""
    run, state = event.run, ctx.slot.state
    refusal = _cannot_activate(ctx)
    if refusal is not None:
        ctx.do(ev.ActivationRefused(run.run_id, *refusal))
        return
    assert isinstance(state, Claimed)
    ctx.begin(state, run)


def _cannot_activate(ctx: TransitionContext) -> tuple[int, str] | None:
    slot, state = ctx.slot, ctx.slot.state
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
    if worklife_over(ctx, state):
        return VacateCode.WORKLIFE_OVER, "the claim has reached its CLAIM_WORKLIFE"
    if ctx.policy.start is False:
        return VacateCode.NO_MATCH, "START is not true for this job"
    return None


def _checkpointing(ctx: TransitionContext, _: ev.Checkpointing) -> None:
    """A job starts again from its checkpoint only where its claim would take a new one, as in HTCondor
    (``reactivateClaimCheck``): here is its best moment to leave."""
    state = ctx.slot.state
    if not isinstance(state, Claimed) or state.run is None or not isinstance(state.doing, Busy | Retiring):
        return
    waited_for = state.waiting is not None or isinstance(state.doing, Retiring)
    if waited_for or ctx.slot.shutdown or ctx.slot.draining is not None or worklife_over(ctx, state):
        ctx.do(ev.SoftKill(state.run.run_id, 0, CHECKPOINTED))


def _finishing(ctx: TransitionContext, _: ev.RunFinishing) -> None:
    state = ctx.slot.state
    if isinstance(state, Claimed) and isinstance(state.doing, Busy | Suspended | Retiring):
        retiring = isinstance(state.doing, Retiring)
        cause = (state.pending_cause or (DRAINED if ctx.slot.draining else None)) if retiring else None
        ctx.enter(replace(state, doing=Cleaning(state.doing.run.paused(ctx.now), cause)))


def _gone(ctx: TransitionContext, event: ev.RunGone) -> None:
    """The job and all its leftovers have gone."""
    state = ctx.slot.state
    if event.broken:
        ctx.slot = replace(ctx.slot, broken=event.broken, broken_code=event.code)
    if isinstance(state, Preempting):
        ctx.leave()
    elif isinstance(state, Claimed) and not isinstance(state.doing, Idle):
        _run_over(ctx, state, event.unfinished)


def _run_over(ctx: TransitionContext, state: Claimed, unfinished: str) -> None:
    run = state.run
    cause: Cause | None = None
    if ctx.slot.broken:
        cause = Cause(VacateCode.BROKEN, f"the slot is broken: {ctx.slot.broken}")
    elif isinstance(state.doing, Cleaning):
        cause = state.doing.then_leave
    elif isinstance(state.doing, Retiring):
        cause = state.pending_cause or (DRAINED if ctx.slot.draining else SHUT_DOWN)
    elif unfinished and state.claim.fetched:
        cause = Cause(VacateCode.CLAIM_DEACTIVATED, unfinished, tell_schedd=False)
    claim = state.claim
    if run is not None:
        ran = run.ran(ctx.now)
        stood = max(0.0, ctx.now - run.activated_at - ran)
        claim = replace(claim, ran_s=claim.ran_s + ran, suspended_s=claim.suspended_s + stood)
    idle = replace(state, claim=claim, doing=Idle(), ending=None)
    if cause is None:
        ctx.enter(idle)
        ctx.report(run)
        return
    if run is not None:  # the schedd learns the end of the run before the end of the claim
        ctx.do(ev.ClaimChanged(state.claim.claim_id, state.state, idle.activity, run.run_id))
    ctx.enter(Preempting(state.claim, None, Vacating(ctx.now), cause, state.waiting))
    ctx.leave()


def _deactivate(ctx: TransitionContext, event: ev.Deactivated) -> None:
    """The schedd ends the run and keeps the claim: softly for the vacate time, then with force."""
    state = ctx.slot.state
    run = ctx.slot.run
    if not isinstance(state, Claimed) or run is None or isinstance(state.doing, Cleaning):
        return
    cause = Cause(event.code, event.reason, tell_schedd=False, fast=event.fast)
    if event.fast:
        deadline = ctx.now + ctx.policy.killing_timeout_s
        ctx.do(ev.HardKill(run.run_id, cause))
    else:
        vacate_s = vacate_time(ctx.slot, ctx.policy, ctx.now)
        deadline = ctx.now + vacate_s
        if isinstance(state.doing, Suspended):
            resume(ctx, state)
            state = ctx.slot.state
            assert isinstance(state, Claimed)
        ctx.do(ev.SoftKill(run.run_id, vacate_s, cause))
    ctx.enter(replace(state, ending=SoftEnd(deadline, cause, hard=event.fast)))


def _release(ctx: TransitionContext, event: ev.Released) -> None:
    ctx.preempt(Cause(event.code, event.reason, tell_schedd=False, fast=event.fast))


def _alive(ctx: TransitionContext, _: ev.KeptAlive) -> None:
    state = ctx.slot.state
    if isinstance(state, Claimed):
        ctx.enter(replace(state, claim=replace(state.claim, last_alive=ctx.now, unheard_since=None)))


def _suspend(ctx: TransitionContext, _: ev.SuspendCommanded) -> None:
    state = ctx.slot.state
    if isinstance(state, Claimed):
        if isinstance(state.doing, Suspended):
            ctx.enter(replace(state, doing=Suspended(state.doing.run, by_command=True)))
        else:
            suspend(ctx, state, by_command=True)


def _continue(ctx: TransitionContext, _: ev.ContinueCommanded) -> None:
    state = ctx.slot.state
    if isinstance(state, Claimed):
        resume(ctx, state)


def _vacate(ctx: TransitionContext, event: ev.VacateCommanded) -> None:
    cause = Cause(VacateCode.VACATE_COMMAND, "An administrator asked the job to leave", fast=event.fast)
    backfill.leave(ctx)
    if isinstance(ctx.slot.state, Matched):
        ctx.enter(Owner())
        ctx.do(ev.ReplaceClaimId())
    elif event.fast:
        ctx.preempt(cause)
    else:
        ctx.retire(cause, irrevocable=True)


def _drain(ctx: TransitionContext, event: ev.DrainBegun) -> None:
    """Graceful: retire, reversibly. Quick: vacate time only. Fast: kill. What has no claim becomes Drained."""
    order = event.draining
    ctx.slot = replace(ctx.slot, draining=order)
    state = ctx.slot.state
    cause = replace(DRAINED, reason=f"The machine is being drained: {order.reason}")
    if isinstance(state, Matched):
        ctx.enter(Owner())
        ctx.do(ev.ReplaceClaimId())
    elif isinstance(state, Unclaimed) and state.benchmarking:
        ctx.do(ev.StopBenchmarks())
        ctx.enter(Unclaimed())
    elif isinstance(state, Claimed) and not isinstance(state.doing, Idle):
        if order.schedule <= 0:
            ctx.retire(cause, irrevocable=False)
        else:
            ctx.preempt(replace(cause, fast=order.schedule > 10))
    ctx.reevaluate = True


def _undrain(ctx: TransitionContext, _: ev.DrainEnded) -> None:
    ctx.slot = replace(ctx.slot, draining=None)
    state = ctx.slot.state
    if isinstance(state, Claimed):
        stale = (
            state.pending_cause is not None
            and state.pending_cause.code == VacateCode.DRAINING
            and not state.irrevocable
        )
        ctx.enter(replace(state, pending_cause=None if stale else state.pending_cause))
    ctx.reevaluate = True


def _shutdown(ctx: TransitionContext, event: ev.ShutdownBegun) -> None:
    ctx.slot = replace(ctx.slot, shutdown=event.mode)
    backfill.leave(ctx)
    if isinstance(ctx.slot.state, Matched):
        ctx.enter(Owner())
        ctx.do(ev.ReplaceClaimId())
    elif event.mode == "fast":
        ctx.preempt(replace(SHUT_DOWN, fast=True))
    else:
        ctx.retire(SHUT_DOWN, irrevocable=True)


def _benchmarked(ctx: TransitionContext, _: ev.BenchmarksDone) -> None:
    if isinstance(ctx.slot.state, Unclaimed) and ctx.slot.state.benchmarking:
        ctx.enter(Unclaimed())


def _shadow_lost(ctx: TransitionContext, _: ev.ShadowLost) -> None:
    ctx.preempt(Cause(VacateCode.RELEASE_COMMAND, "The shadow is gone for good", tell_schedd=False, fast=True))


def _evicted(ctx: TransitionContext, _: ev.EvictedForPslot) -> None:
    ctx.preempt(Cause(VacateCode.PREEMPTED_BY_PRIORITY, "Its resources go to a better claim", fast=True))


def _break(ctx: TransitionContext, event: ev.FoundBroken) -> None:
    ctx.slot = replace(ctx.slot, broken=event.reason, broken_code=event.code)
    backfill.leave(ctx)
    ctx.preempt(Cause(VacateCode.BROKEN, f"the slot is broken: {event.reason}", fast=True))


def _mark_broken(ctx: TransitionContext, event: ev.MarkedBroken) -> None:
    ctx.slot = replace(ctx.slot, broken=event.reason, broken_code=event.code)


def _repair(ctx: TransitionContext, _: ev.Repaired) -> None:
    ctx.slot = replace(ctx.slot, broken=None, broken_code=0)


def _clock_jumped(ctx: TransitionContext, event: ev.ClockJumped) -> None:
    ctx.slot = deferred(ctx.slot, event.by_s)


def _hibernate(ctx: TransitionContext, _: ev.HibernateBegun) -> None:
    backfill.leave(ctx)
    ctx.preempt(Cause(VacateCode.HIBERNATE, "Startd hibernated"))


def _abandoned(ctx: TransitionContext, event: ev.Abandoned) -> None:
    ctx.preempt(Cause(VacateCode.EXCEPTION, event.reason, fast=True))


#: The handler of each event. Any: each takes the class that it is listed with.
HANDLERS: dict[type, Callable[[TransitionContext, Any], None]] = {
    ev.Evaluate: _evaluate,
    ev.MatchNoticed: _matched,
    ev.MatchFailed: _match_failed,
    ev.ClaimRequested: _claim,
    ev.WorkFetched: _fetched,
    ev.NoWorkFetched: _nothing_fetched,
    ev.PreempterWithdrawn: _withdraw,
    ev.Activated: _activate,
    ev.Checkpointing: _checkpointing,
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
    ev.BackfillStarted: backfill.started,
    ev.BackfillEnded: backfill.ended,
    ev.FoundBroken: _break,
    ev.MarkedBroken: _mark_broken,
    ev.Repaired: _repair,
    ev.ClockJumped: _clock_jumped,
    ev.HibernateBegun: _hibernate,
    ev.Abandoned: _abandoned,
}
