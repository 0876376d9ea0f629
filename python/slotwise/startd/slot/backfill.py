"""The Backfill state: filler work on a slot that is willing and that nobody has claimed.

Source: manual, "Backfill State" (transitions 7 and 26 to 32). Whoever wants the slot while the filler runs has it
killed first and waits for its end.
"""

from __future__ import annotations

from msgspec.structs import replace

from slotwise.model.slot import Activity, State, VacateCode
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Backfill, Matched, Owner
from slotwise.startd.slot.transition_context import TransitionContext


def begin(ctx: TransitionContext) -> None:
    """Unclaimed/Idle, and START_BACKFILL is true."""
    ctx.enter(Backfill())
    ctx.do(ev.StartBackfill())


def check(ctx: TransitionContext) -> bool:
    """EVICT_BACKFILL, a drain or the startd's end make the filler go; what does not go is killed again."""
    state = ctx.slot.state
    assert isinstance(state, Backfill)
    wanted_out = ctx.policy.evict_backfill or ctx.slot.draining is not None or ctx.slot.shutdown is not None
    wanted_out = wanted_out or ctx.slot.broken is not None
    if state.activity is Activity.IDLE and (wanted_out or state.leaving):
        ctx.enter(Owner())
        return True
    if state.activity is Activity.BUSY and wanted_out:
        kill(ctx, replace(state, leaving=True))
        return True
    if state.activity is Activity.KILLING and ctx.now >= state.again_at:
        ctx.enter(replace(state, again_at=ctx.now + ctx.policy.killing_timeout_s))
        ctx.do(ev.StopBackfill(hard=True))
    return False


def kill(ctx: TransitionContext, state: Backfill) -> None:
    """From Busy to Killing; ``state`` says what comes then."""
    ctx.enter(replace(state, activity=Activity.KILLING, again_at=ctx.now + ctx.policy.killing_timeout_s))
    ctx.do(ev.StopBackfill(hard=False))


def started(ctx: TransitionContext, _: ev.BackfillStarted) -> None:
    """The client runs."""
    state = ctx.slot.state
    if isinstance(state, Backfill) and state.activity is Activity.IDLE:
        ctx.enter(replace(state, activity=Activity.BUSY))
        ctx.reevaluate = True


def ended(ctx: TransitionContext, _: ev.BackfillEnded) -> None:
    """The client has gone, by itself or because it had to."""
    state = ctx.slot.state
    if not isinstance(state, Backfill):
        return
    if state.activity is Activity.KILLING and state.claim is not None:
        ctx.take(replace(state.claim, claimed_at=ctx.now, last_alive=ctx.now), state.run)
    elif state.activity is Activity.KILLING and state.matched:
        ctx.enter(Matched(ctx.now + ctx.policy.match_timeout_s))
    else:
        if state.activity is not Activity.IDLE:
            ctx.enter(replace(state, activity=Activity.IDLE))
        if not state.leaving:
            ctx.do(ev.StartBackfill())


def requested(ctx: TransitionContext, event: ev.ClaimRequested | ev.WorkFetched) -> None:
    """A schedd, or fetched work, wants the slot: at once if nothing runs, else when the filler has gone."""
    state = ctx.slot.state
    assert isinstance(state, Backfill)
    run = event.run if isinstance(event, ev.WorkFetched) else None
    if state.claim is not None or state.leaving:
        why = "another claim waits for the filler's end" if state.claim is not None else "the slot goes to its owner"
        ctx.do(ev.ClaimRefused(event.claim.claim_id, VacateCode.NO_MATCH, why))
    elif state.activity is Activity.IDLE:
        ctx.do(ev.StopBackfill(hard=False))
        ctx.take(event.claim, run)
    else:
        ctx.do(ev.ClaimQueued(event.claim))
        if state.activity is Activity.KILLING:
            ctx.enter(replace(state, claim=event.claim, run=run))
        else:
            kill(ctx, replace(state, claim=event.claim, run=run))


def matched(ctx: TransitionContext) -> None:
    """The negotiator tells of a match."""
    state = ctx.slot.state
    assert isinstance(state, Backfill)
    if state.activity is Activity.IDLE:
        ctx.do(ev.StopBackfill(hard=False))
        ctx.enter(Matched(ctx.now + ctx.policy.match_timeout_s))
    elif state.activity is Activity.KILLING:
        ctx.enter(replace(state, matched=True))
    else:
        kill(ctx, replace(state, matched=True))


def leave(ctx: TransitionContext) -> None:
    """A command, the startd's end, or a defect: the filler goes, and the slot to its owner."""
    state = ctx.slot.state
    if not isinstance(state, Backfill):
        return
    if state.claim is not None:
        ctx.do(ev.ClaimRefused(state.claim.claim_id, VacateCode.NO_MATCH, "the slot goes to its owner"))
    gone = replace(state, leaving=True, claim=None, run=None, matched=False)
    if state.activity is Activity.BUSY:
        kill(ctx, gone)
    else:
        ctx.enter(gone)
        ctx.reevaluate = state.activity is Activity.IDLE
    assert ctx.is_in(State.BACKFILL)
