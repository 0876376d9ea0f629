"""What can happen to a run: the events of its life cycle."""

from __future__ import annotations

from msgspec import Struct

from slotwise.execution.exit_status import End, Kill, MemoryRule
from slotwise.execution.job_view import JobView
from slotwise.execution.keeper_spec import KeeperResult


class Accepted(Struct, frozen=True):
    """The shadow accepts the run. ``transfers``: input files will come; ``hooked``: a hook runs before they are
    requested; ``tells_why``: as in :class:`~slotwise.starter.run.states.RunState`."""

    transfers: bool
    hooked: bool = False
    tells_why: bool = False


class Prepared(Struct, frozen=True):
    """The hook before the transfer has succeeded. ``transfers``: as in :class:`Accepted`."""

    transfers: bool = True


class InputsDone(Struct, frozen=True):
    """All inputs are here, or the transfer failed (``reason`` is not empty)."""

    reason: str = ""
    code: int = 0
    subcode: int = 0


class Started(Struct, frozen=True):
    """The job executes."""

    pid: int


class KeeperEnded(Struct, frozen=True):
    """All processes of the job are gone."""

    result: KeeperResult
    memory: MemoryRule
    job: JobView
    #: The end that replaces what the keeper saw: a limit that the starter itself enforces.
    overruled: End | None = None


class Failed(Struct, frozen=True):
    """The run cannot go on: scratch directory, arguments, disk, or an error of the starter."""

    end: End


class KillRequested(Struct, frozen=True):
    """The startd, the shadow or a limit requests that the job end."""

    kill: Kill


class SuspendRequested(Struct, frozen=True):
    """The startd requests that the job be suspended, or continued."""

    resume: bool


class Suspended(Struct, frozen=True):
    """The keeper has suspended or continued the job."""

    resumed: bool


class OutputsSent(Struct, frozen=True):
    """All outputs have been sent; ``problem`` is the end that replaces the job's own, if any."""

    problem: End | None = None


class CheckpointStored(Struct, frozen=True):
    """The access point has stored the checkpoint; ``problem`` ends the run (a lost checkpoint alone does not)."""

    problem: End | None = None


class LinkLost(Struct, frozen=True):
    """The shadow's stream broke."""


class LinkBack(Struct, frozen=True):
    """The shadow has accepted the run again after a break."""

    transfers: bool = True


class EndAcknowledged(Struct, frozen=True):
    """The end of the run is on the schedd's disk."""


class Unwanted(Struct, frozen=True):
    """Nobody wants the result: the shadow does not know the run, or the starter stops. ``report_gone``:
    the startd gets a report when the slot is free."""

    report_gone: bool


class ClaimGone(Struct, frozen=True):
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
