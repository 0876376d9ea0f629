"""Checkpoints of running jobs: what a job's ad tells of them (``checkpoint_exit_code``).

The files go to the job's directory in SPOOL and with the inputs of its next start. CheckpointNumber counts them over
all runs, JobLastCheckpointTime says when the last was written, CommittedTime how long the job ran up to it.
"""

from __future__ import annotations

from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.values import Changes
from slotwise.wire.gen import schedd_pb2


def changes(job: Job, usage: Changes, checkpoint: schedd_pb2.RunCheckpoint) -> Changes:
    """What changes in the job's ad. ``usage``: the starter's report with the checkpoint."""
    committed = usage.pop("NewlyCommittedTime", 0)
    seconds = int(committed) if isinstance(committed, int | float) else 0
    return {
        **usage,
        "CheckpointNumber": int(job.number("CheckpointNumber", -1)) + 1,
        "JobLastCheckpointTime": checkpoint.at,
        "CommittedTime": int(job.number("CommittedTime")) + seconds,
    }
