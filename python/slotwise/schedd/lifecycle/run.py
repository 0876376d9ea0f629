"""The life cycle of a run at the access point: a pure state machine, driven by one table, as that of a claim.

An event that has no row for a state is a defect, or a peer that breaks the protocol: the run that it is about ends.

A run is accepted once its starter has been given the job: until then it can end here without a word of the starter.
Giving a run up leaves its state as it is; it is over once its end is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from slotwise.errors import InvariantError
from slotwise.model.reason_codes import Hold, Vacate
from slotwise.model.transition_table import TransitionTable
from slotwise.schedd.jobs.decision import RunOutcome
from slotwise.schedd.lifecycle import run_events as events
from slotwise.schedd.lifecycle import run_instructions as do
from slotwise.schedd.lifecycle.run_events import EndOfClaim, RunEvent
from slotwise.schedd.lifecycle.run_instructions import RunInstruction
from slotwise.schedd.lifecycle.run_states import (
    STATES,
    Accepted,
    AtStarter,
    Ending,
    Executing,
    Failed,
    Over,
    Reconnecting,
    RunState,
    Silence,
    Starting,
    become,
)

Step = tuple[RunState, Sequence[RunInstruction]]
_S = TypeVar("_S", bound=RunState)

#: How long a starter may take to say hello before its run is asked for again, seconds.
HELLO_S = 60.0
#: How long the end of a run may be missing after its claim has gone, before the run is given up.
GRACE_S = 30.0
#: How long an idle claim's starter may take to say that it has the run's end, before the run is asked for again.
ASK_AGAIN_S = 2.0
#: How long the end of a run at which the access point failed may be missing while its starter is out of reach.
FAILED_PATIENCE_S = 30.0

_NOT_KNOWN = "the execution point does not know the run any more"


def step(state: RunState, event: RunEvent) -> Step:
    """The next state, and what to do.

    :raises InvariantError: when the event cannot happen in this state.
    """
    return TRANSITIONS.step(state, event)


def begun(moment: float, lease_s: float) -> Starting:
    """The state of a run that has just been decided, at ``moment`` on the monotonic clock."""
    return Starting(silence=Silence(moment + HELLO_S, moment + lease_s))


def restored(executing_at: float, moment: float, lease_s: float, *, claim_gone: bool, logged: bool) -> Reconnecting:
    """The state of a run of a former process. It counts as accepted: its starter may have been given the job."""
    return Reconnecting(executing_at, _silence(moment, lease_s, claim_gone), disconnect_logged=logged)


def lost(state: RunState, claim: EndOfClaim, reason: str) -> do.GiveUp:
    """What becomes of a run that neither side has, or that has been silent for too long."""
    ended = claim.ended
    if state.executing_at and ended is not None and (ended.code or ended.hold):
        # The starter is lost, too: the startd's own cause is the better one.
        if ended.hold:
            return do.GiveUp(RunOutcome.HELD, ended.reason, int(Hold.STARTD_HELD_JOB), ended.subcode)
        return do.GiveUp(RunOutcome.EVICTED, ended.reason, ended.code, ended.subcode)
    how = RunOutcome.LOST if state.executing_at else RunOutcome.NOT_STARTED
    return do.GiveUp(how, reason, int(Vacate.RECONNECT_FAILED))


# ---- handlers: what an event does in the states of its row


def _stay(state: RunState, event: RunEvent) -> Step:
    return state, ()


def _due(state: RunState, event: events.ActivationDue) -> Step:
    if event.goes_on:
        return state, [do.SendActivation()]
    reason = "the job was taken back before it started"
    return state, [do.GiveUp(RunOutcome.NOT_STARTED, reason, int(Vacate.SCHEDD_VACATE))]


def _activated(state: RunState, event: events.Activated) -> Step:
    return replace(state, activated=True, off_slot=False), ()


def _refused(state: RunState, event: events.ActivationRefused) -> Step:
    if state.executing_at:
        # It was asked for again after a break, and may have ended since: its starter has a while to say so.
        return _hurried(state, event.moment + GRACE_S), [do.ReleaseClaim(event.reason)]
    code = event.code or int(Vacate.FAILED_TO_ACTIVATE_CLAIM)
    return state, [do.GiveUp(RunOutcome.NOT_STARTED, event.reason, code)]


def _hello_starting(state: Starting, event: events.Hello) -> Step:
    return _heard(state), [do.SendAccepted(not event.resume, event.asks)]


def _hello(state: RunState, event: events.Hello) -> Step:
    """Its starter is back, or on another stream: what was said on the former one may be lost."""
    known: RunState = state
    if isinstance(state, Reconnecting):
        known = become(Executing if state.executing_at else Accepted, state)
    done: list[RunInstruction] = [do.LogReconnected()] if state.disconnect_logged else []
    done.append(do.SendAccepted(not event.resume, event.asks))
    done += _kill_again(state)
    if not isinstance(state, Ending):
        done.append(do.BeginTransfer(event.resume and state.executing_at > 0, event.asks))
    return replace(_heard(known), disconnect_logged=False), done


def _hello_failed(state: Failed, event: events.Hello) -> Step:
    if not event.resume:
        return state, [do.Abandon(state.reason)]
    return replace(state, silence=None), [do.SendAccepted(with_job=False), *_kill_again(state)]


def _began_anew(state: RunState, event: events.BeganAnew) -> Step:
    return state, [lost(state, event.claim, _NOT_KNOWN)]


def _job_sent(state: Starting, event: events.JobSent) -> Step:
    if state.silence is not None:
        raise InvariantError("a job was sent to a starter that has not said hello")
    return become(Accepted, state), [*_kill_again(state), do.BeginTransfer(False, event.asks)]


def _started(state: RunState, event: events.Started) -> Step:
    return replace(become(Executing, state), executing_at=event.at), [do.LogExecuting(event.slot)]


def _started_late(state: Ending, event: events.Started) -> Step:
    return (state, ()) if state.executing_at else (replace(state, executing_at=event.at), [do.LogExecuting(event.slot)])


def _end_reported(state: RunState, event: events.EndReported) -> Step:
    return become(Ending, state), [do.TakeEnd(event.end)]


def _end_of_failed(state: Failed, event: events.EndReported) -> Step:
    return state, [do.Abandon(state.reason)]


def _recorded(state: RunState, event: events.EndRecorded) -> Step:
    return become(Over, state), ()


def _stream_lost(state: RunState, event: events.StreamLost) -> Step:
    silence = _silence(event.moment, event.lease_s, event.claim_gone)
    if state.off_slot:
        silence = silence.at_most(event.moment + ASK_AGAIN_S)
    following = become(Reconnecting, state) if isinstance(state, Accepted | Executing) else state
    if state.executing_at and event.goes_on and not state.disconnect_logged:
        return replace(following, silence=silence, disconnect_logged=True), [do.LogDisconnected(event.reason)]
    return replace(following, silence=silence), ()


def _claim_lost(state: RunState, event: events.ClaimLost) -> Step:
    return _hurried(state, event.moment + GRACE_S), _if_nowhere(state, event.at_starter, event.claim)


def _listed(state: RunState, event: events.StarterListed) -> Step:
    return state, _if_nowhere(state, event.at_starter, event.claim)


def _busy(state: RunState, event: events.SlotBusy) -> Step:
    again = [do.Deactivate(state.kill)] if state.kill is not None else []  # what was said before the break may be lost
    return replace(state, activated=True, off_slot=False), again


def _idle(state: RunState, event: events.SlotIdle) -> Step:
    """The claim lives, but nothing runs on it."""
    state = replace(state, off_slot=True)
    missing = event.at_starter is AtStarter.MISSING
    if state.silence is None or event.at_starter is AtStarter.LISTED:
        return state, ()
    if not state.executing_at and (missing or not state.activated):
        return state, [do.Activate()]
    if missing:
        return state, [lost(state, event.claim, _NOT_KNOWN)]
    return replace(state, silence=replace(state.silence, until=event.moment + ASK_AGAIN_S)), ()


def _freed(state: RunState, event: events.SlotFreed) -> Step:
    return _hurried(replace(state, off_slot=True), event.moment + ASK_AGAIN_S), ()


def _patience_over(state: RunState, event: events.PatienceOver) -> Step:
    """Ask for the run again, or give it up."""
    silence = state.silence
    if silence is None:
        return state, ()
    if event.claim.gone or event.moment >= silence.lost_at:
        reason = "Job lease expired, or its claim ended, without word of the starter"
        return state, [lost(state, event.claim, reason)]
    # Answered by the end that its starter has, or by starting it.
    return replace(state, silence=replace(silence, until=event.moment + GRACE_S)), [do.Activate()]


def _patience_with_failed(state: Failed, event: events.PatienceOver) -> Step:
    return state, [do.Abandon(state.reason)]


def _kill(state: RunState, event: events.KillRequested) -> Step:
    """At once if its starter can be reached, else by the startd if the job executes, else when a starter says hello."""
    state = replace(state, kill=event.kill)
    if state.silence is None:
        return state, [do.SendKill(event.kill)]
    return state, [do.Deactivate(event.kill)] if state.executing_at else []


def _fail_starting(state: Starting, event: events.AccessPointFailed) -> Step:
    return replace(become(Failed, state), reason=event.kill.reason), [do.Abandon(event.kill.reason)]


def _fail(state: RunState, event: events.AccessPointFailed) -> Step:
    """The job may execute until its starter says otherwise, so it is not started elsewhere before that."""
    failed = state
    if not isinstance(failed, Failed):
        failed = replace(become(Failed, state), kill=event.kill, reason=event.kill.reason)
    if event.ended:
        return failed, [do.Abandon(failed.reason)]
    return _hurried(failed, event.moment + FAILED_PATIENCE_S), _kill_again(failed) if failed.silence is None else []


def _fail_over(state: Over, event: events.AccessPointFailed) -> Step:
    """Its end was taken over in part: its starter hears that, and its job is seen to."""
    return state, [do.Abandon(event.kill.reason)] if event.ended else []


# ---- parts of handlers


def _silence(moment: float, lease_s: float, claim_gone: bool) -> Silence:
    lost_at = moment + lease_s
    return Silence(moment + GRACE_S if claim_gone else lost_at, lost_at)


def _hurried(state: _S, moment: float) -> _S:
    """A silence is borne until ``moment``, or less if less was meant before."""
    return state if state.silence is None else replace(state, silence=state.silence.at_most(moment))


def _heard(state: _S) -> _S:
    return replace(state, silence=None, activated=True)


def _kill_again(state: RunState) -> list[RunInstruction]:
    return [do.SendKill(state.kill)] if state.kill is not None else []


def _if_nowhere(state: RunState, at_starter: AtStarter, claim: EndOfClaim) -> list[RunInstruction]:
    """Give the run up if neither the startd nor the starter has it."""
    if state.silence is None or at_starter is not AtStarter.MISSING or not claim.gone:
        return []
    return [lost(state, claim, "the claim ended and the starter does not know the run")]


# ---- the table

TRANSITIONS: TransitionTable[RunState, RunEvent, RunInstruction] = TransitionTable("a run", STATES)
_row = TRANSITIONS.add
_accepted = (Accepted, Executing, Reconnecting)
_alive = (Starting, Accepted, Executing, Reconnecting, Ending)
_silent = (Starting, Reconnecting, Ending)

_row([Starting], events.Hello, [], "its starter gets the job", _hello_starting, stays=True)
_row([Starting], events.JobSent, [Accepted], "the starter has been given the job", _job_sent)
_row([Accepted], events.Started, [Executing], "the job executes", _started)
_row([Accepted, Executing], events.EndReported, [Ending], "the starter reports the end", _end_reported)
_row(
    [*_alive, Failed, Over],
    events.EndRecorded,
    [Over],
    "the end is decided: taken over, given up, or abandoned",
    _recorded,
)
# The stream of the starter.
_row(
    [Accepted, Executing],
    events.StreamLost,
    [Reconnecting],
    "the stream breaks; event 022 if the job executes",
    _stream_lost,
)
_row([Starting, Ending, Failed], events.StreamLost, [], "the stream breaks", _stream_lost, stays=True)
_row([Reconnecting], events.Hello, [Accepted, Executing], "the starter is back: event 023", _hello)
_row([Accepted, Executing, Ending], events.Hello, [], "the starter is on another stream", _hello, stays=True)
_row([Failed], events.Hello, [], "killed; one that begins anew is abandoned", _hello_failed, stays=True)
_row([Executing, Reconnecting, Ending], events.BeganAnew, [], "given up: what ran is lost", _began_anew, stays=True)
_row(_alive, events.StarterListed, [], "given up if claim and starter are without it", _listed, stays=True)
_row(
    _silent,
    events.PatienceOver,
    [],
    "asked for again; given up after its lease, or without a claim",
    _patience_over,
    stays=True,
)
_row([Failed], events.PatienceOver, [], "abandoned", _patience_with_failed, stays=True)
# The startd.
_row(_alive, events.ActivationDue, [], "activated; given up if the job was taken back", _due, stays=True)
_row(_alive, events.Activated, [], "the startd has passed it to its starter", _activated, stays=True)
_row(
    [*_alive, Failed],
    events.ActivationRefused,
    [],
    "given up; one that executes may still report its end",
    _refused,
    stays=True,
)
_row(
    _alive,
    events.ClaimLost,
    [],
    "a while to report the end; given up if its starter is without it",
    _claim_lost,
    stays=True,
)
_row(_alive, events.SlotBusy, [], "it is there; a kill is repeated", _busy, stays=True)
_row(
    _alive, events.SlotIdle, [], "it is not there: activated, given up, or asked for a little later", _idle, stays=True
)
_row(_alive, events.SlotFreed, [], "a silent run is asked for soon", _freed, stays=True)
# The access point.
_row(_alive, events.KillRequested, [], "its starter is told, or the startd, or its starter later", _kill, stays=True)
_row([Starting], events.AccessPointFailed, [Failed], "abandoned: no starter has the job", _fail_starting)
_row([*_accepted, Ending], events.AccessPointFailed, [Failed], "killed; abandoned once it has ended", _fail)
_row([Failed], events.AccessPointFailed, [], "once more", _fail, stays=True)
_row([Over], events.AccessPointFailed, [], "abandoned if its end was taken over in part", _fail_over, stays=True)
# What may come late, or twice.
_row([Executing], events.Started, [], "said again after a break", _stay, stays=True)
_row([Ending], events.Started, [], "said late", _started_late, stays=True)
_row([Ending], events.EndReported, [], "said again after a break", _stay, stays=True)
_row([Failed], events.EndReported, [], "abandoned", _end_of_failed, stays=True)
_row([Failed], events.Activated, [], "it is being killed", _stay, stays=True)
_row([Failed], events.ActivationDue, [], "it is being killed", _stay, stays=True)
_row([Failed], events.ClaimLost, [], "it is being killed", _stay, stays=True)
_row([Failed], events.StarterListed, [], "it is being killed", _stay, stays=True)
_row([Failed], events.SlotBusy, [], "it is being killed", _stay, stays=True)
_row([Failed], events.SlotIdle, [], "it is being killed", _stay, stays=True)
_row([Failed], events.SlotFreed, [], "it is being killed", _stay, stays=True)
_row([Failed], events.KillRequested, [], "it is being killed", _stay, stays=True)
_row([Over], events.KillRequested, [], "it is over", _stay, stays=True)
_row([Over], events.ActivationDue, [], "it is over", _stay, stays=True)
_row([Over], events.StreamLost, [], "it is over", _stay, stays=True)
