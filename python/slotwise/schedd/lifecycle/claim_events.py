"""What can happen to a claim: the events of its life cycle."""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.schedd.jobs.job import Job
from slotwise.schedd.lifecycle.claim_states import EndedByStartd


@dataclass(frozen=True, slots=True)
class BeyondShare:
    """Others wait for slots of a submitter that holds more than its share. ``until``: jobs that end by then, epoch
    seconds, may still start; 0: none may."""

    until: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Granted:
    """The startd grants the slot, to ``job`` if that still waits for one."""

    job: Job | None = None


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Nothing comes of the request: the startd refused it, the link broke, or the schedd failed at the answer."""


@dataclass(frozen=True, slots=True)
class JobReserved:
    """The next job waits for JOB_START_DELAY, ``wait_s`` seconds."""

    job: Job
    wait_s: float


@dataclass(frozen=True, slots=True)
class StartDue:
    """JOB_START_DELAY has passed for the job that waits."""


@dataclass(frozen=True, slots=True)
class RunBegun:
    """A run has been decided for the claim."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunEnded:
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


@dataclass(frozen=True, slots=True)
class NoJobFound:
    """No job is left for the slot, at ``moment`` on the monotonic clock."""

    moment: float
    keep_s: int
    reason: str


@dataclass(frozen=True, slots=True)
class KeepCheck:
    """Once a second: whether KeepClaimIdle, or the lease, has run out at ``moment``, on the monotonic clock."""

    moment: float


@dataclass(frozen=True, slots=True)
class ClaimListed:
    """The startd still has the claim. ``run_id``: the run there, if any; ``active``: the slot is not idle."""

    run_id: str
    active: bool


@dataclass(frozen=True, slots=True)
class ClaimUnlisted:
    """The startd does not have the claim any more."""


@dataclass(frozen=True, slots=True)
class SlotRetires:
    """The startd is preempting the job or retiring the slot."""


@dataclass(frozen=True, slots=True)
class ClaimEnded:
    """The startd ended the claim; ``cause`` is None when it only says that it does not know it."""

    cause: EndedByStartd | None = None


@dataclass(frozen=True, slots=True)
class LinkLost:
    """The stream to the startd broke."""


@dataclass(frozen=True, slots=True)
class Released:
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
