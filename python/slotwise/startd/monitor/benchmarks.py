"""Runs the benchmarks of BENCHMARKS_JOBLIST when a slot's RunBenchmarks is true, and advertises their results.

``mips`` and ``kflops`` are programs of HTCondor's. Where they are not installed, the kernels built in measure the same.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
from collections.abc import Mapping
from pathlib import PurePath
from typing import cast

from msgspec.structs import replace

from slotwise.clock import Clock
from slotwise.config import Config
from slotwise.cron import jobs
from slotwise.cron.jobs import BENCHMARKS, CronJob
from slotwise.startd.cron.service import Cron
from slotwise.startd.dispatcher import Dispatcher
from slotwise.startd.fingerprint import Attributes, bench
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

    def __init__(self, dispatcher: Dispatcher, clock: Clock, env: Mapping[str, str]) -> None:
        self._dispatcher, self._clock = dispatcher, clock
        self._programs = Cron(dispatcher, clock, env, BENCHMARKS)
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
            self._dispatcher.point.ads.machine.pop(attribute, None)
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

    async def _measure(self) -> Attributes | None:
        """The kernels' results. A cancelled task ends their thread with its next slice."""
        ended = threading.Event()
        try:
            return await asyncio.to_thread(bench.read, self._kernels, given_up=ended.is_set)
        finally:
            ended.set()

    async def _run(self) -> None:
        dispatcher, found = self._dispatcher, Attributes()
        try:
            if self._kernels:
                measured = await self._measure()
                if measured is None:
                    return
                found = bench.averaged(cast(Attributes, dispatcher.journal.recall("benchmarks") or {}), measured)
                dispatcher.journal.remember("benchmarks", found)
            await self._programs.demand()
        except Exception:
            _log.exception("error while running benchmarks")
        now = self._clock.now()
        dispatcher.point.ads.machine.update(found, LastBenchmark=int(now))
        for record in dispatcher.point.slots:
            dispatcher.point.ads.show(record, now)
            dispatcher.point.apply(record, ev.BenchmarksDone(), now)
        dispatcher.touch_all()
        dispatcher.flush()
