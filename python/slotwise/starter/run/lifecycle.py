"""The life of a run: a pure machine. An event and the state give the next state and what to do.

::

    OFFERED ──accepted──▶ INPUT ──inputs──▶ STARTING ──▶ RUNNING ──▶ OUTPUT ──▶ ENDED ──ack──▶ GONE
        │ hook ▶ PREPARING ───▲               ▲             │ no outputs ────────▲
        │ nothing to transfer ────────────────┘
        │                                     │ checkpoint ──kept──▶ STARTING
        └──────── killed, refused, inputs failed: straight to ENDED or GONE ────────┘

The slot is free for the next job (``TellGone``) once all processes are gone and the outputs have left or rest on disk;
the result stays until the shadow acknowledges it.
"""

from __future__ import annotations

from dataclasses import replace

from slotwise.errors import InvariantError
from slotwise.execution.facts import JobFacts
from slotwise.execution.verdict import (
    CLAIM_DEACTIVATED,
    JOB_NOT_STARTED,
    JOB_REMOVED,
    TRANSFER_INPUT_ERROR,
    End,
    How,
    Kill,
    ends_in_hold,
    held,
    is_checkpoint,
    judge,
    killed,
)
from slotwise.starter.run import lifecycle_types
from slotwise.starter.run.lifecycle_types import Action, Phase, RunState, Step

#: What ends a run whose startd knows nothing of it.
FORGOTTEN = Kill(fast=True, reason="The execution point has no claim for the job any more", code=CLAIM_DEACTIVATED)
_LIVING = (Phase.STARTING, Phase.RUNNING)


def step(state: RunState, event: lifecycle_types.Event, job: JobFacts) -> Step:
    """The next state and what to do. Events that come too late change nothing.

    :raises InvariantError: when an event cannot happen in this state.
    """
    if state.phase is Phase.GONE:
        return state, []
    match event:
        case lifecycle_types.Accepted(transfers, hooked):
            return _accepted(state, transfers, hooked)
        case lifecycle_types.Prepared(transfers):
            return _prepared(state, transfers)
        case lifecycle_types.InputsDone():
            return _inputs(state, event)
        case lifecycle_types.Started(pid):
            return _started(state, pid, job)
        case lifecycle_types.KeeperEnded():
            return _keeper_ended(state, event)
        case lifecycle_types.Failed(end):
            return _failed(state, end)
        case lifecycle_types.KillAsked(kill):
            return _kill(state, kill, job)
        case lifecycle_types.SuspendAsked(resume):
            return replace(state, pause=not resume), [lifecycle_types.Pause(resume)] if state.phase in _LIVING else []
        case lifecycle_types.Suspended(resumed):
            return replace(state, suspended=not resumed), [lifecycle_types.TellSuspended(resumed)]
        case lifecycle_types.OutputsSent(problem):
            return _outputs_sent(state, problem)
        case lifecycle_types.CheckpointKept(problem):
            return _checkpoint_kept(state, problem)
        case lifecycle_types.LinkLost():
            return _link_lost(state)
        case lifecycle_types.LinkBack(transfers):
            return _link_back(state, transfers)
        case lifecycle_types.Acked():
            return _acked(state)
        case lifecycle_types.Unwanted(tell_startd):
            return _unwanted(state, tell_startd)
        case lifecycle_types.Forgotten():
            return _forgotten(replace(state, told_gone=True), job)
    raise InvariantError(f"unknown event {event!r}")


def _accepted(state: RunState, transfers: bool, hooked: bool = False) -> Step:
    if state.phase is not Phase.OFFERED:
        return state, []
    if hooked:
        return replace(state, phase=Phase.PREPARING), [lifecycle_types.TellPhase(), lifecycle_types.RunHook()]
    return _begin(state, transfers)


def _prepared(state: RunState, transfers: bool) -> Step:
    if state.phase is not Phase.PREPARING:
        return state, []
    if state.kill is not None or state.unwanted:
        return _finish(state, _not_started(state.kill or Kill(fast=True)))
    return _begin(state, transfers)


def _failed(state: RunState, end: End) -> Step:
    if state.phase is Phase.ENDED:
        return state, []
    if state.phase is Phase.PREPARING and state.kill is not None:
        end = _not_started(state.kill)  # what a killed hook says is not why the run ends
    return _finish(state, end)


def _begin(state: RunState, transfers: bool) -> Step:
    if transfers:
        return replace(state, phase=Phase.INPUT), [lifecycle_types.TellPhase(), lifecycle_types.AskInputs()]
    return replace(state, phase=Phase.STARTING), [lifecycle_types.Launch()]


def _inputs(state: RunState, event: lifecycle_types.InputsDone) -> Step:
    if state.phase is not Phase.INPUT:
        return state, []
    if event.reason:
        return _finish(state, held(event.reason, event.code or TRANSFER_INPUT_ERROR, event.subcode))
    return replace(state, phase=Phase.STARTING), [lifecycle_types.Launch()]


def _started(state: RunState, pid: int, job: JobFacts) -> Step:
    if state.phase is not Phase.STARTING:
        return state, []
    actions: list[Action] = [lifecycle_types.TellPhase(), lifecycle_types.SendStarted()]
    if state.kill is not None:
        actions.append(_stop(state.kill, job))
    elif state.unwanted:
        actions.append(lifecycle_types.StopHard())
    elif state.pause:
        actions.append(lifecycle_types.Pause(resume=False))
    return replace(state, phase=Phase.RUNNING, pid=pid, executed=True), actions


def _keeper_ended(state: RunState, event: lifecycle_types.KeeperEnded) -> Step:
    if state.phase not in _LIVING:
        return state, []
    if state.unwanted:
        return _clean(state)
    if event.overruled is None and is_checkpoint(event.result, event.job) and not (state.kill and state.kill.fast):
        return replace(state, phase=Phase.CHECKPOINT, suspended=False, pid=0), [
            lifecycle_types.TellPhase(),
            lifecycle_types.SendCheckpoint(),
        ]
    end = event.overruled or judge(event.result, state.kill, event.job, event.memory)
    outputs = wanted_outputs(end, state.kill, event.job)
    state = replace(state, end=end, outputs=outputs, suspended=False, pid=0)
    if outputs == "none":
        return _finish(state, end)
    return replace(state, phase=Phase.OUTPUT), [lifecycle_types.TellPhase(), lifecycle_types.SendOutputs()]


def _checkpoint_kept(state: RunState, problem: End | None) -> Step:
    if state.phase is not Phase.CHECKPOINT:
        return state, []
    if problem is not None:
        return _finish(state, problem)
    if state.kill is not None:
        return _finish(state, killed(state.kill))
    return replace(state, phase=Phase.STARTING), [lifecycle_types.Relaunch()]


def wanted_outputs(end: End, kill: Kill | None, job: JobFacts) -> str:
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


def _kill(state: RunState, kill: Kill, job: JobFacts) -> Step:
    if state.phase in (Phase.OFFERED, Phase.INPUT):
        return _finish(state, _not_started(kill))
    if state.phase is Phase.PREPARING:
        return replace(state, kill=kill), [lifecycle_types.StopHard()]
    if state.phase in _LIVING:
        if state.kill is not None and state.kill.urgency() > kill.urgency():
            return state, []
        return replace(state, kill=kill), [_stop(kill, job)]
    if state.phase in (Phase.OUTPUT, Phase.CHECKPOINT) and kill.fast:
        return _finish(state, killed(kill))
    if state.phase is Phase.CHECKPOINT:
        return replace(state, kill=kill), []  # it is as good as gone, with all that it did
    return state, []


def _not_started(kill: Kill) -> End:
    end = killed(kill)
    return replace(end, reason_code=end.reason_code or JOB_NOT_STARTED)


def _stop(kill: Kill, job: JobFacts) -> Action:
    if kill.fast:
        return lifecycle_types.StopHard()
    signals = job.kill
    number = signals.soft
    if kill.hold and signals.hold is not None:
        number = signals.hold
    elif kill.code == JOB_REMOVED and signals.remove is not None:
        number = signals.remove
    return lifecycle_types.StopSoft(number, kill.vacate_s if kill.vacate_s is not None else signals.vacate_s)


def _finish(state: RunState, end: End) -> Step:
    """The end is known and no process is left (or will be: a keeper still there is told to kill)."""
    actions: list[Action] = []
    if state.phase in _LIVING and state.pid:
        # A failure beside the running job: end it first, with this end as the reason.
        kill = Kill(
            fast=True,
            reason=end.reason,
            code=end.reason_code,
            subcode=end.reason_subcode,
            hold=ends_in_hold(end.reason_code, end.reason_subcode),
        )
        return replace(state, kill=kill), [lifecycle_types.StopHard()]
    if state.unwanted:
        return _clean(state)
    outputs = state.outputs if end == state.end else "none"
    state = replace(state, phase=Phase.ENDED, end=end, outputs=outputs)
    if not state.told_gone:
        actions.append(lifecycle_types.TellGone())
        state = replace(state, told_gone=True)
    return state, [*actions, lifecycle_types.SendEnd()]


def _outputs_sent(state: RunState, problem: End | None) -> Step:
    if state.phase is not Phase.OUTPUT or state.end is None:
        return state, []
    return _finish(state, problem or state.end)


def _link_lost(state: RunState) -> Step:
    if state.phase is Phase.OUTPUT and not state.told_gone:
        # The outputs rest on disk until the shadow is back: the slot need not wait.
        return replace(state, told_gone=True), [lifecycle_types.TellGone()]
    return state, []


def _link_back(state: RunState, transfers: bool) -> Step:
    # Said again: the break may have swallowed it, and the event of execution is to stand before those of the end.
    started: list[Action] = [lifecycle_types.SendStarted()] if state.executed else []
    match state.phase:
        case Phase.OFFERED:
            return _accepted(state, transfers)
        case Phase.INPUT:
            return state, [lifecycle_types.AskInputs()]
        case Phase.RUNNING:
            return state, started
        case Phase.CHECKPOINT:
            return state, [*started, lifecycle_types.SendCheckpoint()]
        case Phase.OUTPUT:
            return state, [*started, lifecycle_types.SendOutputs()]
        case Phase.ENDED if state.outputs != "none":
            return replace(state, phase=Phase.OUTPUT), [*started, lifecycle_types.SendOutputs()]
        case Phase.ENDED:
            return state, [*started, lifecycle_types.SendEnd()]
    return state, []


def _acked(state: RunState) -> Step:
    if state.phase is not Phase.ENDED:
        return state, []
    return replace(state, phase=Phase.GONE), [lifecycle_types.Discard()]


def _forgotten(state: RunState, job: JobFacts) -> Step:
    """A job that has ended holds no slot: its outputs and its end still go to the shadow."""
    if state.phase in (Phase.OUTPUT, Phase.ENDED):
        return state, []
    return _kill(state, FORGOTTEN, job)


def _unwanted(state: RunState, tell_startd: bool) -> Step:
    state = replace(state, unwanted=True, told_gone=state.told_gone or not tell_startd)
    if state.phase is Phase.PREPARING or state.phase in _LIVING:
        return state, [lifecycle_types.StopHard()]
    return _clean(state)


def _clean(state: RunState) -> Step:
    actions: list[Action] = [] if state.told_gone else [lifecycle_types.TellGone()]
    return replace(state, phase=Phase.GONE, told_gone=True), [*actions, lifecycle_types.Discard()]
