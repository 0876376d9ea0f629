"""What can happen to a run: the events of its life cycle."""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.execution.exit_status import End, Kill, MemoryRule
from slotwise.execution.job_view import JobView
from slotwise.execution.keeper_spec import KeeperResult


@dataclass(frozen=True)
class Accepted:
    """The shadow accepts the run. ``transfers``: input files will come; ``hooked``: a hook runs before they are
    requested."""

    transfers: bool
    hooked: bool = False


@dataclass(frozen=True)
class Prepared:
    """The hook before the transfer has succeeded. ``transfers``: as in :class:`Accepted`."""

    transfers: bool = True


@dataclass(frozen=True)
class InputsDone:
    """All inputs are here, or the transfer failed (``reason`` is not empty)."""

    reason: str = ""
    code: int = 0
    subcode: int = 0


@dataclass(frozen=True)
class Started:
    """The job executes."""

    pid: int


@dataclass(frozen=True)
class KeeperEnded:
    """All processes of the job are gone."""

    result: KeeperResult
    memory: MemoryRule
    job: JobView
    #: The end that replaces what the keeper saw: a limit that the starter itself enforces.
    overruled: End | None = None


@dataclass(frozen=True)
class Failed:
    """The run cannot go on: scratch directory, arguments, disk, or an error of the starter."""

    end: End


@dataclass(frozen=True)
class KillRequested:
    """The startd, the shadow or a limit requests that the job end."""

    kill: Kill


@dataclass(frozen=True)
class SuspendRequested:
    """The startd requests that the job be suspended, or continued."""

    resume: bool


@dataclass(frozen=True)
class Suspended:
    """The keeper has suspended or continued the job."""

    resumed: bool


@dataclass(frozen=True)
class OutputsSent:
    """All outputs have been sent; ``problem`` is the end that replaces the job's own, if any."""

    problem: End | None = None


@dataclass(frozen=True)
class CheckpointStored:
    """The access point has stored the checkpoint; ``problem`` ends the run (a lost checkpoint alone does not)."""

    problem: End | None = None


@dataclass(frozen=True)
class LinkLost:
    """The shadow's stream broke."""


@dataclass(frozen=True)
class LinkBack:
    """The shadow has accepted the run again after a break."""

    transfers: bool = True


@dataclass(frozen=True)
class EndAcknowledged:
    """The end of the run is on the schedd's disk."""


@dataclass(frozen=True)
class Unwanted:
    """Nobody wants the result: the shadow does not know the run, or the starter stops. ``report_gone``:
    the startd gets a report when the slot is free."""

    report_gone: bool


@dataclass(frozen=True)
class ClaimGone:
    """The startd has no claim for the run: it ends, and its end goes to the shadow only."""


Event = (
    Accepted
    | Prepared
    | InputsDone
    | Started
    | KeeperEnded
    | Failed
    | KillRequested
    | SuspendRequested
    | Suspended
    | OutputsSent
    | CheckpointStored
    | LinkLost
    | LinkBack
    | EndAcknowledged
    | Unwanted
    | ClaimGone
)
