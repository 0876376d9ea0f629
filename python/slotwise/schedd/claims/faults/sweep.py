"""Finds, after a failure, jobs that wait for nothing and claims that serve nothing, and puts them right."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.schedd.claims.records import ClaimTable
from slotwise.schedd.claims.transitions import ClaimTransitions
from slotwise.schedd.claims.turn import Turns
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.lifecycle.claim import NO_JOB_LEFT, serves
from slotwise.schedd.storage.committer import Committer

_log = logging.getLogger(__name__)


class Sweep:
    """Goes over all jobs and claims once after something failed."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        turns: Turns,
        claim_table: ClaimTable,
        *,
        claims: ClaimTransitions,
        runs_here: Callable[[], Container[str]],
    ) -> None:
        """
        :param runs_here: ids of the runs on the access point itself.
        """
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self._turns = turns
        self._claim_table = claim_table
        self._claims = claims
        self._runs_here = runs_here
        #: Something failed since the last sweep.
        self.is_due = False

    def soon(self) -> None:
        """Something failed: sweep at the next occasion."""
        self.is_due = True

    def if_due(self) -> None:
        """Sweep, if something failed since the last time."""
        if not self.is_due:
            return
        self.is_due = False
        with contained(_log, "the sweep after a failure", lambda error: self.soon()):
            self._queue.recount()
            self._release_claims()
            self._requeue_jobs()

    def _release_claims(self) -> None:
        turn = self._turns.begin()
        for claim in list(self._claim_table.claims.values()):
            if not serves(claim.state, self._claim_table.runs.keys()):
                _log.warning("released the claim on %s, which a failure had left without a job", claim.slot_name)
                self._claims.release(claim, turn, NO_JOB_LEFT)
        if turn.batch:
            self._turns.commit(turn)

    def _requeue_jobs(self) -> None:
        table = self._claim_table
        reserved = {job for pending in table.pending.values() for job in pending.jobs}
        reserved |= {claim.reserved for claim in table.claims.values() if claim.reserved is not None}
        decision = Decision(self._clock.now())
        for job in list(self._queue.jobs()):
            if job.status == Status.COMPLETED and not job.run and not self._ads.stays(job, decision.now):
                self._queue.leave(job, decision)
        for job in self._stray(self._queue.jobs(), reserved):
            _log.warning("%s: queued again, a failure had left it without a run", job.key)
            self._queue.abandon_run(job, job.run, "The access point failed between two states of the job", decision)
        if decision.changed or decision.retired:
            self._committer.commit(decision)
        if decision.new_work:
            self._committer.tell_new_work()

    def _stray(self, jobs: Iterable[Job], reserved: set[Job]) -> list[Job]:
        """Jobs whose run is not known, or that wait for one without being on any list."""
        here = self._runs_here()
        found = []
        for job in jobs:
            if job.run:
                lost = not self._claim_table.has_run(job.run) and job.run not in here
            elif job.status == Status.IDLE:
                lost = not (self._queue.waits(job) or job in reserved)
            else:
                lost = job.status in (Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT, Status.REMOVED)
            if lost:
                found.append(job)
        return found
