"""The keepers of runs on the access point: has them forked, hears them, and records what they report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from pathlib import Path

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.daemon.privileges import root_files
from slotwise.execution import dagman, launcher
from slotwise.execution.keeper_link import KeeperLink
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.ids import doing_for_run
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.local import ending
from slotwise.schedd.local.ends import Ends
from slotwise.schedd.local.kills import Kills
from slotwise.schedd.local.run import LocalRun, RunTable
from slotwise.schedd.local.work import RunWork
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch

_log = logging.getLogger(__name__)


class Reports:
    """What keepers report while their jobs run, recorded in the queue and the store."""

    def __init__(self, queue: Queue, ads: JobAds, committer: Committer, clock: Clock) -> None:
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock

    def executing(self, run: LocalRun) -> None:
        """The job executes; the first report counts."""
        if run.executing_at or run.over:
            return
        decision, batch = Decision(self._clock.now()), Batch()
        run.executing_at = decision.now
        run.begun.set()
        with self._committer.deciding(decision, batch):
            # Even if it was held or removed just now: its log gets that when the run is over.
            if self._queue.has(run.job):
                self._queue.executing(run.job, self._queue.address, "", {}, decision)
            if run.job.run == run.id:  # else it was removed by force
                batch.put_run(run.row())
            self._committer.commit(decision, batch)

    def suspended(self, run: LocalRun, *, resumed: bool) -> None:
        """The keeper has suspended or continued the job."""
        decision = Decision(self._clock.now())
        if resumed:
            self._queue.continued(run.job, decision)
        else:
            processes = run.keeper.usage().processes if run.keeper is not None else 0
            self._queue.suspended(run.job, processes, decision)
        if decision.changed:
            self._committer.commit(decision)

    def usage(self, table: RunTable) -> None:
        """What the jobs use, into their ads."""
        decision = Decision(self._clock.now())
        for run in table:
            if run.executing_at and run.goes_on and run.keeper is not None:
                usage = ending.usage_attributes(run.keeper.usage(), self._ads.rounding)
                self._queue.usage(run.job, usage, decision)
        if decision.changed:
            self._committer.commit(decision)


class Keepers:
    """The zygote, and a link to the keeper of each run."""

    def __init__(self, table: RunTable, reports: Reports, kills: Kills, ends: Ends, work: RunWork) -> None:
        self._table = table
        self._reports = reports
        self._kills = kills
        self._ends = ends
        self._work = work
        self._launcher: launcher.Launcher | None = None

    async def open(self, root: Path) -> None:
        """Hear the keepers of control directories in ``root``, and get ready to fork them."""
        if self._launcher is None:
            self._launcher = launcher.Launcher(root / "notices", self._notice, dagman.LOADED)
            with root_files():
                await self._launcher.start()

    def spawn(self, run: LocalRun, *, warm: bool) -> asyncio.Future[int]:
        """Have a keeper forked for a run; the answer is its process id. ``warm``: as its spec is.

        :raises HostError: (from the future) when the host cannot make a process.
        """
        assert self._launcher is not None
        return self._launcher.spawn(run.place.control, warm=warm)

    def follow(self, run: LocalRun) -> KeeperLink:
        """Listen to the keeper of a run whose control directory is complete."""
        listener = _Listener(run, self._reports, self._kills, self._ends, self._work)
        run.keeper = KeeperLink(run.id, run.place.control, listener, rights=root_files, threads=self._work.threads)
        return run.keeper

    async def close(self) -> None:
        """Follow no keepers any more."""
        for run in self._table:
            if run.keeper is not None:
                run.keeper.close()
        if self._launcher is not None:
            await self._launcher.stop()
            self._launcher = None

    def _notice(self, name: str, what: str) -> None:
        """Handle a keeper's notice. Other processes can write into the FIFO, so only its files are believed."""
        run = self._table.named(name)
        if run is None or run.over or run.keeper is None:
            return
        doing = doing_for_run(run.id, f"processing {what!r} of its keeper")
        with contained(_log, doing, partial(self._ends.failed, run)):
            run.keeper.notice(what)


class _Listener:
    """Hears the keeper of one run."""

    def __init__(self, run: LocalRun, reports: Reports, kills: Kills, ends: Ends, work: RunWork) -> None:
        self._run = run
        self._reports = reports
        self._kills = kills
        self._ends = ends
        self._work = work

    def job_started(self, pid: int) -> None:
        """The job executes."""
        self._reports.executing(self._run)
        if self._run.kill is not None and not self._run.kill_sent:
            self._kills.send(self._run)

    def job_suspended(self, *, resumed: bool) -> None:
        """The keeper has suspended or continued the job."""
        self._reports.suspended(self._run, resumed=resumed)

    def keeper_ended(self, result: KeeperResult) -> None:
        """All processes of the job are gone."""
        if self._run.over or self._work.closing:
            return
        for limit in result.unenforced:
            _log.warning("run %s: the host refused a limit: %s", self._run.id, limit)
        if result.leftovers:
            _log.error("run %s: could not remove all processes and control groups of the job", self._run.id)
        if result.started_at:
            self._reports.executing(self._run)
        self._ends.take_over(self._run, result)

    def give_up(self, error: BaseException) -> None:
        """The result could not be processed."""
        self._ends.failed(self._run, error)

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Let work go on by itself."""
        self._work.begin(work)
