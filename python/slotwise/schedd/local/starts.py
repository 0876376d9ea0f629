"""Which waiting jobs start on the access point, and the commit of their start."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import Callable

from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.errors import HostError
from slotwise.model.reason_codes import Hold
from slotwise.schedd.jobs.ads import JobAds, native
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.local.counts import LocalCounts
from slotwise.schedd.local.directories import RunDirectories
from slotwise.schedd.local.identity import identity_of
from slotwise.schedd.local.job_views import JOB_STEPS
from slotwise.schedd.local.run import LocalRun, RunTable
from slotwise.schedd.local.settings import LocalSettings
from slotwise.schedd.local.start_rules import StartPace
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch
from slotwise.table import Allowance

_log = logging.getLogger(__name__)
#: Evaluation steps for a slice of all jobs, and the fixed cost of each.
_SLICE_STEPS, _JUDGING = 500_000, 2_000


class Starts:
    """Starts waiting jobs; each start is committed before ``launch`` is called with the run."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        settings: Callable[[], LocalSettings],
        own_ad: Callable[[], Changes],
        table: RunTable,
        counts: LocalCounts,
        directories: RunDirectories,
        launch: Callable[[LocalRun], None],
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self._settings = settings
        self._own_ad = own_ad
        self._table = table
        self._counts = counts
        self._directories = directories
        self._launch = launch
        #: Whether MaxJobsRunning of the user and the project of a cluster lets another of its jobs run.
        self.has_room: Callable[[Cluster], bool] = lambda cluster: True
        self._pace = StartPace()
        self._stopped = False

    def stop(self) -> None:
        """Start no more jobs."""
        self._stopped = True

    async def start_waiting(self) -> float:
        """Start all jobs that may start, best first.

        Returns in how many seconds one of them may that has started only just now; infinity if there is none.
        """
        waiting = sorted(self._queue.runnable.here, key=lambda job: (job.priority, job.cluster.number, job.proc))
        schedd = ClassAd(native({**self._own_ad(), **self._counts.total()}))
        running = Counter(run.job.cluster.user for run in self._table if run.is_scheduler)
        steps, rest_s = 0, math.inf
        for job in waiting:
            if steps > _SLICE_STEPS:
                steps = 0
                await asyncio.sleep(0)
            if self._stopped:
                break
            waits = self._queue.has(job) and job.status == Status.IDLE and not job.run and not job.awaits
            if not waits or not self.has_room(job.cluster):
                continue
            if (left_s := self._pace.rest_s(job.key, self._clock.monotonic())) > 0:
                rest_s = min(rest_s, left_s)
                continue
            with contained(_log, f"{job.key}: starting it on the access point"):
                user, ad, may_start = job.cluster.user, self._ads.ad(job), False
                with contextlib.suppress(ValueError), Allowance(JOB_STEPS) as spent:
                    rules = self._settings().rules
                    may_start = rules.may_start(ad, job.cluster.universe, schedd, running[user])
                steps += spent.used + _JUDGING
                if spent.broken:
                    # Evaluated again and again, it would block the schedd.
                    reason = f"The conditions of the job's start take more than {JOB_STEPS} steps to evaluate"
                    self._hold(job, reason, Hold.JOB_POLICY_UNDEFINED)
                elif may_start:
                    started = self._start(job)
                    running[user] += started is not None and started.is_scheduler
                    schedd.update(native(self._counts.total()))
        return rest_s

    def _start(self, job: Job) -> LocalRun | None:
        """Commit the start of a job; its keeper is forked once that is durable. None: the job is held."""
        try:
            identity_of(job.cluster.user, job.account, self._settings().least_uid)
        except HostError as error:
            self._hold(job, f"{error.message}: {error.hint}", Hold.FAILED_TO_ACCESS_USER_ACCOUNT)
            return None
        decision, batch = Decision(self._clock.now()), Batch()
        number = int(job.number("NumShadowStarts")) + 1
        run_id = f"{job.key}#{number}"
        run = LocalRun(run_id, job, decision.now, self._directories.place(run_id))
        self._queue.begin_run(job, run.id, {}, decision)
        self._pace.started(job.key, self._clock.monotonic())
        self._table.add(run)
        batch.put_run(run.row())
        self._committer.commit(decision, batch, on_committed=lambda error: self._committed(run, error))
        return run

    def _hold(self, job: Job, reason: str, code: Hold) -> None:
        decision = Decision(self._clock.now())
        self._queue.hold(job, reason, int(code), 0, decision)
        self._committer.commit(decision)

    def _committed(self, run: LocalRun, error: HostError | None) -> None:
        if error is None and not self._stopped:
            self._launch(run)
