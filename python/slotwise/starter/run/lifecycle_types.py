"""What can happen to a run (events), what is done about it (actions), and what is remembered of it (state).

The machine that leads from one to the other is `lifecycle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slotwise.execution.facts import JobFacts
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.execution.verdict import End, Kill, MemoryRule


class Phase(StrEnum):
    """Where a run is. The values are what the startd is told."""

    OFFERED = "offered"
    #: A hook runs before the files are asked for.
    PREPARING = "prepare_transfer"
    INPUT = "transfer_input"
    STARTING = "starting"
    RUNNING = "running"
    #: The job ended to be started again; its checkpoint is on its way.
    CHECKPOINT = "checkpoint"
    OUTPUT = "transfer_output"
    ENDED = "ended"
    GONE = "gone"


@dataclass(frozen=True)
class RunState:
    """All the machine remembers of a run."""

    phase: Phase = Phase.OFFERED
    pid: int = 0
    #: The job has executed, in this start or one before a checkpoint.
    executed: bool = False
    suspended: bool = False
    #: Whether it is to stand still; one that has not begun yet does so as soon as it has.
    pause: bool = False
    kill: Kill | None = None
    end: End | None = None
    #: ``all``, ``streams`` (standard output and error only), ``live`` (the rest of what goes while the job runs) or
    #: ``none``.
    outputs: str = "none"
    #: The startd knows that the slot is free.
    told_gone: bool = False
    #: Nobody wants the result: end and clean up.
    unwanted: bool = False


# ---- events


@dataclass(frozen=True)
class Accepted:
    """The shadow knows the run. ``transfers``: input files will come; ``hooked``: a hook is to run before that."""

    transfers: bool
    hooked: bool = False


@dataclass(frozen=True)
class Prepared:
    """The hook before the transfer lets the run go on. ``transfers``: as in :class:`Accepted`."""

    transfers: bool = True


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
class CheckpointKept:
    """The access point has the checkpoint, or ``problem`` says why not (None: the next one will do)."""

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


@dataclass(frozen=True)
class Forgotten:
    """The startd has no claim for the run: it is to end, and its shadow to be told; the startd hears no more of it."""


Event = (
    Accepted
    | Prepared
    | InputsDone
    | Started
    | KeeperEnded
    | Failed
    | KillAsked
    | SuspendAsked
    | Suspended
    | OutputsSent
    | CheckpointKept
    | LinkLost
    | LinkBack
    | Acked
    | Unwanted
    | Forgotten
)


# ---- actions


@dataclass(frozen=True)
class RunHook:
    """Run the hook that prepares the transfer of the input files."""


@dataclass(frozen=True)
class AskInputs:
    """Ask the shadow for the input files."""


@dataclass(frozen=True)
class Launch:
    """Prepare and start the job."""


@dataclass(frozen=True)
class Relaunch:
    """Start the job once more in the same place."""


@dataclass(frozen=True)
class SendCheckpoint:
    """Send the files of the checkpoint."""


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
    RunHook
    | AskInputs
    | Launch
    | Relaunch
    | SendCheckpoint
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
