"""Evaluates periodic policies over the whole queue: finds candidates in the table, then evaluates them one by one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.daemon.pause import pause
from slotwise.model.reason_codes import Hold
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision, PolicyAction, Verdict
from slotwise.schedd.jobs.dependents import Dependents
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.policy import expressions
from slotwise.schedd.policy.expressions import JobState, SystemPolicy
from slotwise.schedd.storage.committer import Committer
from slotwise.table import Allowance

_log = logging.getLogger(__name__)
#: Steps for finding jobs whose policy may fire; beyond these, all jobs are evaluated.
_FIND_STEPS = 10_000_000
#: Steps that the policy of one job may take, those of a user's jobs in one pass, and those between two looks at other
#: work; judging a job costs something in any case.
_JOB_STEPS, _USER_STEPS, _SLICE_STEPS, _JUDGING = 200_000, 20_000_000, 500_000, 2_000
#: How long the policy of a job that takes more is skipped, in seconds.
_SKIPPED_S = 3600.0
_OWN = ("PeriodicHold", "PeriodicRelease", "PeriodicRemove", "PeriodicVacate")


def quiet(system: SystemPolicy) -> str:
    """The constraint that only jobs satisfy for which no policy fires."""
    clauses = [f"(({text}) =?= false || ({text}) =?= undefined)" for text in (*_OWN, *system.texts())]
    clauses.append("TimerRemove =?= undefined")
    clauses.append("(AllowedJobDuration =?= undefined || JobStatus != 2)")
    clauses.append("(AllowedExecuteDuration =?= undefined || JobStatus != 2)")
    clauses.append("JobStatus != 4")
    return " && ".join(clauses)


class RunTimes(Protocol):
    """When a run began and when its job began to execute, seconds since the epoch; 0: not yet."""

    @property
    def born_at(self) -> float:
        """The beginning of the run."""

    @property
    def executing_at(self) -> float:
        """The beginning of the job's execution."""


class Periodic:
    """Runs the periodic policies.

    :param run_of: the run of an id, or None.
    :param sweep: called after a failure, which may have left jobs in an inconsistent state.
    """

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        system: SystemPolicy,
        *,
        run_of: Callable[[str], RunTimes | None],
        sweep: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._run_of = run_of
        self._sweep = sweep
        self._clock = clock
        self._dependents = Dependents(queue, ads)
        self.system = system
        #: PERIODIC_EXPR_INTERVAL, PERIODIC_EXPR_TIMESLICE, MAX_PERIODIC_EXPR_INTERVAL.
        self.interval_s = 60.0
        self.timeslice = 0.01
        self.interval_most_s = 1200.0
        #: Jobs whose own policies are skipped, and until when.
        self._skipped: dict[str, float] = {}

    async def run(self) -> None:
        """Evaluate until cancelled, within the timeslice and without blocking the event loop."""
        spent = 0.0

        def wait_s() -> float:
            most_s = min(spent / self.timeslice, self.interval_most_s) if self.timeslice > 0 else 0.0
            return max(self.interval_s, most_s)

        while True:
            await pause(wait_s)
            spent = 0.0
            try:
                slices = self.slices()
                while True:
                    began = self._clock.monotonic()
                    more = next(slices, None)
                    spent += self._clock.monotonic() - began
                    if more is None:
                        break
                    await asyncio.sleep(0)
            except Exception:
                _log.exception("error while evaluating periodic policies")

    def evaluate(self) -> int:
        """Evaluate once; returns the number of jobs that were acted on."""
        return sum(self.slices())

    def slices(self) -> Iterator[int]:
        """Evaluate once, in slices; each yields the number of jobs that were acted on.

        Steps are limited for each job, and for all jobs of a user. The policy of a job that exceeds them is skipped
        for a while, and the job is held.
        """
        if not self._queue.clusters:
            return
        began = self._clock.now()
        self._skipped = {key: until for key, until in self._skipped.items() if until > began}
        spent: dict[str, int] = {}
        keys = iter(self._ads.table.other_keys(_FIND_STEPS, quiet(self.system), now=int(began)))
        more = True
        while more:
            decision, done, steps = Decision(self._clock.now()), 0, 0
            for key in keys:
                job = self._queue.by_key(key)
                if job is None or spent.get(job.cluster.user, 0) > _USER_STEPS:
                    continue
                doing = f"{key}: evaluating its periodic policy"
                with contained(_log, doing, self._failed), Allowance(_FIND_STEPS) as used:
                    done += self._judge(job, decision)
                steps += used.used + _JUDGING
                spent[job.cluster.user] = spent.get(job.cluster.user, 0) + used.used
                if steps > _SLICE_STEPS:
                    break
            else:
                more = False
            if decision.changed or decision.retired or decision.kills:
                self._committer.commit(decision)
            yield done

    def _judge(self, job: Job, decision: Decision) -> bool:
        now = decision.now
        if job.status == Status.COMPLETED and not self._ads.stays(job, now):
            self._queue.leave(job, decision)
            self._dependents.remove(decision)
            return True
        state = self._state_of(job, now)
        verdict = None
        if job.key not in self._skipped:
            with Allowance(_JOB_STEPS) as used:
                verdict = expressions.periodic(state, self.system)
            if not used.broken:
                return verdict is not None and self._carry_out(job, verdict, decision)
            verdict = self._skip(job, decision)
        # The administrator's policies apply to such a job all the same.
        with Allowance(_JOB_STEPS):
            verdict = expressions.periodic(replace(state, evaluate=lambda name: None), self.system) or verdict
        return verdict is not None and self._carry_out(job, verdict, decision)

    def _skip(self, job: Job, decision: Decision) -> Verdict:
        """Skip the job's own policy for a while, and hold the job so that its owner learns of it."""
        self._skipped[job.key] = decision.now + _SKIPPED_S
        reason = f"The job's periodic policy takes more than {_JOB_STEPS} steps to evaluate"
        decision.set(job, {"PeriodicPolicySkipped": f"{reason}; it is evaluated again after {_SKIPPED_S:.0f} s"})
        decision.note("%s: %s; it is skipped for %d s", job.key, reason, _SKIPPED_S)
        return Verdict(PolicyAction.HOLD, reason, int(Hold.JOB_POLICY_UNDEFINED))

    def _failed(self, error: Exception) -> None:
        self._sweep()

    def _state_of(self, job: Job, now: float) -> JobState:
        run = self._run_of(job.run)
        return JobState(
            status=job.status,
            now=now,
            hold_code=int(job.number("HoldReasonCode")),
            shadow_started=run.born_at if run else 0.0,
            execution_started=run.executing_at if run else 0.0,
            last_checkpoint=float(job.number("LastCkptTime")),
            evaluate=self._ads.evaluator(job, {}, now),
            text_of=partial(self._ads.expression, job),
            evaluate_text=self._ads.text_evaluator(job, now),
        )

    def _carry_out(self, job: Job, verdict: Verdict, decision: Decision) -> bool:
        if verdict.act == PolicyAction.HOLD:
            return self._queue.hold(job, verdict.reason, verdict.code, verdict.subcode, decision)
        if verdict.act == PolicyAction.RELEASE:
            return self._queue.release(job, verdict.reason, decision)
        if verdict.act == PolicyAction.REMOVE:
            done = self._queue.remove(job, verdict.reason, decision, by_policy=True)
            self._dependents.remove(decision)
            return done
        return self._queue.vacate(job, verdict.reason, verdict.code, False, decision)
