"""Takes over the ends of runs on the access point: commits what follows for the job, then removes the directories."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.errors import HostError, SlotwiseError
from slotwise.execution import launcher
from slotwise.execution.keeper_link import KeeperLink
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.ids import doing_for_run
from slotwise.model.reason_codes import Vacate
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status, Universe
from slotwise.schedd.jobs.decision import Decision, PolicyAction, RunEnd, RunOutcome
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.local import ending
from slotwise.schedd.local.directories import RunDirectories
from slotwise.schedd.local.job_views import view_at_end
from slotwise.schedd.local.keeper_spec import memory_limit
from slotwise.schedd.local.run import LocalRun, RunTable
from slotwise.schedd.local.settings import LocalSettings
from slotwise.schedd.local.work import RunWork
from slotwise.schedd.policy.at_exit import exit_verdict
from slotwise.schedd.storage.committer import Committer

_log = logging.getLogger(__name__)
#: The longest pause between attempts to kill the family of a run at which the schedd failed, in seconds.
_PAUSE_MOST_S = 60.0


class Ends:
    """Ends runs, by themselves or because the schedd failed at them."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        settings: Callable[[], LocalSettings],
        table: RunTable,
        directories: RunDirectories,
        work: RunWork,
        look: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self._settings = settings
        self._table = table
        self._directories = directories
        self._work = work
        self._look = look
        #: Called with a run that has ended, before the commit, and with one whose end is durable.
        self.on_end: Callable[[Job, Decision], None] = lambda job, decision: None
        self.on_durable: Callable[[str, Job], None] = lambda run_id, job: None

    def take_over(self, run: LocalRun, result: KeeperResult) -> None:
        """End a run as its keeper's result says."""
        job, now = run.job, self._clock.now()
        if not self._ads.has(job):  # removed by force
            self.end(run, RunEnd(RunOutcome.LOST))
            return
        if run.view is None:
            run.view = view_at_end(self._ads, job)
        end = ending.judge_end(
            run.view,
            job,
            result,
            run.kill,
            memory_limit(self._settings().limits, job.cluster.universe, self._ads.number(job, "RequestMemory")),
            rounding=self._ads.rounding,
            born_at=run.born_at,
            now=now,
        )
        if end.how.by_itself:
            signaled = end.how == RunOutcome.SIGNALED
            verdict = exit_verdict(job, signaled, end.code, end.attributes, self._ads, now)
            end = replace(end, verdict=verdict)
        self.end(run, replace(end, cool_down_s=self._cool_down_s(job, end, now)))

    def _cool_down_s(self, job: Job, end: RunEnd, now: float) -> float:
        """For how long the job is not started again, in seconds. DisableCoolDown is in HTCondor's code alone."""
        requeued = end.verdict is not None and end.verdict.act is PolicyAction.REQUEUE
        if job.cluster.universe == Universe.SCHEDULER:
            failed = requeued and end.how == RunOutcome.EXITED and end.code != 0
            cools = failed and not self._ads.truth(job, "DisableCoolDown")
            return self._settings().failure_cool_down_s if cools else 0.0
        if requeued or end.how in (RunOutcome.HELD, RunOutcome.EVICTED):
            return self._settings().cool_down.seconds(self._ads.ad(job), job, end, now)
        return 0.0

    def take_back(self, run: LocalRun) -> None:
        """End a run whose job was held, removed or vacated before it had a keeper."""
        self.end(run, RunEnd(RunOutcome.NOT_STARTED, reason="it was taken back", reason_code=int(Vacate.SCHEDD_VACATE)))

    def end(self, run: LocalRun, end: RunEnd) -> None:
        """End a run: commit what follows for its job, then remove its directories."""
        if run.over:
            return
        run.end()
        decision = Decision(self._clock.now())
        with self._committer.deciding(decision):
            self._queue.end_run(run.job, end, decision)
            completed = run.job.status == Status.COMPLETED and self._ads.has(run.job)
            if completed and not self._ads.stays(run.job, decision.now):
                self._queue.leave(run.job, decision)
            self.on_end(run.job, decision)
            self._table.forget(run)
            self.on_durable(run.id, run.job)
            self._committer.commit(decision, on_committed=lambda error: self._clear_away(run, error))
        self._look()

    def failed(self, run: LocalRun, error: BaseException) -> None:
        """Handle a fault of the schedd: kill the run's process family before its job may start again."""
        if run.over:
            return
        reason = f"The access point failed: {error.message if isinstance(error, SlotwiseError) else error}"
        if run.keeper is not None and not self._work.closing:
            run.keeper.kill()
            self._work.begin(self._end_failed(run, run.keeper, reason))
        else:
            self._abandon(run, reason)

    async def _end_failed(self, run: LocalRun, keeper: KeeperLink, reason: str) -> None:
        pause_s = 0.2
        while True:
            with contained(_log, doing_for_run(run.id, "ending it after a failure")):
                found, _ = await self._work.in_thread(partial(launcher.sweep, run.place.control))
                if found != "alive":
                    break
                keeper.kill()
            await asyncio.sleep(pause_s)
            pause_s = min(_PAUSE_MOST_S, pause_s * 2)
        self._abandon(run, reason)

    def _abandon(self, run: LocalRun, reason: str) -> None:
        run.end()
        decision = Decision(self._clock.now())
        self._queue.abandon_run(run.job, run.id, reason, decision)
        self._table.forget(run)
        self._committer.commit(decision, on_committed=lambda error: self._clear_away(run, error))

    def _clear_away(self, run: LocalRun, error: HostError | None) -> None:
        if error is None:  # else the next start cleans up
            self._work.begin(self._remove(run))

    async def _remove(self, run: LocalRun) -> None:
        with contained(_log, doing_for_run(run.id, "removing its directories")):
            await self._directories.remove(run.place)
