"""What the policy and the timers make of a slot: the checks of each state, in their order.

Each function makes at most one move and says whether it did. The rows of :data:`CLAIMED_CHECKS` are the manual's
order of evaluation in Claimed; the first that applies ends it.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from slotwise.model.slot import BrokenCode, SlotKind, State, VacateCode
from slotwise.startd.slot import backfill
from slotwise.startd.slot.events import HardKill, KillFamily, PauseRun, ReplaceClaimId, ResumeRun, StartBenchmarks
from slotwise.startd.slot.retirement import expired
from slotwise.startd.slot.states import (
    Busy,
    Cause,
    Claimed,
    Cleaning,
    Drained,
    Idle,
    Killing,
    Matched,
    Owner,
    Preempting,
    Retiring,
    Suspended,
    Unclaimed,
    Vacating,
)
from slotwise.startd.slot.transition_context import TransitionContext

#: SIGKILL is sent so often, KILLING_TIMEOUT apart, before a slot that keeps processes is given up as broken.
KILL_TRIES = 10
UNKILLABLE = "Could not terminate all job processes"

UNKILLED = Cause(VacateCode.BROKEN, f"the slot is broken: {UNKILLABLE}", fast=True)
LEASE_OVER = Cause(VacateCode.RELEASE_COMMAND, "The claim's lease ran out", tell_schedd=False, fast=True)
TIME_OVER = Cause(VacateCode.WORKLIFE_OVER, "The claim of the partitionable slot has had its time")
WORKLIFE_OVER = Cause(VacateCode.WORKLIFE_OVER, "The claim has reached its CLAIM_WORKLIFE")
CHECKPOINTED = Cause(
    VacateCode.SUCCESSFUL_CHECKPOINT,
    "Rescheduling self-checkpoint job after checkpoint upload because reactivating the claim would have failed.",
)
OWNER_IS_BACK = Cause(VacateCode.PREEMPT_EXPRESSION, "IS_OWNER became true")
DRAINED = Cause(VacateCode.DRAINING, "Startd was draining")
SHUT_DOWN = Cause(VacateCode.SHUTDOWN, "Startd was shutdown")
PREEMPT_FIRED = Cause(VacateCode.PREEMPT_EXPRESSION, "PREEMPT expression evaluated to True", by_preempt=True)
RANKED_OUT = Cause(VacateCode.PREEMPTED_BY_RANK, "Preempted for a higher Ranked job")
OUTBID = Cause(VacateCode.PREEMPTED_BY_PRIORITY, "Preempted for a Priority user")


def advance(ctx: TransitionContext) -> bool:
    """Make the move that is due in the present state, if any."""
    return _CHECKS[ctx.slot.state.state](ctx)


def _owner(ctx: TransitionContext) -> bool:
    if ctx.slot.vanishes:
        ctx.delete()
    elif ctx.slot.draining:
        ctx.enter(Drained())
    elif not ctx.policy.is_owner:
        ctx.enter(Unclaimed())
    else:
        return False
    return True


def _unclaimed(ctx: TransitionContext) -> bool:
    state = ctx.slot.state
    assert isinstance(state, Unclaimed)
    if ctx.slot.vanishes:
        ctx.delete()
        return True
    if state.benchmarking:
        return False
    if ctx.slot.draining:
        ctx.enter(Drained())
    elif ctx.policy.is_owner:
        ctx.enter(Owner())
    elif ctx.policy.start_backfill and ctx.slot.kind is SlotKind.STATIC and not ctx.slot.shutdown:
        backfill.begin(ctx)
    elif ctx.policy.run_benchmarks:
        ctx.enter(Unclaimed(benchmarking=True))
        ctx.do(StartBenchmarks())
    else:
        return False
    return True


def _matched(ctx: TransitionContext) -> bool:
    state = ctx.slot.state
    assert isinstance(state, Matched)
    if ctx.now < state.deadline and ctx.policy.start is not False:
        return False
    ctx.enter(Owner())
    ctx.do(ReplaceClaimId())
    return True


def _preempting(ctx: TransitionContext) -> bool:
    state = ctx.slot.state
    assert isinstance(state, Preempting)
    if isinstance(state.doing, Vacating):
        if ctx.now >= state.doing.hard_kill_at or ctx.policy.kill:
            ctx.kill()
            return True
        return False
    if ctx.now < state.doing.again_at:
        return False
    tries = state.doing.tries + 1
    if tries > KILL_TRIES:
        ctx.slot = replace(ctx.slot, broken=UNKILLABLE, broken_code=BrokenCode.HUNG_PROCESS)
        ctx.leave()
        return True
    ctx.enter(replace(state, doing=Killing(ctx.now + ctx.policy.killing_timeout_s, tries)))
    if state.run is not None:
        ctx.do(KillFamily(state.run.run_id))
    return False


def _drained(ctx: TransitionContext) -> bool:
    state = ctx.slot.state
    assert isinstance(state, Drained)
    if ctx.slot.vanishes:
        ctx.delete()
    elif not ctx.slot.draining:
        ctx.enter(Owner())
    elif not state.complete and ctx.policy.all_drained:
        ctx.enter(Drained(complete=True))
    else:
        return False
    return True


def _nothing(ctx: TransitionContext) -> bool:
    return False


# ------------------------------------------------------------------------------------------------------------- Claimed


def _claimed(ctx: TransitionContext) -> bool:
    state = ctx.slot.state
    assert isinstance(state, Claimed)
    if ctx.now >= ctx.slot.lease_ends(state.claim):
        timed = state.claim.ends_at is not None and ctx.now >= state.claim.ends_at
        ctx.preempt(TIME_OVER if timed else LEASE_OVER)
        return not isinstance(state.doing, Cleaning)
    if _escalate(ctx, state):
        return False
    return any(check(ctx, state) for check in CLAIMED_CHECKS) and not isinstance(state.doing, Cleaning)


def _escalate(ctx: TransitionContext, state: Claimed) -> bool:
    """A run that the schedd ended and that does not go: force, then SIGKILL, while the claim stays. After as many
    tries as in Preempting the slot is broken, and the claim ends."""
    ending, run = state.ending, state.run
    if ending is None or run is None or ctx.now < ending.hard_kill_at:
        return False
    tries = ending.tries + ending.hard
    if tries > KILL_TRIES and not isinstance(state.doing, Cleaning):
        ctx.slot = replace(ctx.slot, broken=UNKILLABLE, broken_code=BrokenCode.HUNG_PROCESS)
        ctx.enter(Preempting(state.claim, run, Killing(ctx.now), UNKILLED, state.waiting))
        ctx.leave()
        return True
    later = replace(ending, hard=True, hard_kill_at=ctx.now + ctx.policy.killing_timeout_s, tries=tries)
    ctx.enter(replace(state, ending=later))
    ctx.do(KillFamily(run.run_id) if ending.hard else HardKill(run.run_id, ending.cause))
    return True


def in_retirement(state: Claimed) -> bool:
    """A better claim waits, or retirement cannot be taken back."""
    return state.waiting is not None or state.irrevocable


def may_unretire(ctx: TransitionContext, state: Claimed) -> bool:
    """Nothing is left that wants the job to retire."""
    return not in_retirement(state) and ctx.slot.draining is None and ctx.slot.shutdown is None


def _cause(ctx: TransitionContext, state: Claimed) -> Cause:
    """Why a claim ends whose retirement is over."""
    if state.preempt_fired or (ctx.policy.preempt and not state.waiting and state.pending_cause is None):
        fired = state.pending_cause is not None and state.pending_cause.by_preempt
        return state.pending_cause if state.pending_cause is not None and fired else _preempt_fired(ctx)
    if state.pending_cause is not None:
        return (
            replace(state.pending_cause, by_preempt=ctx.policy.preempt) if ctx.policy.preempt else state.pending_cause
        )
    if state.waiting is not None:
        return RANKED_OUT if state.waiting.by_rank else OUTBID
    return DRAINED if ctx.slot.draining else SHUT_DOWN


def row_1_cleaning(ctx: TransitionContext, state: Claimed) -> bool:
    """Nothing is decided while the leftovers of a job are removed."""
    return isinstance(state.doing, Cleaning)


def row_3_retirement_over(ctx: TransitionContext, state: Claimed) -> bool:
    """In retirement, and it is over."""
    if isinstance(state.doing, Idle) or not in_retirement(state) or not expired(ctx.slot, ctx.policy, ctx.now):
        return False
    ctx.preempt(_cause(ctx, state))
    return True


def row_4_preempt(ctx: TransitionContext, state: Claimed) -> bool:
    """PREEMPT begins retirement that cannot be taken back; with WANT_SUSPEND the job must have been suspended first."""
    policy = ctx.policy
    applies = policy.preempt and (
        (isinstance(state.doing, Busy) and not policy.want_suspend)
        or (isinstance(state.doing, Retiring) and not state.preempt_fired and not policy.want_suspend)
        or (isinstance(state.doing, Suspended) and not state.preempt_fired)
        or (isinstance(state.doing, Idle) and bool(policy.conflict))
    )
    if applies:
        ctx.retire(_preempt_fired(ctx), irrevocable=True, by_preempt=True)
    return applies


def _preempt_fired(ctx: TransitionContext) -> Cause:
    if not ctx.policy.conflict:
        return PREEMPT_FIRED
    return replace(PREEMPT_FIRED, reason=f"Primary slots use what this backfill slot has: {ctx.policy.conflict}")


def row_5_unretire(ctx: TransitionContext, state: Claimed) -> bool:
    """The better claim has gone, or draining was cancelled: back to work."""
    if not isinstance(state.doing, Retiring) or not may_unretire(ctx, state):
        return False
    ctx.enter(replace(state, doing=Busy(state.doing.run), pending_cause=None))
    ctx.report(state.doing.run)
    return True


def row_6_retired(ctx: TransitionContext, state: Claimed) -> bool:
    """Retiring, and retirement is over."""
    if not isinstance(state.doing, Retiring) or not expired(ctx.slot, ctx.policy, ctx.now):
        return False
    ctx.preempt(_cause(ctx, state))
    return True


def row_7_suspend(ctx: TransitionContext, state: Claimed) -> bool:
    """WANT_SUSPEND and SUSPEND freeze the job."""
    if not isinstance(state.doing, Busy | Retiring) or not (ctx.policy.want_suspend and ctx.policy.suspend):
        return False
    suspend(ctx, state, by_command=False)
    return True


def suspend(ctx: TransitionContext, state: Claimed, *, by_command: bool) -> None:
    """Freeze the job."""
    if isinstance(state.doing, Busy | Retiring):
        run = state.doing.run.paused(ctx.now)
        ctx.enter(replace(state, doing=Suspended(run, by_command)))
        ctx.do(PauseRun(run.run_id))
        ctx.report(run)


def row_8_continue(ctx: TransitionContext, state: Claimed) -> bool:
    """CONTINUE lets a job that the policy froze go on; one frozen by command waits for a command."""
    if not isinstance(state.doing, Suspended) or state.doing.by_command or not ctx.policy.continue_:
        return False
    resume(ctx, state)
    return True


def resume(ctx: TransitionContext, state: Claimed) -> None:
    """Let a frozen job go on: Busy, or Retiring when in retirement."""
    if isinstance(state.doing, Suspended):
        run = state.doing.run.resumed(ctx.now)
        retiring = not may_unretire(ctx, state)
        ctx.enter(replace(state, doing=Retiring(run) if retiring else Busy(run)))
        ctx.do(ResumeRun(run.run_id))
        ctx.report(run)


def row_9_make_room(ctx: TransitionContext, state: Claimed) -> bool:
    """Busy, and a better claim waits: retire until it goes away."""
    if not isinstance(state.doing, Busy) or state.waiting is None:
        return False
    ctx.retire(RANKED_OUT if state.waiting.by_rank else OUTBID, irrevocable=False)
    return True


def row_10_idle_make_room(ctx: TransitionContext, state: Claimed) -> bool:
    """Idle, and a better claim waits."""
    if not isinstance(state.doing, Idle) or state.waiting is None:
        return False
    ctx.preempt(RANKED_OUT if state.waiting.by_rank else OUTBID)
    return True


def row_11_owner(ctx: TransitionContext, state: Claimed) -> bool:
    """Idle, and the owner is back."""
    return _leaves_idle(ctx, state, OWNER_IS_BACK) if ctx.policy.is_owner else False


def row_12_worklife(ctx: TransitionContext, state: Claimed) -> bool:
    """Idle, and the claim has served for its work life (at least one job)."""
    return _leaves_idle(ctx, state, WORKLIFE_OVER) if worklife_over(ctx, state) else False


def worklife_over(ctx: TransitionContext, state: Claimed) -> bool:
    """Whether CLAIM_WORKLIFE has passed; a claim that never ran a job is not asked."""
    limit = ctx.policy.worklife_s
    return limit is not None and state.claim.activations > 0 and ctx.now - state.claim.claimed_at >= limit


def row_13_draining(ctx: TransitionContext, state: Claimed) -> bool:
    """Idle, and the machine drains or the startd ends; a fresh claim gets a moment to start its job."""
    if ctx.slot.shutdown or state.irrevocable:
        return _leaves_idle(ctx, state, state.pending_cause or SHUT_DOWN)
    if ctx.slot.draining is None:
        return False
    fresh = state.claim.activations == 0 and ctx.now - state.claim.claimed_at < ctx.policy.drain_grace_s
    return False if fresh else _leaves_idle(ctx, state, DRAINED)


def _leaves_idle(ctx: TransitionContext, state: Claimed, cause: Cause) -> bool:
    if not isinstance(state.doing, Idle):
        return False
    ctx.preempt(cause)
    return True


#: The manual's order. Row 2 (computing on demand) has no subject here: there are no such claims.
CLAIMED_CHECKS: tuple[Callable[[TransitionContext, Claimed], bool], ...] = (
    row_1_cleaning,
    row_3_retirement_over,
    row_4_preempt,
    row_5_unretire,
    row_6_retired,
    row_7_suspend,
    row_8_continue,
    row_9_make_room,
    row_10_idle_make_room,
    row_11_owner,
    row_12_worklife,
    row_13_draining,
)

_CHECKS: dict[State, Callable[[TransitionContext], bool]] = {
    State.OWNER: _owner,
    State.UNCLAIMED: _unclaimed,
    State.MATCHED: _matched,
    State.CLAIMED: _claimed,
    State.PREEMPTING: _preempting,
    State.BACKFILL: backfill.check,
    State.DRAINED: _drained,
    State.DELETE: _nothing,
}
