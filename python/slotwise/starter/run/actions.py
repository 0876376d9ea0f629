"""What the life cycle of a run has done about it."""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.execution.exit_status import Kill


@dataclass(frozen=True)
class RunHook:
    """Run the hook that prepares the transfer of the input files."""


@dataclass(frozen=True)
class RequestInputs:
    """Request the input files from the shadow."""


@dataclass(frozen=True)
class Launch:
    """Prepare the job, and start it under a keeper."""


@dataclass(frozen=True)
class Relaunch:
    """Start the job again from its checkpoint, in the same directory."""


@dataclass(frozen=True)
class SendCheckpoint:
    """Send the files of the checkpoint."""


@dataclass(frozen=True)
class StopSoft:
    """Send the job the signal that asks it to exit; kill it when the time of the kill, or its own, is over."""

    kill: Kill


@dataclass(frozen=True)
class StopHard:
    """Kill all processes of the job."""


@dataclass(frozen=True)
class Pause:
    """Suspend the processes of the job, or continue them."""

    resume: bool


@dataclass(frozen=True)
class ReportPhase:
    """Report the phase to the startd."""


@dataclass(frozen=True)
class ReportSuspended:
    """Report to startd and shadow that the job was suspended, or continued."""

    resumed: bool


@dataclass(frozen=True)
class SendStarted:
    """Report to the shadow that the job executes."""


@dataclass(frozen=True)
class SendOutputs:
    """Send the outputs to the shadow."""


@dataclass(frozen=True)
class SendEnd:
    """Report the end of the run to the shadow."""


@dataclass(frozen=True)
class ReportGone:
    """Report to the startd that the slot is free."""


@dataclass(frozen=True)
class Discard:
    """Remove all that is left of the run."""


Action = (
    RunHook
    | RequestInputs
    | Launch
    | Relaunch
    | SendCheckpoint
    | StopSoft
    | StopHard
    | Pause
    | ReportPhase
    | ReportSuspended
    | SendStarted
    | SendOutputs
    | SendEnd
    | ReportGone
    | Discard
)
