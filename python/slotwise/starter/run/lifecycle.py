"""The life cycle of a run: a pure state machine, driven by one table.

An event and the state give the next state and actions.

:data:`TRANSITIONS` names, for each phase, the events that can happen there and the phases that follow. An event that is
not in the table for a phase is an error: the run that it is about ends. `slotwise.starter.run.diagram` draws the table
into the documentation.

The slot is free for the next job (``ReportGone``) once all processes are gone and the outputs have left or rest on
disk; the result stays until the shadow acknowledges it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeVar

from msgspec.structs import replace

from slotwise.execution.exit_status import (
    CLAIM_DEACTIVATED,
    JOB_NOT_STARTED,
    JOB_REMOVED,
    TRANSFER_INPUT_ERROR,
    End,
    How,
    Kill,
    classify,
    ends_in_hold,
    held,
    is_checkpoint,
    killed,
)
from slotwise.execution.job_view import JobView, KillSignals
from slotwise.model.transition_table import PhaseTable
from slotwise.starter.run import actions, events
from slotwise.starter.run.actions import Action
from slotwise.starter.run.events import Event
from slotwise.starter.run.states import Phase, RunState

Step = tuple[RunState, Sequence[Action]]

#: Ends a run for which the startd has no claim.
CLAIM_GONE = Kill(fast=True, reason="The execution point has no claim for the job any more", code=CLAIM_DEACTIVATED)
#: The phases in which a supervised process may live.
_LIVING = (Phase.STARTING, Phase.RUNNING)
#: The phases in which a job is made ready.
_BEFORE_START = (Phase.PREPARING, Phase.INPUT, Phase.STARTING)


def step(state: RunState, event: Event) -> Step:
    """The next state and what to do.

    :raises InvariantError: when the event cannot happen in this phase, or leads to a phase that the table does not
        have: a defect, or a peer that breaks the protocol.
    """
    return TRANSITIONS.step(state, event)


def soft_kill(kill: Kill, signals: KillSignals) -> tuple[int, int | None]:
    """The signal that asks a job to exit, and the seconds until it is killed (None: MachineMaxVacateTime)."""
    number = signals.soft
    if kill.hold and signals.hold is not None:
        number = signals.hold
    elif kill.code == JOB_REMOVED and signals.remove is not None:
        number = signals.remove
    return number, kill.vacate_s if kill.vacate_s is not None else signals.vacate_s


# ---- handlers: what an event does in the phases of its row


def _ignore(state: RunState, event: Event) -> Step:
    return state, []


def _accepted(state: RunState, event: events.Accepted) -> Step:
    state = replace(state, tells_why=event.transfers and event.tells_why)
    if event.hooked:
        return replace(state, phase=Phase.PREPARING), [actions.ReportPhase(), actions.RunHook()]
    return _begin(state, event.transfers)


def _prepared(state: RunState, event: events.Prepared) -> Step:
    if state.kill is not None or state.unwanted:
        return _finish(state, _not_started(state.kill or Kill(fast=True)))
    return _begin(state, event.transfers)


def _failed(state: RunState, event: events.Failed) -> Step:
    end = event.end
    if state.phase is Phase.PREPARING and state.kill is not None:
        end = _not_started(state.kill)  # a killed hook's own error is not why the run ends
    return _unready(state, end)


def _inputs_done(state: RunState, event: events.InputsDone) -> Step:
    if event.reason:
        return _unready(state, held(event.reason, event.code or TRANSFER_INPUT_ERROR, event.subcode))
    return replace(state, phase=Phase.STARTING), [actions.Launch()]


def _started(state: RunState, event: events.Started) -> Step:
    done: list[Action] = [actions.ReportPhase(), actions.SendStarted()]
    if state.kill is not None:
        done.append(_stop(state.kill))
    elif state.unwanted:
        done.append(actions.StopHard())
    elif state.pause:
        done.append(actions.Pause(resume=False))
    return replace(state, phase=Phase.RUNNING, pid=event.pid, executed=True), done


def _keeper_ended(state: RunState, event: events.KeeperEnded) -> Step:
    if state.phase is Phase.STARTING and event.result.started_at:
        # A job that ends at once can be over before its keeper's notice of the start has been read. The event of
        # execution still precedes those of the outputs.
        executed = replace(state, phase=Phase.RUNNING, executed=True)
        following, done = _keeper_ended(executed, event)
        return following, [actions.SendStarted(), *done]
    if state.unwanted:
        return _clean(state)
    if event.overruled is None and is_checkpoint(event.result, event.job) and not (state.kill and state.kill.fast):
        return replace(state, phase=Phase.CHECKPOINT, suspended=False, pid=0), [
            actions.ReportPhase(),
            actions.SendCheckpoint(),
        ]
    end = event.overruled or classify(event.result, state.kill, event.job, event.memory)
    outputs = wanted_outputs(end, state.kill, event.job)
    state = replace(state, end=end, outputs=outputs, suspended=False, pid=0)
    if outputs == "none":
        return _finish(state, end)
    return replace(state, phase=Phase.OUTPUT), [actions.ReportPhase(), actions.SendOutputs()]


def _checkpoint_stored(state: RunState, event: events.CheckpointStored) -> Step:
    if event.problem is not None:
        return _finish(state, event.problem)
    if state.kill is not None:
        return _finish(state, killed(state.kill))
    return replace(state, phase=Phase.STARTING), [actions.Relaunch()]


def _outputs_sent(state: RunState, event: events.OutputsSent) -> Step:
    # What a job that was never started could not send is not why it ends.
    end = state.end if state.outputs == "unready" else event.problem or state.end
    return (state, []) if end is None else _finish(state, end)


def _kill_before_start(state: RunState, event: events.KillRequested) -> Step:
    return _finish(state, _not_started(event.kill))


def _kill_hook(state: RunState, event: events.KillRequested) -> Step:
    return replace(state, kill=event.kill), [actions.StopHard()]


def _kill_job(state: RunState, event: events.KillRequested) -> Step:
    if state.kill is not None and state.kill.severity() > event.kill.severity():
        return state, []
    return replace(state, kill=event.kill), [_stop(event.kill)]


def _kill_checkpoint(state: RunState, event: events.KillRequested) -> Step:
    if event.kill.fast:
        return _finish(state, killed(event.kill))
    return replace(state, kill=event.kill), []  # it ends once the checkpoint is stored


def _kill_output(state: RunState, event: events.KillRequested) -> Step:
    return _finish(state, killed(event.kill)) if event.kill.fast else (state, [])


def _suspend_job(state: RunState, event: events.SuspendRequested) -> Step:
    return replace(state, pause=not event.resume), [actions.Pause(event.resume)]


def _suspend_later(state: RunState, event: events.SuspendRequested) -> Step:
    return replace(state, pause=not event.resume), []


def _suspended(state: RunState, event: events.Suspended) -> Step:
    return replace(state, suspended=not event.resumed), [actions.ReportSuspended(event.resumed)]


def _link_lost_in_output(state: RunState, event: events.LinkLost) -> Step:
    if state.reported_gone:
        return state, []
    # The outputs rest on disk until the shadow is back: the slot need not wait.
    return replace(state, reported_gone=True), [actions.ReportGone()]


def _link_back_offered(state: RunState, event: events.LinkBack) -> Step:
    return _begin(state, event.transfers)


def _link_back(state: RunState, event: events.LinkBack) -> Step:
    # Sent again: the break may have swallowed it, and the event of execution must precede those of the end.
    done: list[Action] = [actions.SendStarted()] if state.executed else []
    match state.phase:
        case Phase.INPUT:
            return state, [actions.RequestInputs()]
        case Phase.RUNNING:
            return state, done
        case Phase.CHECKPOINT:
            return state, [*done, actions.SendCheckpoint()]
        case Phase.ENDED if state.outputs == "none":
            return state, [*done, actions.SendEnd()]
    return replace(state, phase=Phase.OUTPUT), [*done, actions.SendOutputs()]


def _acknowledged(state: RunState, event: events.EndAcknowledged) -> Step:
    return replace(state, phase=Phase.GONE), [actions.Discard()]


def _claim_gone(state: RunState, event: events.ClaimGone) -> Step:
    kill = events.KillRequested(CLAIM_GONE)
    return step(replace(state, reported_gone=True), kill)


def _claim_gone_after_end(state: RunState, event: events.ClaimGone) -> Step:
    """A job that has ended holds no slot: its outputs and its end still go to the shadow."""
    return replace(state, reported_gone=True), []


def _unwanted(state: RunState, event: events.Unwanted) -> Step:
    return _clean(_not_wanted(state, event))


def _unwanted_alive(state: RunState, event: events.Unwanted) -> Step:
    return _not_wanted(state, event), [actions.StopHard()]


# ---- parts of handlers


def _begin(state: RunState, transfers: bool) -> Step:
    if transfers:
        return replace(state, phase=Phase.INPUT), [actions.ReportPhase(), actions.RequestInputs()]
    return replace(state, phase=Phase.STARTING), [actions.Launch()]


def wanted_outputs(end: End, kill: Kill | None, job: JobView) -> str:
    """Which outputs go back: ``all``, ``streams``, ``live`` or ``none``. Manual, "when_to_transfer_output"."""
    rules = job.transfer
    if end.how is How.NOT_STARTED:
        return "none"
    if end.by_itself:
        if rules.when == "ON_SUCCESS" and (end.how is not How.EXITED or end.code != rules.success_code):
            return "streams"
        return "all"
    if kill is not None and kill.want_outputs:
        return "all"
    if rules.when == "ON_EXIT_OR_EVICT" and end.how is How.EVICTED and not (kill and kill.fast):
        return "all"
    return "live" if job.live_streams() else "none"


def _not_started(kill: Kill) -> End:
    end = killed(kill)
    return replace(end, reason_code=end.reason_code or JOB_NOT_STARTED)


def _stop(kill: Kill) -> Action:
    return actions.StopHard() if kill.fast else actions.StopSoft(kill)


def _unready(state: RunState, end: End) -> Step:
    """What comes before the start has failed, or a job that runs cannot go on. Of a job that was never started, its
    FailureFiles go back, as in HTCondor: a plugin or a hook may have left them."""
    wanted = state.kill is None and not state.unwanted and not state.executed
    if state.tells_why and wanted and state.phase in _BEFORE_START and not state.pid:
        return replace(state, phase=Phase.OUTPUT, end=end, outputs="unready"), [
            actions.ReportPhase(),
            actions.SendOutputs(),
        ]
    return _finish(state, end)


def _finish(state: RunState, end: End) -> Step:
    """The end is known. A job that still runs is killed first, with this end as the reason."""
    if state.phase in _LIVING and state.pid:
        kill = Kill(
            fast=True,
            reason=end.reason,
            code=end.reason_code,
            subcode=end.reason_subcode,
            hold=ends_in_hold(end.reason_code, end.reason_subcode),
        )
        return replace(state, kill=kill), [actions.StopHard()]
    if state.unwanted:
        return _clean(state)
    outputs = state.outputs if end == state.end else "none"
    report: list[Action] = [] if state.reported_gone else [actions.ReportGone()]
    return replace(state, phase=Phase.ENDED, end=end, outputs=outputs, reported_gone=True), [
        *report,
        actions.SendEnd(),
    ]


def _not_wanted(state: RunState, event: events.Unwanted) -> RunState:
    return replace(state, unwanted=True, reported_gone=state.reported_gone or not event.report_gone)


def _clean(state: RunState) -> Step:
    report: list[Action] = [] if state.reported_gone else [actions.ReportGone()]
    return replace(state, phase=Phase.GONE, reported_gone=True), [*report, actions.Discard()]


# ---- the table


TRANSITIONS: PhaseTable[Phase, RunState, Event, Action] = PhaseTable("a run", tuple(Phase), attrgetter("phase"))
_E = TypeVar("_E", bound=Event)


def _add(before: str, event: type[_E], after: str, when: str, handle: Callable[[RunState, _E], Step]) -> None:
    """Add a row from the names of phases; ``=`` among those that follow: the run stays in its phase."""
    words = after.split()
    then = [Phase(word) for word in words if word != "="]
    TRANSITIONS.add([Phase(word) for word in before.split()], event, then, when, handle, stays="=" in words)


_OVER = "the run is over"
# fmt: off
_add("offered", events.Accepted, "prepare_transfer transfer_input starting",
     "the shadow accepts the run: a hook runs first, else files come, else the job starts", _accepted)
_add("offered", events.LinkBack, "transfer_input starting",
     "the shadow accepts the run on another stream", _link_back_offered)
_add("prepare_transfer", events.Prepared, "transfer_input starting ended gone",
     "the hook is done; a run that was killed or dropped meanwhile ends", _prepared)
_add("transfer_input", events.InputsDone, "starting transfer_output ended",
     "all inputs are here, or the transfer failed: then FailureFiles go back where the job names some",
     _inputs_done)
_add("transfer_input", events.LinkBack, "=", "the inputs are requested again", _link_back)
_add("starting", events.Started, "running", "the job's process executes", _started)
_add("starting running", events.KeeperEnded, "checkpoint transfer_output ended gone",
     "all processes are gone: a checkpoint, outputs to send, neither, or nobody wants the result", _keeper_ended)
_add("checkpoint", events.CheckpointStored, "starting ended",
     "the access point has the checkpoint: the job starts again, unless it is to end", _checkpoint_stored)
_add("transfer_output", events.OutputsSent, "= ended", "the outputs have been sent, or cannot be", _outputs_sent)
_add("ended", events.EndAcknowledged, "gone", "the end is on the access point's disk", _acknowledged)
# Kill requests, from the startd, the shadow or a limit.
_add("offered transfer_input", events.KillRequested, "ended", "nothing has started yet", _kill_before_start)
_add("prepare_transfer", events.KillRequested, "=", "the hook is killed; the run ends with it", _kill_hook)
_add("starting running", events.KillRequested, "=", "the job is signalled; a less severe request changes nothing",
     _kill_job)
_add("checkpoint", events.KillRequested, "= ended", "fast: at once; else once the checkpoint is stored",
     _kill_checkpoint)
_add("transfer_output", events.KillRequested, "= ended", "fast: the outputs are dropped; else they are sent",
     _kill_output)
_add("ended gone", events.KillRequested, "=", _OVER, _ignore)
# The claim has gone, or nobody wants the run.
_add("offered prepare_transfer transfer_input starting running checkpoint", events.ClaimGone, "= ended",
     "the startd has no claim for it: as a fast kill", _claim_gone)
_add("transfer_output ended", events.ClaimGone, "=", "the slot is free; outputs and end still go to the shadow",
     _claim_gone_after_end)
_add("gone", events.ClaimGone, "=", _OVER, _ignore)
_add("prepare_transfer starting running", events.Unwanted, "=", "what runs is killed; the run ends with it",
     _unwanted_alive)
_add("offered transfer_input checkpoint transfer_output ended", events.Unwanted, "gone",
     "nobody wants the result", _unwanted)
_add("gone", events.Unwanted, "=", _OVER, _ignore)
# Errors of the starter or of the host.
_add("offered prepare_transfer transfer_input starting running checkpoint transfer_output", events.Failed,
     "= transfer_output ended gone", "the run cannot go on; a job that runs is killed first", _failed)
_add("ended gone", events.Failed, "=", _OVER, _ignore)
# Suspension.
_add("starting running", events.SuspendRequested, "=", "the job is stopped or continued", _suspend_job)
_add("offered prepare_transfer transfer_input checkpoint transfer_output ended", events.SuspendRequested, "=",
     "a job that has yet to start is stopped as soon as it has", _suspend_later)
_add("gone", events.SuspendRequested, "=", _OVER, _ignore)
_add("starting running checkpoint transfer_output ended", events.Suspended, "=",
     "the suspension is reported to startd and shadow", _suspended)
_add("gone", events.Suspended, "=", _OVER, _ignore)
# The shadow's stream.
_add("transfer_output", events.LinkLost, "=", "the outputs rest on disk, the slot is free", _link_lost_in_output)
_add("offered prepare_transfer transfer_input starting running checkpoint ended gone", events.LinkLost, "=",
     "the run goes on without its shadow", _ignore)
_add("prepare_transfer starting gone", events.LinkBack, "=", "there is nothing to repeat", _ignore)
_add("running checkpoint", events.LinkBack, "=", "the start, or the checkpoint, is sent again", _link_back)
_add("transfer_output ended", events.LinkBack, "= transfer_output", "outputs, or the end, are sent again",
     _link_back)
# What may come late, or twice: files and replies are sent again after a break, notices wait in a FIFO.
_add("gone", events.Accepted, "=", _OVER, _ignore)
_add("ended gone", events.Prepared, "=", _OVER, _ignore)
_add("prepare_transfer starting running checkpoint transfer_output ended gone", events.InputsDone, "=",
     "the shadow sends inputs unasked, or once more", _ignore)
_add("running checkpoint transfer_output ended gone", events.Started, "=", "the notice comes late", _ignore)
_add("ended gone", events.KeeperEnded, "=", "the run failed while the result was processed", _ignore)
_add("ended gone", events.OutputsSent, "=", "they were sent twice, or are not wanted any more", _ignore)
_add("starting running transfer_output ended gone", events.CheckpointStored, "=", "it was sent twice", _ignore)
_add("transfer_output gone", events.EndAcknowledged, "=", "the end was sent twice", _ignore)
# fmt: on
