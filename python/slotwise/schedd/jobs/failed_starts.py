"""What the ad of a job tells of its last start that failed: where, why, when, and how many there have been. Pure.

HTCondor's schedd says that only in its log. The explanations of why a job waits look here first.
"""

from __future__ import annotations

from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.values import Changes


def failed_start(job: Job, slot: str, reason: str, now: float) -> Changes:
    """The attributes after a claim or an activation was refused, or could not be asked for.

    :param slot: the name of the slot.
    :param reason: as its startd gave it, or why it could not be asked.
    """
    return {
        "LastFailedStartTime": int(now),
        "LastFailedStartSlot": slot,
        "LastFailedStartReason": reason,
        "NumFailedStarts": int(job.number("NumFailedStarts")) + 1,
    }
