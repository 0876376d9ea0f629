"""Takes up the runs that a former schedd left on the access point.

Each step of a run is durable before the next. A run is committed before its keeper is forked, and its end before its
control directory is removed. A starting schedd therefore finds the runs in the queue, and what became of them in their
control directories: it follows keepers that are alive, takes over results, kills the process families of keepers that
died, and forks keepers for runs that were only committed. A keeper's lock prevents that a run is forked twice.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from slotwise.clock import Clock
from slotwise.execution import launcher
from slotwise.execution.keeper_link import KeeperLink
from slotwise.ids import doing_for_run
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.local import ending
from slotwise.schedd.local.directories import RunDirectories
from slotwise.schedd.local.ends import Ends
from slotwise.schedd.local.keepers import Keepers, Reports
from slotwise.schedd.local.kills import Kills
from slotwise.schedd.local.launches import Launches
from slotwise.schedd.local.run import LocalRun, RunTable
from slotwise.schedd.local.work import RunWork
from slotwise.schedd.policy.evict_transforms import kill_owed
from slotwise.schedd.storage.store import StoredLocalRun


class Recovery:
    """Finds out what became of each run, and continues from there."""

    def __init__(
        self,
        queue: Queue,
        clock: Clock,
        table: RunTable,
        directories: RunDirectories,
        launches: Launches,
        keepers: Keepers,
        reports: Reports,
        kills: Kills,
        ends: Ends,
        work: RunWork,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._table = table
        self._directories = directories
        self._launches = launches
        self._keepers = keepers
        self._reports = reports
        self._kills = kills
        self._ends = ends
        self._work = work

    async def recover(self, stored: list[StoredLocalRun]) -> None:
        """Take up the stored runs, and end what belongs to none of them.

        :raises HostError: when others may write to LOCAL_UNIV_EXECUTE, or no place is the schedd's alone.
        :raises OSError: when the file system refuses.
        """
        if not stored and await self._directories.is_unused():
            return
        root = await self._directories.open()
        await self._keepers.open(root)
        for row in stored:
            run = self._stored(row)
            if run is not None:
                self._table.add(run)
        await self._directories.clear(self._table.names())
        for run in list(self._table):
            doing = doing_for_run(run.id, "taking it up again")
            self._work.begin_contained(doing, partial(self._take_up, run), partial(self._ends.failed, run))

    def _stored(self, row: StoredLocalRun) -> LocalRun | None:
        job = self._queue.job(row.cluster, row.proc)
        if job is None or job.run != row.run_id:
            return None
        # SLOTWISE_CONTROL_DIR or the user's session may have been different then.
        place = self._directories.place(row.run_id, root=Path(row.control_root) if row.control_root else None)
        run = LocalRun(row.run_id, job, row.born_at or self._clock.now(), place, row.executing_at)
        run.kill = kill_owed(job)
        return run

    async def _take_up(self, run: LocalRun) -> None:
        if not await self._directories.is_laid_out(run.place):
            await self._launch_late(run)
            return
        keeper = self._keepers.follow(run)
        pid = await self._work.in_thread(partial(launcher.holder, run.place.control))
        if pid:
            self._adopt(run, keeper, pid)
        else:
            await keeper.find_out()

    async def _launch_late(self, run: LocalRun) -> None:
        """Handle a run without control directory: the schedd died right after the commit, or the host was restarted."""
        if run.executing_at:
            self._ends.end(run, ending.lost(run.job, "The host of the access point was restarted"))
        else:
            await self._launches.launch(run)

    def _adopt(self, run: LocalRun, keeper: KeeperLink, pid: int) -> None:
        found = keeper.adopt()
        if found.pid:
            self._reports.executing(run)
            self._reports.suspended(run, resumed=not found.suspended)
        keeper.watch(pid)
        if run.kill is not None:
            self._kills.send(run)
