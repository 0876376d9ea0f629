"""What can happen to a claim: the events of its life cycle."""

from __future__ import annotations

from msgspec import Struct

from slotwise.schedd.jobs.job import Job
from slotwise.schedd.lifecycle.claim_states import EndedByStartd


class BeyondShare(Struct, frozen=True):
    """Others wait for slots of a submitter that holds more than its share. ``until``: jobs that end by then, epoch
    seconds, may still start; 0: none may."""

    until: float = 0.0
    reason: str = ""


class Granted(Struct, frozen=True):
    """The startd grants the slot, to ``job`` if that still waits for one."""

    job: Job | None = None


class Withdrawn(Struct, frozen=True):
    """Nothing comes of the request: the startd refused it, the link broke, or the schedd failed at the answer."""


class JobReserved(Struct, frozen=True):
    """The next job waits for JOB_START_DELAY, ``wait_s`` seconds."""

    job: Job
    wait_s: float


class StartDue(Struct, frozen=True):
    """JOB_START_DELAY has passed for the job that waits."""


class RunBegun(Struct, frozen=True):
    """A run has been decided for the claim."""

    run_id: str


class RunEnded(Struct, frozen=True):
    """The end of its run was taken over, at ``moment`` on the monotonic clock."""

    run_id: str
    moment: float
    #: Runs in a row that failed through no fault of their jobs.
    failures: int = 0
    #: KeepClaimIdle of the job, seconds.
    keep_s: int = 0
    beyond: BeyondShare | None = None
    #: The job for which a user had this run vacated.
    preferred: Job | None = None
    #: How long to keep the claim until it becomes part of the slot of such a job, seconds; 0: it does not.
    pledge_s: int = 0


class NoJobFound(Struct, frozen=True):
    """No job is left for the slot, at ``moment`` on the monotonic clock."""

    moment: float
    keep_s: int
    reason: str


class KeepCheck(Struct, frozen=True):
    """Once a second: whether KeepClaimIdle, or the lease, has run out at ``moment``, on the monotonic clock."""

    moment: float


class ClaimListed(Struct, frozen=True):
    """The startd still has the claim. ``run_id``: the run there, if any; ``active``: the slot is not idle."""

    run_id: str
    active: bool


class ClaimUnlisted(Struct, frozen=True):
    """The startd does not have the claim any more."""


class SlotRetires(Struct, frozen=True):
    """The startd is preempting the job or retiring the slot."""


class ClaimEnded(Struct, frozen=True):
    """The startd ended the claim; ``cause`` is None when it only says that it does not know it."""

    cause: EndedByStartd | None = None


class LinkLost(Struct, frozen=True):
    """The stream to the startd broke."""


class Released(Struct, frozen=True):
    """The claim is to be given back. ``fast``: a run on it gets no time to end."""

    reason: str
    fast: bool = False


ClaimEvent = (
    Granted
    | Withdrawn
    | JobReserved
    | StartDue
    | RunBegun
    | RunEnded
    | NoJobFound
    | KeepCheck
    | ClaimListed
    | ClaimUnlisted
    | SlotRetires
    | ClaimEnded
    | LinkLost
    | Released
)
