"""Jobs that go with another: OtherJobRemoveRequirements names them; they are removed when that one leaves the queue.

So the nodes of a DAG go with the condor_dagman that drives it. Only jobs of the same user go, whatever the condition is
true of.
"""

from __future__ import annotations

import logging

from slotwise.daemon.containment import contained
from slotwise.schedd.ads import JobAds
from slotwise.schedd.codes import Status
from slotwise.schedd.decision import Decision
from slotwise.schedd.job import Job
from slotwise.schedd.queue import Queue
from slotwise.table import Allowance

_log = logging.getLogger(__name__)
#: Steps that finding them may take.
_STEPS = 10_000_000


class Dependents:
    """Removes jobs with those that they depend on."""

    def __init__(self, queue: Queue, ads: JobAds) -> None:
        self._queue = queue
        self._ads = ads

    def remove(self, decision: Decision) -> None:
        """Remove what depends on the jobs that leave the queue by ``decision``, as a part of it."""
        seen: set[Job] = set()
        while fresh := [job for job in decision.retired if job not in seen]:
            seen.update(fresh)
            for job in fresh:
                if job.cluster.others_removed:
                    self._remove(job, decision)

    def _remove(self, job: Job, decision: Decision) -> None:
        condition = job.cluster.others_removed
        reason = f"removed because <OtherJobRemoveRequirements = {condition}> fired when job ({job.key}) was removed"
        keys: list[str] = []
        with contained(_log, f"{job.key}: finding the jobs of its OtherJobRemoveRequirements"), Allowance(_STEPS):
            keys = self._ads.table.query_keys(condition, now=int(decision.now))
        for key in keys:
            other = self._queue.by_key(key)
            if other is None or other is job or other.cluster.user != job.cluster.user:
                continue
            if other.status != Status.REMOVED:
                self._queue.remove(other, reason, decision)
