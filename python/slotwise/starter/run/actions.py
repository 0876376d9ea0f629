"""What the life cycle of a run has done about it."""

from __future__ import annotations

from msgspec import Struct

from slotwise.execution.exit_status import Kill


class RunHook(Struct, frozen=True):
    """Run the hook that prepares the transfer of the input files."""


class RequestInputs(Struct, frozen=True):
    """Request the input files from the shadow."""


class Launch(Struct, frozen=True):
    """Prepare the job, and start it under a keeper."""


class Relaunch(Struct, frozen=True):
    """Start the job again from its checkpoint, in the same directory."""


class SendCheckpoint(Struct, frozen=True):
    """Send the files of the checkpoint."""


class StopSoft(Struct, frozen=True):
    """Send the job the signal that asks it to exit; kill it when the time of the kill, or its own, is over."""

    kill: Kill


class StopHard(Struct, frozen=True):
    """Kill all processes of the job."""


class Pause(Struct, frozen=True):
    """Suspend the processes of the job, or continue them."""

    resume: bool


class ReportPhase(Struct, frozen=True):
    """Report the phase to the startd."""


class ReportSuspended(Struct, frozen=True):
    """Report to startd and shadow that the job was suspended, or continued."""

    resumed: bool


class SendStarted(Struct, frozen=True):
    """Report to the shadow that the job executes."""


class SendOutputs(Struct, frozen=True):
    """Send the outputs to the shadow."""


class SendEnd(Struct, frozen=True):
    """Report the end of the run to the shadow."""


class ReportGone(Struct, frozen=True):
    """Report to the startd that the slot is free."""


class Discard(Struct, frozen=True):
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
