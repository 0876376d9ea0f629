"""The instructions that the life cycle of a claim gives."""

from __future__ import annotations

from msgspec import Struct

from slotwise.schedd.jobs.job import Job


class StartNext(Struct, frozen=True):
    """Choose the next job and start it; tell the claim if there is none.

    ``preferred`` is tried first. ``ends_by``: only a job that is expected to have ended by then, epoch seconds; 0: any.
    ``at_once``: without regard to JOB_START_DELAY, as jobs that follow others do. ``keep_s``, ``reason``: how long the
    claim is kept without a job, and why it is given back otherwise.
    """

    preferred: Job | None = None
    ends_by: float = 0.0
    at_once: bool = True
    keep_s: int = 0
    reason: str = ""


class StartAfter(Struct, frozen=True):
    """Have the job that waits start after ``wait_s`` seconds."""

    wait_s: float


class SendRelease(Struct, frozen=True):
    """Tell the startd that the claim is given back."""

    reason: str
    fast: bool = False


class Discard(Struct, frozen=True):
    """Remove the claim from the store and from memory."""


class ReturnJob(Struct, frozen=True):
    """The job that waited is runnable again."""

    job: Job


class ReturnJobs(Struct, frozen=True):
    """The jobs of a request are runnable again, and the match came to nothing."""


class AwaitRunEnd(Struct, frozen=True):
    """The run has lost its claim: its starter has a while to report the end. ``judge``: unless it is known that no
    starter has the run."""

    run_id: str
    judge: bool = False


class CheckRun(Struct, frozen=True):
    """Compare the run with what the startd says of its slot: that it runs there (``active``), or nothing does."""

    run_id: str
    active: bool


ClaimInstruction = StartNext | StartAfter | SendRelease | Discard | ReturnJob | ReturnJobs | AwaitRunEnd | CheckRun
