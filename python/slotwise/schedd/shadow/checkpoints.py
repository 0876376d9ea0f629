"""Checkpoints of running jobs: what a job's ad tells of them (``checkpoint_exit_code``).

The files go to the job's directory in SPOOL and with the inputs of its next start, or to its checkpoint_destination.
CheckpointNumber counts them over all runs, JobLastCheckpointTime says when the last was written, CommittedTime how
long the job ran up to it.
"""

from __future__ import annotations

from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.values import Changes


def changes(job: Job, usage: Changes, written_at: int, number: int | None = None) -> Changes:
    """What changes in the job's ad. ``usage``: the starter's report with it; ``written_at``: epoch seconds; ``number``:
    the checkpoint's at its destination."""
    committed = usage.pop("NewlyCommittedTime", 0)
    seconds = int(committed) if isinstance(committed, int | float) else 0
    return {
        **usage,
        "CheckpointNumber": _last(job) + 1 if number is None else max(number, _last(job)),
        "JobLastCheckpointTime": written_at,
        "CommittedTime": int(job.number("CommittedTime")) + seconds,
    }


def changes_of_failed(job: Job, number: int) -> Changes:
    """What a checkpoint changes that is not at its destination: no other gets its number."""
    return {"CheckpointNumber": max(number, _last(job))}


def _last(job: Job) -> int:
    return int(job.number("CheckpointNumber", -1))
