"""Starts jobs on claims: the one that a claim serves next, no faster than JOB_START_COUNT and JOB_START_DELAY allow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.records import Claim
from slotwise.schedd.claims.starts.new_runs import NewRuns
from slotwise.schedd.claims.starts.next_job import NextJob
from slotwise.schedd.claims.starts.reserved_jobs import ReservedJobs
from slotwise.schedd.claims.starts.start_limits import StartLimits
from slotwise.schedd.claims.starts.start_throttle import StartThrottle
from slotwise.schedd.claims.transitions import ApplyToClaim
from slotwise.schedd.claims.turn import Turn, Turns
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.lifecycle import claim_events
from slotwise.schedd.lifecycle.claim_instructions import StartNext

_log = logging.getLogger(__name__)


class Starting:
    """Decides that jobs start on claims, and when."""

    #: MAX_NEXT_JOB_START_DELAY, seconds.
    next_start_delay_most_s = 600.0

    def __init__(
        self,
        ads: JobAds,
        clock: Clock,
        turns: Turns,
        *,
        apply: ApplyToClaim,
        next_job: NextJob,
        limits: StartLimits,
        reserved: ReservedJobs,
        new_runs: NewRuns,
        failures: Failures,
        keep_dedicated: Callable[[], int],
    ) -> None:
        """
        :param keep_dedicated: tells the dedicated scheduler that a claim of its own has no run; returns for how many
            seconds the claim is kept.
        """
        self._ads = ads
        self._clock = clock
        self._turns = turns
        self._apply = apply
        self._next_job = next_job
        self._limits = limits
        self._reserved = reserved
        self._new_runs = new_runs
        self._failures = failures
        self._keep_dedicated = keep_dedicated
        #: JOB_START_COUNT and JOB_START_DELAY.
        self.throttle = StartThrottle()

    def start_next(self, claim: Claim, what: StartNext, turn: Turn) -> None:
        """Choose the next job of the claim and start it; tell the claim if there is none.

        Jobs of the dedicated scheduler start when all of their claims are there, so its claims have no next job here.
        """
        if claim.dedicated:
            kept = claim_events.NoJobFound(self._clock.monotonic(), self._keep_dedicated(), what.reason)
            self._apply(claim, kept, turn)
            return
        job = self._reserved.still_idle([what.preferred]) if what.preferred is not None else None
        if job is not None and not self._limits.may_start(job, lambda: claim.slot):
            turn.refused.append(job)  # others of the same user have started since
            job = None
        job = job or self._next_job.of(claim, ends_by=what.ends_by)
        if job is None:
            none_found = claim_events.NoJobFound(self._clock.monotonic(), what.keep_s, what.reason)
            self._apply(claim, none_found, turn)
        elif what.at_once:
            self._new_runs.begin(job, claim, turn)
        else:
            self._start(job, claim, turn)

    def start_if_any(self, claim: Claim, turn: Turn) -> None:
        """Start the next job of an idle claim; the claim waits on if there is none."""
        if not claim.dedicated and (job := self._next_job.of(claim)) is not None:
            self._start(job, claim, turn)

    def _start(self, job: Job, claim: Claim, turn: Turn) -> None:
        """Start a job that does not follow another on its claim, when JOB_START_DELAY allows.

        A job that waits so stays idle in the queue: should this process die, its claim finds a job anew.
        Jobs that follow others on a claim do not come here: as in HTCondor, they start at once.
        """
        wait_s = self.take_turn(job)
        if wait_s <= 0:
            self._new_runs.begin(job, claim, turn)
        else:
            self._apply(claim, claim_events.JobReserved(job, wait_s), turn)

    def take_turn(self, job: Job) -> float:
        """How long the start of a job has to wait for those before it, in seconds; it counts as given."""
        asked_s = self._ads.number(job, "NextJobStartDelay", 0)
        return self.throttle.wait_s(self._clock.monotonic(), min(asked_s, self.next_start_delay_most_s))

    def start_after(self, claim: Claim, wait_s: float) -> None:
        """Start the job that waits for JOB_START_DELAY, in ``wait_s`` seconds."""
        asyncio.get_running_loop().call_later(wait_s, self._start_reserved, claim)

    def _start_reserved(self, claim: Claim) -> None:
        with contained(_log, f"the delayed start on {claim.slot_name}", partial(self._failures.claim, claim)):
            turn = self._turns.begin()
            self._apply(claim, claim_events.StartDue(), turn)
            if turn.batch or turn.refused:
                self._turns.commit(turn)
