"""Runs the benchmarks of BENCHMARKS_JOBLIST when a slot's RunBenchmarks says so, and advertises what they found.

``mips`` and ``kflops`` are programs of HTCondor's. Where they are not installed, the kernels built in measure the same.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from slotwise.clock import Clock
from slotwise.config import Config
from slotwise.cron import jobs
from slotwise.cron.jobs import BENCHMARKS, CronJob
from slotwise.startd.cron.service import Cron
from slotwise.startd.dispatcher import Driver
from slotwise.startd.fingerprint import bench
from slotwise.startd.slot import events as ev

_log = logging.getLogger(__name__)

#: HTCondor's programs, and the attribute that the kernel in the place of one finds.
_KERNELS = {"condor_mips": "Mips", "condor_kflops": "KFlops"}


def kernel_of(job: CronJob) -> str | None:
    """The attribute that a kernel of ours finds in the place of the job's program, which is not installed."""
    attribute = _KERNELS.get(PurePath(job.executable).name)
    return attribute if attribute is not None and shutil.which(job.executable) is None else None


class Benchmarks:
    """The benchmarks of a startd. All calls come from the event loop's thread."""

    def __init__(self, driver: Driver, clock: Clock, env: Mapping[str, str]) -> None:
        self._driver, self._clock = driver, clock
        self._programs = Cron(driver, clock, env, BENCHMARKS)
        self._kernels: frozenset[str] = frozenset()
        self._task: asyncio.Task[None] | None = None

    def follow(self, config: Config) -> list[str]:
        """Run those of this configuration from now on; which of them cannot be."""
        rules = jobs.read(config, BENCHMARKS)
        kernels = {job.name: kernel_of(job) for job in rules.jobs}
        former = self._kernels
        self._kernels = frozenset(attribute for attribute in kernels.values() if attribute is not None)
        programs = tuple(job for job in rules.jobs if kernels[job.name] is None)
        for attribute in former - self._kernels:
            self._driver.point.machine.pop(attribute, None)
        self._programs.follow(config, replace(rules, jobs=programs))
        return list(rules.faults)

    def want(self, run: bool) -> None:
        """A slot wants the benchmarks to run, or to be given up."""
        if not run:
            if self._task is not None:
                self._task.cancel()
        elif self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Give up what runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._programs.stop()

    async def _run(self) -> None:
        driver, found = self._driver, dict[str, Any]()
        try:
            if self._kernels:
                measured = await asyncio.to_thread(bench.read, self._kernels)
                found = bench.averaged(driver.journal.recall("benchmarks") or {}, measured)
                driver.journal.remember("benchmarks", found)
            await self._programs.demand()
        except Exception:
            _log.exception("error while running benchmarks")
        now = self._clock.now()
        driver.point.machine.update(found, LastBenchmark=int(now))
        for h in list(driver.point.holdings.values()):
            driver.point.show(h, now)
            driver.point.happen(h, ev.BenchmarksDone(), now)
        driver.touch_all()
        driver.flush()
