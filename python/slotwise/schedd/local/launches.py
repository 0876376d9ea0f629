"""Launches runs on the access point whose start is committed: directories, then a keeper."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from slotwise import ids
from slotwise.classad.long_form import long_form
from slotwise.errors import HostError, UsageError
from slotwise.execution.cgroup.probe import CgroupHost, probe
from slotwise.ids import doing_for_run
from slotwise.model.reason_codes import Hold
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.local import ending
from slotwise.schedd.local.directories import RunDirectories
from slotwise.schedd.local.ends import Ends
from slotwise.schedd.local.identity import identity_of
from slotwise.schedd.local.job_views import read_view
from slotwise.schedd.local.keeper_spec import Surroundings, compose, memory_limit
from slotwise.schedd.local.keepers import Keepers
from slotwise.schedd.local.kills import Kills
from slotwise.schedd.local.run import LocalRun
from slotwise.schedd.local.settings import LocalSettings
from slotwise.schedd.local.work import RunWork

_log = logging.getLogger(__name__)
#: How long a launch waits for the job before it to execute; a keeper takes some milliseconds for that.
_TURN_S = 1.0


class Launches:
    """Creates the directories of a run and has its keeper forked. ``pool``: environment for a job's commands.

    Jobs begin to execute in the order of their starts, as their logs show in HTCondor, whose schedd starts them itself.
    """

    def __init__(
        self,
        ads: JobAds,
        settings: Callable[[], LocalSettings],
        directories: RunDirectories,
        keepers: Keepers,
        kills: Kills,
        ends: Ends,
        work: RunWork,
        pool: dict[str, str],
    ) -> None:
        self._ads = ads
        self._settings = settings
        self._directories = directories
        self._keepers = keepers
        self._kills = kills
        self._ends = ends
        self._work = work
        self._pool = pool
        self._cgroups: CgroupHost | None = None
        self._latest: LocalRun | None = None

    def forget_host(self) -> None:
        """Look at the host's control groups again before the next launch: knobs have changed."""
        self._cgroups = None

    def begin(self, run: LocalRun) -> None:
        """Launch a run in the background; when that fails, it is over and its job has a cool-down."""
        doing = doing_for_run(run.id, "starting it")
        before, self._latest = self._latest, run
        self._work.begin_contained(doing, partial(self.launch, run, before), partial(self._ends.failed, run))

    async def launch(self, run: LocalRun, before: LocalRun | None = None) -> None:
        """Launch a run, unless its job is not meant to run any more; not ahead of the run ``before``."""
        if not run.goes_on:
            self._ends.take_back(run)
            return
        root = await self._directories.open()
        await self._keepers.open(root)
        run.place = self._directories.place(run.id)
        job, settings = run.job, self._settings()
        try:
            who = identity_of(job.cluster.user, job.account, settings.least_uid)
            run.view = read_view(self._ads, job)
        except HostError as error:
            self._ends.end(run, ending.unfit(f"{error.message}: {error.hint}", Hold.FAILED_TO_ACCESS_USER_ACCOUNT))
            return
        except UsageError as error:
            self._ends.end(run, ending.unfit(error.message, Hold.FAILED_TO_CREATE_PROCESS))
            return
        universe, around = job.cluster.universe, await self._surroundings(root)
        memory = memory_limit(settings.limits, universe, self._ads.number(job, "RequestMemory"))
        batch = job.cluster.batch_name
        spec = compose(run.view, universe, who, run.place, around, memory, secret=ids.secret(), batch=batch)
        ad = long_form(self._ads.ad(job)) or "\n"
        await self._directories.lay_out(run.place, universe, who, ad, spec)
        if before is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TURN_S):
                    await before.begun.wait()
        keeper = self._keepers.follow(run)
        keeper.watch(await self._keepers.spawn(run, warm=spec.warm))
        if run.kill is not None:
            self._kills.send(run)

    async def _surroundings(self, root: Path) -> Surroundings:
        settings = self._settings()
        if self._cgroups is None:
            look = partial(
                probe,
                settings.base_cgroup,
                is_root=ending.is_root(),
                without_root=settings.cgroup_without_root,
                version=settings.cgroup_version,
            )
            self._cgroups = await self._work.in_thread(look)
        assert self._cgroups is not None
        # The directory's name identifies this access point's SPOOL.
        notices, prefix = root / "notices", f"{root.name}_"
        return Surroundings(settings.limits, self._cgroups, notices, prefix, self._pool, settings.dagman)
