"""The Backfill state: filler work on a slot that is willing and that nobody has claimed.

Source: manual, "Backfill State" (transitions 7 and 26 to 32). Whoever wants the slot while the filler runs has it
killed first and waits for its end.
"""

from __future__ import annotations

from dataclasses import replace

from slotwise.model.slot import Activity, State, VacateCode
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Backfill, Matched, Owner
from slotwise.startd.slot.transition import Motion


def begin(m: Motion) -> None:
    """Unclaimed/Idle, and START_BACKFILL is true."""
    m.enter(Backfill())
    m.do(ev.StartFiller())


def look(m: Motion) -> bool:
    """EVICT_BACKFILL, a drain or the startd's end make the filler go; what does not go is killed again."""
    state = m.slot.state
    assert isinstance(state, Backfill)
    wanted_out = m.facts.evict_backfill or m.slot.draining is not None or m.slot.shutdown is not None
    wanted_out = wanted_out or m.slot.broken is not None
    if state.activity is Activity.IDLE and (wanted_out or state.leaving):
        m.enter(Owner())
        return True
    if state.activity is Activity.BUSY and wanted_out:
        kill(m, replace(state, leaving=True))
        return True
    if state.activity is Activity.KILLING and m.now >= state.again_at:
        m.enter(replace(state, again_at=m.now + m.facts.killing_timeout_s))
        m.do(ev.StopFiller(hard=True))
    return False


def kill(m: Motion, state: Backfill) -> None:
    """From Busy to Killing; ``state`` says what comes then."""
    m.enter(replace(state, activity=Activity.KILLING, again_at=m.now + m.facts.killing_timeout_s))
    m.do(ev.StopFiller(hard=False))


def started(m: Motion, _: ev.FillerStarted) -> None:
    """The client runs."""
    state = m.slot.state
    if isinstance(state, Backfill) and state.activity is Activity.IDLE:
        m.enter(replace(state, activity=Activity.BUSY))
        m.look = True


def ended(m: Motion, _: ev.FillerEnded) -> None:
    """The client has gone, by itself or because it had to."""
    state = m.slot.state
    if not isinstance(state, Backfill):
        return
    if state.activity is Activity.KILLING and state.claim is not None:
        m.take(replace(state.claim, claimed_at=m.now, last_alive=m.now), state.run)
    elif state.activity is Activity.KILLING and state.matched:
        m.enter(Matched(m.now + m.facts.match_timeout_s))
    else:
        if state.activity is not Activity.IDLE:
            m.enter(replace(state, activity=Activity.IDLE))
        if not state.leaving:
            m.do(ev.StartFiller())


def requested(m: Motion, stimulus: ev.ClaimRequested | ev.WorkFetched) -> None:
    """A schedd, or fetched work, wants the slot: at once if nothing runs, else when the filler has gone."""
    state = m.slot.state
    assert isinstance(state, Backfill)
    run = stimulus.run if isinstance(stimulus, ev.WorkFetched) else None
    if state.claim is not None or state.leaving:
        why = "another claim waits for the filler's end" if state.claim is not None else "the slot goes to its owner"
        m.do(ev.ClaimRefused(stimulus.claim.claim_id, VacateCode.NO_MATCH, why))
    elif state.activity is Activity.IDLE:
        m.do(ev.StopFiller(hard=False))
        m.take(stimulus.claim, run)
    else:
        m.do(ev.ClaimQueued(stimulus.claim))
        if state.activity is Activity.KILLING:
            m.enter(replace(state, claim=stimulus.claim, run=run))
        else:
            kill(m, replace(state, claim=stimulus.claim, run=run))


def matched(m: Motion) -> None:
    """The negotiator tells of a match."""
    state = m.slot.state
    assert isinstance(state, Backfill)
    if state.activity is Activity.IDLE:
        m.do(ev.StopFiller(hard=False))
        m.enter(Matched(m.now + m.facts.match_timeout_s))
    elif state.activity is Activity.KILLING:
        m.enter(replace(state, matched=True))
    else:
        kill(m, replace(state, matched=True))


def leave(m: Motion) -> None:
    """A command, the startd's end, or a defect: the filler goes, and the slot to its owner."""
    state = m.slot.state
    if not isinstance(state, Backfill):
        return
    if state.claim is not None:
        m.do(ev.ClaimRefused(state.claim.claim_id, VacateCode.NO_MATCH, "the slot goes to its owner"))
    gone = replace(state, leaving=True, claim=None, run=None, matched=False)
    if state.activity is Activity.BUSY:
        kill(m, gone)
    else:
        m.enter(gone)
        m.look = state.activity is Activity.IDLE
    assert m.is_in(State.BACKFILL)
