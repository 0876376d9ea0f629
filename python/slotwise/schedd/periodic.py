"""Evaluates periodic policies over the whole queue: candidates are found in the table, then judged one by one."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.schedd import policy
from slotwise.schedd.ads import JobAds
from slotwise.schedd.claiming import Claiming
from slotwise.schedd.codes import Status
from slotwise.schedd.decision import Decision, Verdict
from slotwise.schedd.job import Job
from slotwise.schedd.ledger import Ledger
from slotwise.schedd.policy import JobFacts, SystemPolicy
from slotwise.schedd.queue import Queue

_log = logging.getLogger(__name__)
_OWN = ("PeriodicHold", "PeriodicRelease", "PeriodicRemove", "PeriodicVacate")


def candidates(system: SystemPolicy) -> str:
    """The constraint that no job without a due policy satisfies."""
    clauses = [f"(({text}) =!= false && ({text}) =!= undefined)" for text in (*_OWN, *system.texts())]
    clauses.append("TimerRemove =!= undefined")
    clauses.append("(AllowedJobDuration =!= undefined && JobStatus == 2)")
    clauses.append("(AllowedExecuteDuration =!= undefined && JobStatus == 2)")
    clauses.append("JobStatus == 4")
    return " || ".join(clauses)


class Periodic:
    """Runs the periodic policies."""

    def __init__(
        self, queue: Queue, ads: JobAds, ledger: Ledger, claiming: Claiming, clock: Clock, system: SystemPolicy
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._ledger = ledger
        self._claiming = claiming
        self._clock = clock
        self.system = system
        #: PERIODIC_EXPR_INTERVAL, PERIODIC_EXPR_TIMESLICE, MAX_PERIODIC_EXPR_INTERVAL.
        self.interval_s = 60.0
        self.timeslice = 0.01
        self.interval_most_s = 1200.0

    async def run(self) -> None:
        """Evaluate for ever, never spending more than the timeslice."""
        wait_s = self.interval_s
        while True:
            await asyncio.sleep(wait_s)
            began = self._clock.monotonic()
            try:
                self.evaluate()
            except Exception:
                _log.exception("error while evaluating periodic policies")
            spent = self._clock.monotonic() - began
            wait_s = self.interval_s
            if self.timeslice > 0:
                wait_s = max(wait_s, min(spent / self.timeslice, self.interval_most_s))

    def evaluate(self) -> int:
        """Evaluate once; returns how many jobs something was done to."""
        if not self._queue.clusters:
            return 0
        now = self._clock.now()
        decision = Decision(now)
        done = 0
        for key in self._ads.table.query_keys(candidates(self.system), now=int(now)):
            job = self._queue.by_key(key)
            if job is None:
                continue
            with contained(_log, f"the periodic policy of job {key}", self._sweep):
                if job.status == Status.COMPLETED and not self._ads.stays(job, now):
                    self._queue.leave(job, decision)
                    done += 1
                elif verdict := policy.periodic(self._facts(job, now), self.system):
                    done += self._carry_out(job, verdict, decision)
        if decision.changed or decision.retired or decision.kills:
            self._ledger.commit(decision)
        return done

    def _sweep(self, error: Exception) -> None:
        self._claiming.failures.sweep_due = True

    def _facts(self, job: Job, now: float) -> JobFacts:
        run = self._claiming.book.runs.get(job.run)
        return JobFacts(
            status=job.status,
            now=now,
            hold_code=int(job.number("HoldReasonCode")),
            num_holds=int(job.number("NumHolds")),
            shadow_started=run.born_at if run else 0.0,
            execution_started=run.executing_at if run else 0.0,
            last_checkpoint=float(job.number("LastCkptTime")),
            evaluate=self._ads.evaluator(job, {}, now),
            text_of=partial(self._ads.expression, job),
            evaluate_text=self._ads.text_evaluator(job, now),
        )

    def _carry_out(self, job: Job, verdict: Verdict, decision: Decision) -> bool:
        if verdict.act == "hold":
            return self._queue.hold(job, verdict.reason, verdict.code, verdict.subcode, decision)
        if verdict.act == "release":
            return self._queue.release(job, verdict.reason, decision)
        if verdict.act == "remove":
            return self._queue.remove(job, verdict.reason, decision)
        return self._queue.vacate(job, verdict.reason, verdict.code, False, decision)
