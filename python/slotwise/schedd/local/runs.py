"""Runs of jobs on the access point: the parts that start them, follow their keepers and take over their ends.

What survives the schedd, and how the next one goes on from there, is in :mod:`slotwise.schedd.local.recovery`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterable
from concurrent.futures import Executor

from slotwise.clock import Clock
from slotwise.daemon import tasks
from slotwise.daemon.containment import contained
from slotwise.errors import HostError
from slotwise.model.reason_codes import Vacate
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import Kill
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.local.counts import LocalCounts
from slotwise.schedd.local.directories import RunDirectories
from slotwise.schedd.local.ends import Ends
from slotwise.schedd.local.keepers import Keepers, Reports
from slotwise.schedd.local.kills import Kills
from slotwise.schedd.local.launches import Launches
from slotwise.schedd.local.recovery import Recovery
from slotwise.schedd.local.run import LocalRun, RunTable
from slotwise.schedd.local.settings import LocalSettings
from slotwise.schedd.local.starts import Starts
from slotwise.schedd.local.work import RunWork
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import StoredLocalRun

_log = logging.getLogger(__name__)
#: How often waiting jobs are reconsidered when nothing happens, in seconds: their conditions may depend on the time.
_LOOK_S = 60.0
#: How often usage is written into the ads of running jobs, in seconds.
_USAGE_S = 300.0
#: The time that jobs have to exit when the schedd shuts down with its jobs, and to be gone once killed, in seconds.
_PARTING_S, _LAST_S = 30, 8.0


class LocalRuns:
    """All runs on this access point."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        threads: Executor,
        settings: LocalSettings,
        own_ad: Callable[[], Changes],
        pool: dict[str, str],
    ) -> None:
        self._queue = queue
        self._clock = clock
        self.settings = settings
        self._table = RunTable()
        self._look = asyncio.Event()
        self._work = work = RunWork(threads)
        self.counts = LocalCounts(queue, self._table)
        self.directories = RunDirectories(self._current, work)
        self.ends = Ends(queue, ads, committer, clock, self._current, self._table, self.directories, work, self.look)
        self._kills = Kills(ads)
        self._reports = Reports(queue, ads, committer, clock)
        self._keepers = Keepers(self._table, self._reports, self._kills, self.ends, work)
        self._launches = Launches(
            ads, self._current, self.directories, self._keepers, self._kills, self.ends, work, pool
        )
        self.starts = Starts(
            queue,
            ads,
            committer,
            clock,
            self._current,
            own_ad,
            self._table,
            self.counts,
            self.directories,
            self._launches.begin,
        )
        self._recovery = Recovery(
            queue,
            clock,
            self._table,
            self.directories,
            self._launches,
            self._keepers,
            self._reports,
            self._kills,
            self.ends,
            work,
        )

    def _current(self) -> LocalSettings:
        return self.settings

    @property
    def runs(self) -> dict[str, LocalRun]:
        """Runs by their ids."""
        return self._table.by_id

    def configure(self, settings: LocalSettings) -> None:
        """Apply new knobs to jobs that start from now on; directories change with a restart."""
        self.settings = settings
        self._launches.forget_host()
        self.look()

    def look(self) -> None:
        """Reconsider waiting jobs: some may start now."""
        if self._queue.runnable.here:
            self._look.set()

    def stop(self, kills: Iterable[Kill]) -> None:
        """Carry out those kills that are of runs here."""
        for kill in kills:
            run = self.runs.get(kill.run_id)
            if run is not None and not run.over:
                self._kills.request(run, kill)

    def suspend(self, run_id: str, *, resume: bool) -> bool:
        """Have a run's keeper suspend the job, or continue it; false when there is no keeper to ask."""
        run = self.runs.get(run_id)
        return run is not None and run.keeper is not None and run.keeper.suspend(resume=resume)

    async def take_over(self, stored: list[StoredLocalRun]) -> None:
        """Take over what a former process left, then start jobs until cancelled.

        :param stored: runs of jobs that run here.
        """
        try:
            await self._recovery.recover(stored)
        except (OSError, HostError) as error:
            _log.error("could not recover jobs of the scheduler and local universes; starting none: %s", error)
            return
        except Exception:
            _log.exception("could not recover jobs of the scheduler and local universes; starting none")
            return
        await tasks.keep("starting jobs on the access point", self._start_jobs)

    async def _start_jobs(self) -> None:
        reported_at = self._clock.monotonic()
        rest_s = math.inf
        self._look.set()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(_LOOK_S, rest_s)):
                    await self._look.wait()
            self._look.clear()
            rest_s = math.inf
            with contained(_log, "starting jobs on the access point"):
                rest_s = await self.starts.start_waiting()
            if self._clock.monotonic() >= reported_at + _USAGE_S:
                reported_at = self._clock.monotonic()
                with contained(_log, "updating the usage of jobs on the access point"):
                    self._reports.usage(self._table)

    async def close(self, *, end: str) -> None:
        """Stop following keepers: their jobs keep running, unless they are to end with the schedd.

        :param end: "" to leave them running; "graceful" to ask them to exit, "fast" to kill them.
        """
        self.starts.stop()
        if end:
            await self._end_all(fast=end == "fast")
        await self._work.close()
        await self._keepers.close()
        self.directories.discard()

    async def _end_all(self, *, fast: bool) -> None:
        for run in self._table:
            kill = Kill(run.id, fast, "The access point was shut down", int(Vacate.SCHEDD_VACATE))
            self._kills.part(run, kill, _PARTING_S)
        deadline = self._clock.monotonic() + (_LAST_S if fast else _PARTING_S + _LAST_S)
        while self.runs and self._clock.monotonic() < deadline:
            await asyncio.sleep(0.02)
