"""Lets new jobs into the queue once they are durable: their ads into the table, their records among the others."""

from __future__ import annotations

from collections.abc import Sequence

from slotwise.classad.values import Value as AdValue
from slotwise.schedd.jobs.ads import FreshAds, JobAds, fresh_ads, native
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.submission.new_cluster import NewJobs


class QueueEntry:
    """Adds new jobs to the queue."""

    def __init__(self, queue: Queue, ads: JobAds) -> None:
        self._queue = queue
        self._ads = ads

    @staticmethod
    def prepare(new: NewJobs) -> FreshAds | None:
        """The ads of new jobs, ready for the table; None when there are none. May be done while the disk works."""
        if not new.jobs:
            return None
        return fresh_ads(
            new.cluster,
            new.submitted,
            [job.proc for job in new.jobs],
            new.delta_pack or None,
            {"GlobalJobId": new.globals, **_columns(new.jobs)},
            dollars=b"$$(" in new.pack or b"$$(" in new.delta_pack,
        )

    def enter(self, new: NewJobs, fresh: FreshAds | None) -> None:
        """Let new jobs into the queue that are durable; ``fresh``: what :meth:`prepare` made of them."""
        if fresh is not None:
            self._ads.insert(fresh)
        if len({id(job.changes) for job in new.jobs}) > 1:
            for job in new.jobs:
                if job.changes:
                    self._ads.set(job.key, job.changes)
        self._queue.admit(new.cluster, new.jobs)


def _columns(jobs: Sequence[Job]) -> dict[str, list[AdValue]]:
    """Attributes in which new jobs differ from their cluster's ad, as columns over all of them."""
    changes = jobs[0].changes
    if any(job.changes is not changes for job in jobs):
        return {"JobStatus": [job.status for job in jobs]}
    return {name: [value] * len(jobs) for name, value in native(changes or {}).items()}
