"""What follows when the schedd itself fails at a message: the run is ended, its claim released, its job runs again.

An exception may come at any point, also between two changes that belong together, so nothing here relies on how far
the failed code got. The claim is released at once, and the run ends as soon as its starter says so; a sweep over queue
and claims (:meth:`Faults.sweep`) then puts right whatever else was left half done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from slotwise.clock import Clock
from slotwise.daemon.containment import cause, contained
from slotwise.ids import doing_for_run
from slotwise.model.reason_codes import Vacate
from slotwise.schedd.claims.records import Claim, ClaimRequestPending, ClaimTable, Run
from slotwise.schedd.claims.startd_messages import ClaimsGranted
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision, Kill
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.lifecycle.claim import NO_JOB_LEFT, serves
from slotwise.schedd.lifecycle.run_events import AccessPointFailed, RunEvent
from slotwise.schedd.storage.committer import Committer

_log = logging.getLogger(__name__)


class ClaimsAndRuns(Protocol):
    """What recovery does with claims, runs and the jobs that wait for them."""

    queue: Queue
    ads: JobAds
    committer: Committer
    clock: Clock
    claim_table: ClaimTable
    #: Tells the shadow that a run is over without its starter's word.
    on_run_given_up: Callable[[Run], None]

    @property
    def here(self) -> Mapping[str, object]:
        """Runs on the access point itself, by id."""
        ...

    def turn(self) -> Turn:
        """A turn that begins now."""
        ...

    def commit(self, turn: Turn) -> None:
        """Make a turn durable."""
        ...

    def advance_run(self, run: Run, event: RunEvent) -> None:
        """Something has happened to the run."""
        ...

    def forget_run(self, run: Run) -> None:
        """The run is over as far as memory goes."""
        ...

    def release(self, claim: Claim, turn: Turn, reason: str, *, fast: bool = False) -> None:
        """Give the claim back."""
        ...

    def release_unknown(self, startd: str, claim_id: str) -> None:
        """Tell the startd that a claim is not wanted."""
        ...

    def withdraw(self, pending: ClaimRequestPending) -> None:
        """Nothing comes of a request."""
        ...


class Faults:
    """Ends what an exception has hit."""

    def __init__(self, claiming: ClaimsAndRuns) -> None:
        self._claiming = claiming
        #: Something failed since the last sweep.
        self.sweep_due = False

    def run(self, run: Run, error: Exception, *, ended: bool = False) -> None:
        """End the run, release its claim and make the job runnable again; HTCondor calls that a shadow exception.

        The job may execute until its starter says otherwise, so it is not started elsewhere before that.

        :param ended: its starter has said that the run is over.
        """
        self.sweep_due = True
        reason = f"The access point failed to process a message of the run: {cause(error)}"
        kill = Kill(run.id, True, reason, int(Vacate.SHADOW_EXCEPTION))
        with contained(_log, doing_for_run(run.id, "stopping it")):
            failed = AccessPointFailed(self._claiming.clock.monotonic(), kill, ended)
            self._claiming.advance_run(run, failed)
        self.claim(run.claim, error)

    def task(self, run: Run, error: Exception) -> None:
        """Work beside the messages of a run has failed: the run ends, if it has not ended already.

        By then its claim may serve the next run, which such work has nothing to do with.
        """
        if not run.over:
            self.run(run, error)

    def end(self, run: Run, reason: str) -> None:
        """A run that failed is over at its starter, or never began there."""
        claiming, decision = self._claiming, Decision(self._claiming.clock.now())
        with contained(_log, doing_for_run(run.id, "ending it")):
            claiming.queue.abandon_run(run.job, run.id, reason, decision)
        with contained(_log, doing_for_run(run.id, "forgetting it")):
            claiming.forget_run(run)
        with contained(_log, doing_for_run(run.id, "telling its starter")):
            claiming.on_run_given_up(run)
        with contained(_log, doing_for_run(run.id, "committing its end")):
            claiming.committer.commit(decision)

    def claim(self, claim: Claim, error: Exception) -> None:
        """Release the claim; a run on it ends, and a job that waits for it is runnable again."""
        self.sweep_due = True
        claiming, turn = self._claiming, self._claiming.turn()
        doing = doing_for_run(claim.run, f"releasing the claim on {claim.slot_name}")
        with contained(_log, doing):
            reason = f"The access point failed to process a message: {cause(error)}"
            claiming.release(claim, turn, reason, fast=True)
        with contained(_log, doing):
            claiming.commit(turn)
        run = claiming.claim_table.runs.get(claim.run)
        if run is not None and not run.failed:
            self.run(run, error)

    def request(self, pending: ClaimRequestPending, granted: ClaimsGranted | None, error: Exception) -> None:
        """A request for claims, or its answer, was processed in part: nothing of it stays."""
        self.sweep_due = True
        claiming = self._claiming
        for slot in granted.slots if granted is not None else ():
            if (claim := claiming.claim_table.claims.get(slot.claim_id)) is not None:
                self.claim(claim, error)
            else:
                claiming.release_unknown(pending.startd, slot.claim_id)
        if granted is not None and granted.leftover_claim_id:
            claiming.release_unknown(pending.startd, granted.leftover_claim_id)
        claiming.withdraw(pending)

    # ---- what nobody holds any more

    def sweep(self) -> None:
        """Find jobs that wait for nothing and claims that serve nothing, if something failed, and put them right."""
        if not self.sweep_due:
            return
        self.sweep_due = False
        with contained(_log, "the sweep after a failure", lambda error: self._sweep_again()):
            self._claiming.queue.recount()
            self._claims()
            self._jobs()

    def _sweep_again(self) -> None:
        self.sweep_due = True

    def _claims(self) -> None:
        claiming, turn = self._claiming, self._claiming.turn()
        for claim in list(claiming.claim_table.claims.values()):
            if not serves(claim.state, claiming.claim_table.runs.keys()):
                _log.warning("claim on %s was left without a job by a failure; it is released", claim.slot_name)
                claiming.release(claim, turn, NO_JOB_LEFT)
        if turn.batch:
            claiming.commit(turn)

    def _jobs(self) -> None:
        claiming = self._claiming
        reserved = {job for pending in claiming.claim_table.pending.values() for job in pending.jobs}
        reserved |= {claim.reserved for claim in claiming.claim_table.claims.values() if claim.reserved is not None}
        decision = Decision(claiming.clock.now())
        for job in list(claiming.queue.jobs()):
            if job.status == Status.COMPLETED and not job.run and not claiming.ads.stays(job, decision.now):
                claiming.queue.leave(job, decision)
        for job in self._stray(claiming.queue.jobs(), reserved):
            _log.warning("%s: left without a run by a failure, queued again", job.key)
            claiming.queue.abandon_run(job, job.run, "The access point failed between two states of the job", decision)
        if decision.changed or decision.retired:
            claiming.committer.commit(decision)
        if decision.new_work and claiming.committer.on_new_work:
            claiming.committer.on_new_work()

    def _stray(self, jobs: Iterable[Job], reserved: set[Job]) -> list[Job]:
        """Jobs that have a run no more, or wait for one without being on any list."""
        queue, runs = self._claiming.queue, {**self._claiming.claim_table.runs, **self._claiming.here}
        found = []
        for job in jobs:
            if job.run:
                lost = job.run not in runs
            elif job.status == Status.IDLE:
                lost = not (queue.waits(job) or job in reserved)
            else:
                lost = job.status in (Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT, Status.REMOVED)
            if lost:
                found.append(job)
        return found
