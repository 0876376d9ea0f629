"""The life of a run: a pure machine. An event and the state give the next state and what to do.

::

    OFFERED ──accepted──▶ INPUT ──inputs──▶ STARTING ──▶ RUNNING ──▶ OUTPUT ──▶ ENDED ──ack──▶ GONE
        │ nothing to transfer ────────────────▲             │ no outputs ────────▲
        └──────── killed, refused, inputs failed: straight to ENDED or GONE ────────┘

The slot is free for the next job (``TellGone``) once all processes are gone and the outputs have left or rest on disk;
the result stays until the shadow acknowledges it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from slotwise.errors import InvariantError
from slotwise.starter.facts import JobFacts
from slotwise.starter.keeper_spec import KeeperResult
from slotwise.starter.verdict import (
    JOB_NOT_STARTED,
    JOB_REMOVED,
    TRANSFER_INPUT_ERROR,
    End,
    How,
    Kill,
    MemoryRule,
    ends_in_hold,
    held,
    judge,
    killed,
)


class Phase(StrEnum):
    """Where a run is. The values are what the startd is told."""

    OFFERED = "offered"
    INPUT = "transfer_input"
    STARTING = "starting"
    RUNNING = "running"
    OUTPUT = "transfer_output"
    ENDED = "ended"
    GONE = "gone"


@dataclass(frozen=True)
class RunState:
    """All the machine remembers of a run."""

    phase: Phase = Phase.OFFERED
    pid: int = 0
    suspended: bool = False
    kill: Kill | None = None
    end: End | None = None
    #: ``all``, ``streams`` (standard output and error only) or ``none``.
    outputs: str = "none"
    #: The startd knows that the slot is free.
    told_gone: bool = False
    #: Nobody wants the result: end and clean up.
    unwanted: bool = False


# ---- events


@dataclass(frozen=True)
class Accepted:
    """The shadow knows the run. ``transfers``: input files will come."""

    transfers: bool


@dataclass(frozen=True)
class InputsDone:
    """All inputs are here, or could not be had (``reason`` not empty)."""

    reason: str = ""
    code: int = 0
    subcode: int = 0


@dataclass(frozen=True)
class Started:
    """The job runs."""

    pid: int


@dataclass(frozen=True)
class KeeperEnded:
    """The family is gone."""

    result: KeeperResult
    memory: MemoryRule
    job: JobFacts
    #: What it ends with whatever the keeper saw: a limit that the starter itself watches.
    overruled: End | None = None


@dataclass(frozen=True)
class Failed:
    """The run cannot go on for a reason of its own (scratch directory, arguments, disk)."""

    end: End


@dataclass(frozen=True)
class KillAsked:
    """Startd, shadow or a limit wants the job to end."""

    kill: Kill


@dataclass(frozen=True)
class SuspendAsked:
    """Stop the job, or let it go on."""

    resume: bool


@dataclass(frozen=True)
class Suspended:
    """The keeper has stopped the job, or let it go on."""

    resumed: bool


@dataclass(frozen=True)
class OutputsSent:
    """All outputs are on their way in order, or ``problem`` says what the run ends with instead."""

    problem: End | None = None


@dataclass(frozen=True)
class LinkLost:
    """The shadow's stream broke."""


@dataclass(frozen=True)
class LinkBack:
    """The shadow knows the run again after a break."""

    transfers: bool = True


@dataclass(frozen=True)
class Acked:
    """The end is on the schedd's disk."""


@dataclass(frozen=True)
class Unwanted:
    """The shadow does not know the run, or the startd wants to hear no more of it."""

    tell_startd: bool


Event = (
    Accepted
    | InputsDone
    | Started
    | KeeperEnded
    | Failed
    | KillAsked
    | SuspendAsked
    | Suspended
    | OutputsSent
    | LinkLost
    | LinkBack
    | Acked
    | Unwanted
)


# ---- actions


@dataclass(frozen=True)
class AskInputs:
    """Ask the shadow for the input files."""


@dataclass(frozen=True)
class Launch:
    """Prepare and start the job."""


@dataclass(frozen=True)
class StopSoft:
    """Ask the job to leave; kill it after ``seconds`` (None: as long as the machine promises)."""

    signal: int
    seconds: int | None


@dataclass(frozen=True)
class StopHard:
    """Kill the family."""


@dataclass(frozen=True)
class Pause:
    """Stop the family, or let it go on."""

    resume: bool


@dataclass(frozen=True)
class TellPhase:
    """Tell the startd where the run is."""


@dataclass(frozen=True)
class TellSuspended:
    """Tell the startd that the job stands still, or goes on."""

    resumed: bool


@dataclass(frozen=True)
class SendStarted:
    """Tell the shadow that the job runs."""


@dataclass(frozen=True)
class SendOutputs:
    """Send the outputs."""


@dataclass(frozen=True)
class SendEnd:
    """Tell the shadow how it ended."""


@dataclass(frozen=True)
class TellGone:
    """Tell the startd that the slot is free."""


@dataclass(frozen=True)
class Discard:
    """Remove all that is left of the run."""


Action = (
    AskInputs
    | Launch
    | StopSoft
    | StopHard
    | Pause
    | TellPhase
    | TellSuspended
    | SendStarted
    | SendOutputs
    | SendEnd
    | TellGone
    | Discard
)
Step = tuple[RunState, list[Action]]

_LIVING = (Phase.STARTING, Phase.RUNNING)


def step(state: RunState, event: Event, job: JobFacts) -> Step:
    """The next state and what to do. Events that come too late change nothing.

    :raises InvariantError: when an event cannot happen in this state.
    """
    if state.phase is Phase.GONE:
        return state, []
    match event:
        case Accepted(transfers):
            return _accepted(state, transfers)
        case InputsDone():
            return _inputs(state, event)
        case Started(pid):
            return _started(state, pid, job)
        case KeeperEnded():
            return _keeper_ended(state, event)
        case Failed(end):
            return _finish(state, end) if state.phase not in (Phase.ENDED,) else (state, [])
        case KillAsked(kill):
            return _kill(state, kill, job)
        case SuspendAsked(resume):
            return state, [Pause(resume)] if state.phase in _LIVING else []
        case Suspended(resumed):
            return replace(state, suspended=not resumed), [TellSuspended(resumed)]
        case OutputsSent(problem):
            return _outputs_sent(state, problem)
        case LinkLost():
            return _link_lost(state)
        case LinkBack(transfers):
            return _link_back(state, transfers)
        case Acked():
            return _acked(state)
        case Unwanted(tell_startd):
            return _unwanted(state, tell_startd)
    raise InvariantError(f"unknown event {event!r}")


def _accepted(state: RunState, transfers: bool) -> Step:
    if state.phase is not Phase.OFFERED:
        return state, []
    if transfers:
        return replace(state, phase=Phase.INPUT), [TellPhase(), AskInputs()]
    return replace(state, phase=Phase.STARTING), [Launch()]


def _inputs(state: RunState, event: InputsDone) -> Step:
    if state.phase is not Phase.INPUT:
        return state, []
    if event.reason:
        return _finish(state, held(event.reason, event.code or TRANSFER_INPUT_ERROR, event.subcode))
    return replace(state, phase=Phase.STARTING), [Launch()]


def _started(state: RunState, pid: int, job: JobFacts) -> Step:
    if state.phase is not Phase.STARTING:
        return state, []
    actions: list[Action] = [TellPhase(), SendStarted()]
    if state.kill is not None:
        actions.append(_stop(state.kill, job))
    elif state.unwanted:
        actions.append(StopHard())
    return replace(state, phase=Phase.RUNNING, pid=pid), actions


def _keeper_ended(state: RunState, event: KeeperEnded) -> Step:
    if state.phase not in _LIVING:
        return state, []
    if state.unwanted:
        return _clean(state)
    end = event.overruled or judge(event.result, state.kill, event.job, event.memory)
    outputs = wanted_outputs(end, state.kill, event.job)
    state = replace(state, end=end, outputs=outputs, suspended=False, pid=0)
    if outputs == "none":
        return _finish(state, end)
    return replace(state, phase=Phase.OUTPUT), [TellPhase(), SendOutputs()]


def wanted_outputs(end: End, kill: Kill | None, job: JobFacts) -> str:
    """Which outputs go back: ``all``, ``streams`` or ``none``. Manual, "when_to_transfer_output"."""
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
    return "none"


def _kill(state: RunState, kill: Kill, job: JobFacts) -> Step:
    if state.phase in (Phase.OFFERED, Phase.INPUT):
        return _finish(state, replace(killed(kill), reason_code=killed(kill).reason_code or JOB_NOT_STARTED))
    if state.phase in _LIVING:
        if state.kill is not None and state.kill.urgency() > kill.urgency():
            return state, []
        return replace(state, kill=kill), [_stop(kill, job)]
    if state.phase is Phase.OUTPUT and kill.fast:
        return _finish(state, killed(kill))
    return state, []


def _stop(kill: Kill, job: JobFacts) -> Action:
    if kill.fast:
        return StopHard()
    signals = job.kill
    number = signals.soft
    if kill.hold and signals.hold is not None:
        number = signals.hold
    elif kill.code == JOB_REMOVED and signals.remove is not None:
        number = signals.remove
    return StopSoft(number, kill.vacate_s if kill.vacate_s is not None else signals.vacate_s)


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
        return replace(state, kill=kill), [StopHard()]
    if state.unwanted:
        return _clean(state)
    outputs = state.outputs if end == state.end else "none"
    state = replace(state, phase=Phase.ENDED, end=end, outputs=outputs)
    if not state.told_gone:
        actions.append(TellGone())
        state = replace(state, told_gone=True)
    return state, [*actions, SendEnd()]


def _outputs_sent(state: RunState, problem: End | None) -> Step:
    if state.phase is not Phase.OUTPUT or state.end is None:
        return state, []
    return _finish(state, problem or state.end)


def _link_lost(state: RunState) -> Step:
    if state.phase is Phase.OUTPUT and not state.told_gone:
        # The outputs rest on disk until the shadow is back: the slot need not wait.
        return replace(state, told_gone=True), [TellGone()]
    return state, []


def _link_back(state: RunState, transfers: bool) -> Step:
    match state.phase:
        case Phase.OFFERED:
            return _accepted(state, transfers)
        case Phase.INPUT:
            return state, [AskInputs()]
        case Phase.RUNNING:
            return state, [SendStarted()]
        case Phase.OUTPUT:
            return state, [SendOutputs()]
        case Phase.ENDED if state.outputs != "none":
            return replace(state, phase=Phase.OUTPUT), [SendOutputs()]
        case Phase.ENDED:
            return state, [SendEnd()]
    return state, []


def _acked(state: RunState) -> Step:
    if state.phase is not Phase.ENDED:
        return state, []
    return replace(state, phase=Phase.GONE), [Discard()]


def _unwanted(state: RunState, tell_startd: bool) -> Step:
    state = replace(state, unwanted=True, told_gone=state.told_gone or not tell_startd)
    if state.phase in _LIVING:
        return state, [StopHard()]
    return _clean(state)


def _clean(state: RunState) -> Step:
    actions: list[Action] = [] if state.told_gone else [TellGone()]
    return replace(state, phase=Phase.GONE, told_gone=True), [*actions, Discard()]
