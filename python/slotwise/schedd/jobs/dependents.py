"""Jobs that are removed when another job leaves the queue, as its OtherJobRemoveRequirements says.

This removes the nodes of a DAG together with its condor_dagman. Only jobs of the same user are removed, whatever else
the expression is true for.
"""

from __future__ import annotations

import logging

from slotwise.classad import quote
from slotwise.daemon.containment import contained
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.table import Allowance

_log = logging.getLogger(__name__)
#: Evaluation steps for all jobs of a decision; the event loop is blocked meanwhile.
_STEPS = 2_000_000


class Dependents:
    """Removes the dependents of jobs that leave the queue."""

    def __init__(self, queue: Queue, ads: JobAds) -> None:
        self._queue = queue
        self._ads = ads
        #: The latest decision, the users and expressions that were evaluated for it, and the steps left.
        self._decision: Decision | None = None
        self._asked: set[tuple[str, str]] = set()
        self._left = _STEPS
        #: How many jobs of that decision have been processed.
        self._seen = 0

    def remove(self, decision: Decision) -> None:
        """Remove the dependents of the jobs that leave the queue by ``decision``, as part of it."""
        if decision is not self._decision:
            self._decision, self._asked, self._left, self._seen = decision, set(), _STEPS, 0
        # Called for each job that leaves, with a decision that many share.
        while self._seen < len(decision.retired):
            job = decision.retired[self._seen]
            self._seen += 1
            if job.cluster.others_removed:
                self._remove(job, decision)

    def _remove(self, job: Job, decision: Decision) -> None:
        condition, user = job.cluster.others_removed, job.cluster.user
        if (user, condition) in self._asked or not self._queue.owned.get(user):
            return
        self._asked.add((user, condition))
        reason = f"removed because <OtherJobRemoveRequirements = {condition}> fired when job ({job.key}) was removed"
        keys: list[str] = []
        of_user = f"User =?= {quote(user)} && ({condition})"
        with (
            contained(_log, f"{job.key}: evaluating OtherJobRemoveRequirements"),
            Allowance(max(1, self._left)) as allowance,
        ):
            keys = self._ads.table.query_keys(of_user, now=int(decision.now))
        self._left -= allowance.used
        if allowance.exhausted or allowance.broken:
            _log.warning(
                "%s: OtherJobRemoveRequirements exceeded the limit of %d evaluation steps: some of its jobs may remain;"
                " remove them with condor_rm -constraint, and simplify the expression",
                job.key,
                _STEPS,
            )
        for key in keys:
            other = self._queue.by_key(key)
            if other is None or other is job or other.cluster.user != job.cluster.user:
                continue
            if other.status != Status.REMOVED:
                self._queue.remove(other, reason, decision)
