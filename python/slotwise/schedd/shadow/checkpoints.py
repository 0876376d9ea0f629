"""Checkpoints of running jobs: what a job's ad tells of them (``checkpoint_exit_code``).

The files go to the job's directory in SPOOL and with the inputs of its next start. CheckpointNumber counts them over
all runs, JobLastCheckpointTime says when the last was written, CommittedTime how long the job ran up to it.
"""

from __future__ import annotations

from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.values import Changes


def changes(job: Job, usage: Changes, written_at: int) -> Changes:
    """What changes in the job's ad. ``usage``: the starter's report with it; ``written_at``: epoch seconds."""
    committed = usage.pop("NewlyCommittedTime", 0)
    seconds = int(committed) if isinstance(committed, int | float) else 0
    return {
        **usage,
        "CheckpointNumber": int(job.number("CheckpointNumber", -1)) + 1,
        "JobLastCheckpointTime": written_at,
        "CommittedTime": int(job.number("CommittedTime")) + seconds,
    }
