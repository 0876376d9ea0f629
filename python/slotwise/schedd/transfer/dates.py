"""When the files of a job moved, as attributes of its ad, and how often. Pure; names and units as in HTCondor."""

from __future__ import annotations

from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.values import Changes

#: The attributes that a stage of a transfer dates, and the one that counts it.
_DATED: dict[str, tuple[tuple[str, ...], str]] = {
    "input_queued": (("TransferInQueued",), ""),
    "input_started": (("TransferInStarted", "JobCurrentStartTransferInputDate"), "NumInputTransferStarts"),
    "input_finished": (("TransferInFinished", "JobCurrentFinishTransferInputDate"), ""),
    "output_queued": (("TransferOutQueued",), ""),
    "output_started": (("TransferOutStarted", "JobCurrentStartTransferOutputDate"), "NumOutputTransferStarts"),
    "output_finished": (("TransferOutFinished", "JobCurrentFinishTransferOutputDate"), ""),
}


def stage_attributes(job: Job, stage: str, now: float) -> Changes:
    """What the ad of a job tells of a stage of its transfers, one of :data:`slotwise.model.job_events.TRANSFER_STAGES`,
    that is reached at ``now``."""
    names, counter = _DATED[stage]
    changes: Changes = dict.fromkeys(names, int(now))
    if counter:
        changes[counter] = int(job.number(counter)) + 1
    return changes
