"""The life cycle of a claim at the schedd: a pure state machine, driven by one table.

An event and the state give the next state and instructions. The caller adopts the state before it carries out the
instructions, so that whatever fails then meets a claim that is where it says. An event that has no row for a state is a
defect, or a peer that breaks the protocol: the claim that it is about is released.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from slotwise.errors import InvariantError
from slotwise.model.transition_table import TransitionTable
from slotwise.schedd.lifecycle import claim_events as events
from slotwise.schedd.lifecycle import claim_instructions as do
from slotwise.schedd.lifecycle.claim_events import ClaimEvent
from slotwise.schedd.lifecycle.claim_instructions import ClaimInstruction
from slotwise.schedd.lifecycle.claim_states import (
    STATES,
    ClaimState,
    Closing,
    Disconnected,
    Gone,
    Idle,
    Requested,
    Reserved,
    Running,
)

Step = tuple[ClaimState, Sequence[ClaimInstruction]]

#: Why a claim is given back that others wait for.
SHARE_USED_UP = "its submitter holds more than its share, and others wait"
#: Why a claim is given back that serves nobody any more.
NO_JOB_LEFT = "no job is left for the slot"
#: Why a claim is given back that was to become part of a larger slot.
NOT_COALESCED = "the other jobs that were to make room did not end in time"
#: After so many runs in a row that failed through no fault of their jobs, the claim serves no further job.
_FAILURES_MOST = 2


def step(state: ClaimState, event: ClaimEvent) -> Step:
    """The next state, and what to do.

    :raises InvariantError: when the event cannot happen in this state.
    """
    return TRANSITIONS.step(state, event)


def serves(state: ClaimState, runs: Collection[str]) -> bool:
    """Whether a claim has something to wait for; ``runs``: the ids of those that are known.

    A claim that serves nothing was left so by a failure.
    """
    if isinstance(state, Idle):
        return state.since is not None
    if isinstance(state, Disconnected) and not state.run:
        return True
    return isinstance(state, Reserved) or (not isinstance(state, Gone) and state.run_id in runs)


# ---- handlers: what an event does in the states of its row


def _stay(state: ClaimState, event: ClaimEvent) -> Step:
    return state, ()


def _granted(state: Requested, event: events.Granted) -> Step:
    return Idle(), [do.StartNext(event.job, at_once=False, reason=NO_JOB_LEFT)]


def _withdrawn(state: Requested, event: events.Withdrawn) -> Step:
    return Gone(), [do.ReturnJobs()]


def _reserved(state: Idle, event: events.JobReserved) -> Step:
    return Reserved(event.job), [do.StartAfter(event.wait_s)]


def _start_due(state: Reserved, event: events.StartDue) -> Step:
    return Idle(), [do.StartNext(state.job, reason=NO_JOB_LEFT)]


def _begun(state: Idle, event: events.RunBegun) -> Step:
    return Running(event.run_id), ()


def _ended(state: ClaimState, event: events.RunEnded) -> Step:
    """The claim serves the next job, waits for one, or is given back."""
    _same_run(state, event.run_id)
    follows = event.failures < _FAILURES_MOST
    if follows and event.preferred is not None:
        return Idle(), [do.StartNext(event.preferred, keep_s=event.keep_s, reason=NO_JOB_LEFT)]
    if follows and event.pledge_s > 0:
        return Idle(event.moment, event.pledge_s, pledged=True), ()
    if event.beyond is not None:
        reason = event.beyond.reason or SHARE_USED_UP
        if follows and event.beyond.until:
            return Idle(), [do.StartNext(ends_by=event.beyond.until, reason=reason)]
        return _release(reason)
    if follows:
        return Idle(), [do.StartNext(keep_s=event.keep_s, reason=NO_JOB_LEFT)]
    return _keep_or_release(event.moment, event.keep_s, NO_JOB_LEFT)


def _ended_closing(state: Closing, event: events.RunEnded) -> Step:
    _same_run(state, event.run_id)
    return _release((event.beyond.reason or SHARE_USED_UP) if event.beyond is not None else NO_JOB_LEFT)


def _no_job(state: Idle, event: events.NoJobFound) -> Step:
    return _keep_or_release(event.moment, event.keep_s, event.reason)


def _keep_check(state: Idle, event: events.KeepCheck) -> Step:
    if state.since is None or event.moment < state.since + state.keep_s:
        return state, ()
    return _release(NOT_COALESCED if state.pledged else "KeepClaimIdle has run out")


def _lease_check(state: Disconnected, event: events.KeepCheck) -> Step:
    if state.run or event.moment < state.until:
        return state, ()
    return _release("its startd has not been heard of for its lease")


def _listed_with_run(state: Running, event: events.ClaimListed) -> Step:
    return state, [_check(state.run, event)]


def _listed_closing(state: Closing, event: events.ClaimListed) -> Step:
    return state, [_check(state.run, event)]


def _listed_again(state: Disconnected, event: events.ClaimListed) -> Step:
    if not state.run:
        return _start_any()
    return Running(state.run), [_check(state.run, event)]


def _listed_idle(state: Idle, event: events.ClaimListed) -> Step:
    return (state, ()) if state.since is not None else _start_any()


def _unlisted(state: ClaimState, event: events.ClaimUnlisted) -> Step:
    return _gone(state, Gone(state.run_id), judge=True)


def _ended_by_startd(state: ClaimState, event: events.ClaimEnded) -> Step:
    return _gone(state, Gone(state.run_id, event.cause))


def _retires(state: ClaimState, event: events.SlotRetires) -> Step:
    return Closing(state.run_id), ()


def _retires_unused(state: ClaimState, event: events.SlotRetires) -> Step:
    return _release("the slot is being taken away", state)


def _retires_disconnected(state: Disconnected, event: events.SlotRetires) -> Step:
    return _retires(state, event) if state.run else _retires_unused(state, event)


def _link_lost(state: Running, event: events.LinkLost) -> Step:
    return Disconnected(state.run), ()


def _released(state: ClaimState, event: events.Released) -> Step:
    return _release(event.reason, state, fast=event.fast)


def _released_again(state: Gone, event: events.Released) -> Step:
    """Something failed while the claim was being given back: it is given back whole."""
    return state, [do.SendRelease(event.reason, event.fast), do.Discard()]


def _listed_gone(state: Gone, event: events.ClaimListed) -> Step:
    return state, [do.SendRelease(NO_JOB_LEFT), do.Discard()]


# ---- parts of handlers


def _same_run(state: ClaimState, run_id: str) -> None:
    if state.run_id != run_id:
        raise InvariantError(f"the end of the run {run_id} came to a claim that has the run {state.run_id}")


def _check(run_id: str, event: events.ClaimListed) -> ClaimInstruction:
    return do.CheckRun(run_id, active=event.active and event.run_id == run_id)


def _start_any() -> Step:
    return Idle(), [do.StartNext(at_once=False, reason=NO_JOB_LEFT)]


def _keep_or_release(moment: float, keep_s: int, reason: str) -> Step:
    return (Idle(moment, keep_s), ()) if keep_s > 0 else _release(reason)


def _release(reason: str, state: ClaimState | None = None, *, fast: bool = False) -> Step:
    run_id = state.run_id if state is not None else ""
    return Gone(run_id), [do.SendRelease(reason, fast), do.Discard(), *_returned(state)]


def _gone(state: ClaimState, gone: Gone, *, judge: bool = False) -> Step:
    awaited = [do.AwaitRunEnd(gone.run, judge)] if gone.run else []
    return gone, [do.Discard(), *_returned(state), *awaited]


def _returned(state: ClaimState | None) -> list[ClaimInstruction]:
    return [do.ReturnJob(state.job)] if isinstance(state, Reserved) else []


# ---- the table

TRANSITIONS: TransitionTable[ClaimState, ClaimEvent, ClaimInstruction] = TransitionTable("a claim", STATES)
_row = TRANSITIONS.add
_held = (Idle, Reserved, Running, Disconnected, Closing)

_row([Requested], events.Granted, [Idle], "the startd grants the slot: a job is chosen for it", _granted)
_row([Requested], events.Withdrawn, [Gone], "refused, or lost with the link: its jobs are runnable again", _withdrawn)
_row([Idle], events.JobReserved, [Reserved], "the next job waits for JOB_START_DELAY", _reserved)
_row([Idle], events.RunBegun, [Running], "the next job starts", _begun)
_row([Idle], events.NoJobFound, [Gone], "no job: kept for KeepClaimIdle, or given back", _no_job, stays=True)
_row([Idle], events.KeepCheck, [Gone], "KeepClaimIdle has run out: given back", _keep_check, stays=True)
_row(
    [Disconnected],
    events.KeepCheck,
    [Gone],
    "without a run, its lease has run out before the startd was heard: given back",
    _lease_check,
    stays=True,
)
_row([Reserved], events.StartDue, [Idle], "JOB_START_DELAY has passed: the job, or another, starts", _start_due)
_row(
    [Running, Disconnected],
    events.RunEnded,
    [Idle, Gone],
    "a job follows, as long as the submitter's share and failures allow, or the one for which the run was vacated;"
    " else kept or given back",
    _ended,
)
_row([Closing], events.RunEnded, [Gone], "no job follows: given back", _ended_closing)
_row([Running, Disconnected, Closing, Idle, Reserved], events.Released, [Gone], "given back", _released)
_row([Requested], events.Released, [Gone], "given back: the schedd failed at the grant", _released)
# What the startd says of the slot.
_row([Running], events.SlotRetires, [Closing], "the startd takes the slot back once the run is over", _retires)
_row([Disconnected], events.SlotRetires, [Closing, Gone], "the same; without a run, given back", _retires_disconnected)
_row([Idle, Reserved], events.SlotRetires, [Gone], "nothing runs on it: given back", _retires_unused)
_row([Closing], events.SlotRetires, [], "it is said for each activity", _stay, stays=True)
_row(
    _held,
    events.ClaimEnded,
    [Gone],
    "the startd took the claim away; a run on it may still report its end",
    _ended_by_startd,
)
# The link to the startd.
_row([Running], events.LinkLost, [Disconnected], "the startd may end the claim untold", _link_lost)
_row(
    [Idle, Reserved, Disconnected, Closing],
    events.LinkLost,
    [],
    "the startd says later whether it lives",
    _stay,
    stays=True,
)
_row(
    [Disconnected], events.ClaimListed, [Running, Idle], "it lives: its run goes on, or a job is chosen", _listed_again
)
_row([Running], events.ClaimListed, [], "the run is compared with what the startd says", _listed_with_run, stays=True)
_row([Closing], events.ClaimListed, [], "the same", _listed_closing, stays=True)
_row([Idle], events.ClaimListed, [], "it lives; a claim whose job was being chosen gets one", _listed_idle, stays=True)
_row([Reserved], events.ClaimListed, [], "it lives", _stay, stays=True)
_row(
    _held,
    events.ClaimUnlisted,
    [Gone],
    "the startd does not have it any more; a run on it may report its end",
    _unlisted,
)
# What may come late, or twice.
_row([Gone], events.Released, [], "once more, should the first time have failed", _released_again, stays=True)
_row([Gone], events.ClaimListed, [], "given back between the schedd's hello and the answer", _listed_gone, stays=True)
_row([Gone], events.RunEnded, [], "the run outlived its claim", _stay, stays=True)
_row([Gone], events.Withdrawn, [], "the request is answered", _stay, stays=True)
_row([Gone], events.LinkLost, [], "there is nothing to lose", _stay, stays=True)
_row([Gone], events.ClaimEnded, [], "the claim was given back already", _stay, stays=True)
_row([Gone], events.ClaimUnlisted, [], "the claim was given back already", _stay, stays=True)
_row([Gone], events.SlotRetires, [], "the claim was given back already", _stay, stays=True)
_row(
    [Gone, Idle, Running, Disconnected, Closing],
    events.StartDue,
    [],
    "the job was returned meanwhile",
    _stay,
    stays=True,
)
