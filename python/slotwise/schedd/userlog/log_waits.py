"""What follows for jobs whose event logs cannot be written, and for those that have waited until they were."""

from __future__ import annotations

import logging

from slotwise.clock import Clock
from slotwise.model.ownership import same_user
from slotwise.observe.outage import AGAIN_S
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.dependents import Dependents
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.userlog.writer import LogFailure

_log = logging.getLogger(__name__)


class LogWaits:
    """Tells jobs of their event logs, and lets completed ones leave once their ends are logged."""

    def __init__(self, queue: Queue, ads: JobAds, committer: Committer, clock: Clock, dependents: Dependents) -> None:
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self._dependents = dependents
        #: Why jobs in the queue wait for their event logs.
        self.reasons: dict[Job, str] = {}
        #: When the failure of each log was last told, by path.
        self._told: dict[str, float] = {}

    def failed(self, failure: LogFailure, jobs: list[Job]) -> None:
        """A log could not be written; ``jobs`` wait for it."""
        self._tell(failure)
        self.reasons.update((job, failure.reason) for job in jobs if not job.has_left)
        decision = Decision(self._clock.now())
        self._queue.log_failed(jobs, failure.reason, failure.errno, failure.is_lasting, decision)
        if decision.changed:
            self._committer.commit(decision)

    def _tell(self, failure: LogFailure) -> None:
        moment = self._clock.monotonic()
        self._told = {path: at for path, at in self._told.items() if moment - at < AGAIN_S}
        if failure.path not in self._told:
            self._told[failure.path] = moment
            _log.warning("%s; %d texts wait for it", failure.reason, len(failure.seqs))

    def over(self, jobs: list[Job]) -> None:
        """The event logs of the jobs have all that was told of them, or it was given up."""
        decision = Decision(self._clock.now())
        for job in jobs if self.reasons else ():
            self.reasons.pop(job, None)
        self._queue.logged(jobs, decision)
        for job in jobs:
            if job.status != Status.COMPLETED or job.run or not self._ads.has(job):
                continue
            if not job.has_left and not self._ads.stays(job, decision.now):
                self._queue.leave(job, decision)
        if decision.retired:
            self._dependents.remove(decision)
        if decision.changed or decision.retired:
            self._committer.commit(decision)

    def reasons_for(self, user: str) -> list[str]:
        """Why jobs in the queue wait for their event logs, one reason for each of them; of a user, or "" for all."""
        return [
            reason
            for job, reason in self.reasons.items()
            if not job.has_left and (not user or same_user(job.cluster.user, user))
        ]
