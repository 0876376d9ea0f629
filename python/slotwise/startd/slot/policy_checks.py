"""What the policy and the timers make of a slot: the checks of each state, in their order.

Each function makes at most one move and says whether it did. The rows of :data:`CLAIMED_CHECKS` are the manual's
order of evaluation in Claimed; the first that applies ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
from slotwise.startd.slot.transition import Motion

#: SIGKILL is sent so often, KILLING_TIMEOUT apart, before a slot that keeps processes is given up as broken.
KILL_TRIES = 10
UNKILLABLE = "Could not terminate all job processes"

LEASE_OVER = Cause(VacateCode.RELEASE_COMMAND, "The claim's lease ran out", tell_schedd=False, fast=True)
TIME_OVER = Cause(VacateCode.WORKLIFE_OVER, "The claim of the partitionable slot has had its time")
WORKLIFE_OVER = Cause(VacateCode.WORKLIFE_OVER, "The claim has reached its CLAIM_WORKLIFE")
OWNER_IS_BACK = Cause(VacateCode.PREEMPT_EXPRESSION, "IS_OWNER became true")
DRAINED = Cause(VacateCode.DRAINING, "Startd was draining")
SHUT_DOWN = Cause(VacateCode.SHUTDOWN, "Startd was shutdown")
PREEMPT_FIRED = Cause(VacateCode.PREEMPT_EXPRESSION, "PREEMPT expression evaluated to True", by_preempt=True)
RANKED_OUT = Cause(VacateCode.PREEMPTED_BY_RANK, "Preempted for a higher Ranked job")
OUTBID = Cause(VacateCode.PREEMPTED_BY_PRIORITY, "Preempted for a Priority user")


def advance(m: Motion) -> bool:
    """Make the move that is due in the present state, if any."""
    return _CHECKS[m.slot.state.state](m)


def _owner(m: Motion) -> bool:
    if m.slot.vanishes:
        m.delete()
    elif m.slot.draining:
        m.enter(Drained())
    elif not m.facts.is_owner:
        m.enter(Unclaimed())
    else:
        return False
    return True


def _unclaimed(m: Motion) -> bool:
    state = m.slot.state
    assert isinstance(state, Unclaimed)
    if m.slot.vanishes:
        m.delete()
        return True
    if state.benchmarking:
        return False
    if m.slot.draining:
        m.enter(Drained())
    elif m.facts.is_owner:
        m.enter(Owner())
    elif m.facts.start_backfill and m.slot.kind is SlotKind.STATIC and not m.slot.shutdown:
        backfill.begin(m)
    elif m.facts.run_benchmarks:
        m.enter(Unclaimed(benchmarking=True))
        m.do(StartBenchmarks())
    else:
        return False
    return True


def _matched(m: Motion) -> bool:
    state = m.slot.state
    assert isinstance(state, Matched)
    if m.now < state.deadline and m.facts.start is not False:
        return False
    m.enter(Owner())
    m.do(ReplaceClaimId())
    return True


def _preempting(m: Motion) -> bool:
    state = m.slot.state
    assert isinstance(state, Preempting)
    if isinstance(state.doing, Vacating):
        if m.now >= state.doing.hard_kill_at or m.facts.kill:
            m.kill()
            return True
        return False
    if m.now < state.doing.again_at:
        return False
    tries = state.doing.tries + 1
    if tries > KILL_TRIES:
        m.slot = replace(m.slot, broken=UNKILLABLE, broken_code=BrokenCode.HUNG_PROCESS)
        m.leave()
        return True
    m.enter(replace(state, doing=Killing(m.now + m.facts.killing_timeout_s, tries)))
    if state.run is not None:
        m.do(KillFamily(state.run.run_id))
    return False


def _drained(m: Motion) -> bool:
    state = m.slot.state
    assert isinstance(state, Drained)
    if m.slot.vanishes:
        m.delete()
    elif not m.slot.draining:
        m.enter(Owner())
    elif not state.complete and m.facts.all_drained:
        m.enter(Drained(complete=True))
    else:
        return False
    return True


def _nothing(m: Motion) -> bool:
    return False


# ------------------------------------------------------------------------------------------------------------- Claimed


def _claimed(m: Motion) -> bool:
    state = m.slot.state
    assert isinstance(state, Claimed)
    if m.now >= state.claim.lease_ends():
        timed = state.claim.ends_at is not None and m.now >= state.claim.ends_at
        m.preempt(TIME_OVER if timed else LEASE_OVER)
        return not isinstance(state.doing, Cleaning)
    if _escalate(m, state):
        return False
    return any(check(m, state) for check in CLAIMED_CHECKS) and not isinstance(state.doing, Cleaning)


def _escalate(m: Motion, state: Claimed) -> bool:
    """A run that the schedd ended and that does not go: force, then SIGKILL, while the claim stays."""
    ending, run = state.ending, state.run
    if ending is None or run is None or m.now < ending.hard_kill_at:
        return False
    later = replace(ending, hard=True, hard_kill_at=m.now + m.facts.killing_timeout_s)
    m.enter(replace(state, ending=later))
    m.do(KillFamily(run.run_id) if ending.hard else HardKill(run.run_id, ending.cause))
    return True


def in_retirement(state: Claimed) -> bool:
    """A better claim waits, or retirement cannot be taken back."""
    return state.waiting is not None or state.final


def may_unretire(m: Motion, state: Claimed) -> bool:
    """Nothing is left that wants the job to retire."""
    return not in_retirement(state) and m.slot.draining is None and m.slot.shutdown is None


def _cause(m: Motion, state: Claimed) -> Cause:
    """Why a claim ends whose retirement is over."""
    if state.preempt_fired or (m.facts.preempt and not state.waiting and state.pledge is None):
        fired = state.pledge is not None and state.pledge.by_preempt
        return state.pledge if state.pledge is not None and fired else _preempt_fired(m)
    if state.pledge is not None:
        return replace(state.pledge, by_preempt=m.facts.preempt) if m.facts.preempt else state.pledge
    if state.waiting is not None:
        return RANKED_OUT if state.waiting.by_rank else OUTBID
    return DRAINED if m.slot.draining else SHUT_DOWN


def row_1_cleaning(m: Motion, state: Claimed) -> bool:
    """Nothing is decided while the leavings of a job are removed."""
    return isinstance(state.doing, Cleaning)


def row_3_retirement_over(m: Motion, state: Claimed) -> bool:
    """In retirement, and it is over."""
    if isinstance(state.doing, Idle) or not in_retirement(state) or not expired(m.slot, m.facts, m.now):
        return False
    m.preempt(_cause(m, state))
    return True


def row_4_preempt(m: Motion, state: Claimed) -> bool:
    """PREEMPT begins retirement that cannot be taken back; with WANT_SUSPEND the job must have been suspended first."""
    facts = m.facts
    applies = facts.preempt and (
        (isinstance(state.doing, Busy) and not facts.want_suspend)
        or (isinstance(state.doing, Retiring) and not state.preempt_fired and not facts.want_suspend)
        or (isinstance(state.doing, Suspended) and not state.preempt_fired)
        or (isinstance(state.doing, Idle) and bool(facts.conflict))
    )
    if applies:
        m.retire(_preempt_fired(m), final=True, by_preempt=True)
    return applies


def _preempt_fired(m: Motion) -> Cause:
    if not m.facts.conflict:
        return PREEMPT_FIRED
    return replace(PREEMPT_FIRED, reason=f"Primary slots use what this backfill slot has: {m.facts.conflict}")


def row_5_unretire(m: Motion, state: Claimed) -> bool:
    """The better claim has gone, or draining was cancelled: back to work."""
    if not isinstance(state.doing, Retiring) or not may_unretire(m, state):
        return False
    m.enter(replace(state, doing=Busy(state.doing.run), pledge=None))
    m.tell(state.doing.run)
    return True


def row_6_retired(m: Motion, state: Claimed) -> bool:
    """Retiring, and retirement is over."""
    if not isinstance(state.doing, Retiring) or not expired(m.slot, m.facts, m.now):
        return False
    m.preempt(_cause(m, state))
    return True


def row_7_suspend(m: Motion, state: Claimed) -> bool:
    """WANT_SUSPEND and SUSPEND freeze the job."""
    if not isinstance(state.doing, Busy | Retiring) or not (m.facts.want_suspend and m.facts.suspend):
        return False
    suspend(m, state, by_command=False)
    return True


def suspend(m: Motion, state: Claimed, *, by_command: bool) -> None:
    """Freeze the job."""
    if isinstance(state.doing, Busy | Retiring):
        run = state.doing.run.paused(m.now)
        m.enter(replace(state, doing=Suspended(run, by_command)))
        m.do(PauseRun(run.run_id))
        m.tell(run)


def row_8_continue(m: Motion, state: Claimed) -> bool:
    """CONTINUE lets a job that the policy froze go on; one frozen by command waits for a command."""
    if not isinstance(state.doing, Suspended) or state.doing.by_command or not m.facts.continue_:
        return False
    resume(m, state)
    return True


def resume(m: Motion, state: Claimed) -> None:
    """Let a frozen job go on: Busy, or Retiring when in retirement."""
    if isinstance(state.doing, Suspended):
        run = state.doing.run.resumed(m.now)
        retiring = not may_unretire(m, state)
        m.enter(replace(state, doing=Retiring(run) if retiring else Busy(run)))
        m.do(ResumeRun(run.run_id))
        m.tell(run)


def row_9_make_room(m: Motion, state: Claimed) -> bool:
    """Busy, and a better claim waits: retire until it goes away."""
    if not isinstance(state.doing, Busy) or state.waiting is None:
        return False
    m.retire(RANKED_OUT if state.waiting.by_rank else OUTBID, final=False)
    return True


def row_10_idle_make_room(m: Motion, state: Claimed) -> bool:
    """Idle, and a better claim waits."""
    if not isinstance(state.doing, Idle) or state.waiting is None:
        return False
    m.preempt(RANKED_OUT if state.waiting.by_rank else OUTBID)
    return True


def row_11_owner(m: Motion, state: Claimed) -> bool:
    """Idle, and the owner is back."""
    return _leaves_idle(m, state, OWNER_IS_BACK) if m.facts.is_owner else False


def row_12_worklife(m: Motion, state: Claimed) -> bool:
    """Idle, and the claim has served for its work life (at least one job)."""
    return _leaves_idle(m, state, WORKLIFE_OVER) if worklife_over(m, state) else False


def worklife_over(m: Motion, state: Claimed) -> bool:
    """Whether CLAIM_WORKLIFE has passed; a claim that never ran a job is not asked."""
    limit = m.facts.worklife_s
    return limit is not None and state.claim.activations > 0 and m.now - state.claim.claimed_at >= limit


def row_13_draining(m: Motion, state: Claimed) -> bool:
    """Idle, and the machine drains or the startd ends; a fresh claim gets a moment to start its job."""
    if m.slot.shutdown or state.final:
        return _leaves_idle(m, state, state.pledge or SHUT_DOWN)
    if m.slot.draining is None:
        return False
    fresh = state.claim.activations == 0 and m.now - state.claim.claimed_at < m.facts.drain_grace_s
    return False if fresh else _leaves_idle(m, state, DRAINED)


def _leaves_idle(m: Motion, state: Claimed, cause: Cause) -> bool:
    if not isinstance(state.doing, Idle):
        return False
    m.preempt(cause)
    return True


#: The manual's order. Row 2 (computing on demand) has no subject here: there are no such claims.
CLAIMED_CHECKS: tuple[Callable[[Motion, Claimed], bool], ...] = (
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

_CHECKS: dict[State, Callable[[Motion], bool]] = {
    State.OWNER: _owner,
    State.UNCLAIMED: _unclaimed,
    State.MATCHED: _matched,
    State.CLAIMED: _claimed,
    State.PREEMPTING: _preempting,
    State.BACKFILL: backfill.look,
    State.DRAINED: _drained,
    State.DELETE: _nothing,
}
