"""The runtimes of this host together: probed, chosen from, swept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence

from slotwise.classad import ClassAd
from slotwise.classad.values import Value
from slotwise.execution.keeper_spec import KeeperResult, KeeperSpec
from slotwise.starter.job.choice import NONE, Choice
from slotwise.starter.runtimes.choice import ChoiceRules, choose
from slotwise.starter.runtimes.runtime import (
    REGISTRIES_OFFLINE,
    ContainerJob,
    ContainerRun,
    Entrance,
    Progress,
    Runtime,
)

_log = logging.getLogger(__name__)


class Runtimes:
    """All runtimes of the host. For the event loop's thread."""

    def __init__(self, drivers: Sequence[Runtime], rules: ChoiceRules) -> None:
        self._rules = rules
        self._drivers = {driver.name: driver for driver in drivers}

    async def probe(self) -> None:
        """Find out what works."""
        await asyncio.gather(*(driver.probe() for driver in self._drivers.values()))
        for driver in self._drivers.values():
            found = driver.offer
            if found.works:
                _log.info("%s works: %s", driver.name, found.version)
            elif found.reason:
                _log.warning("%s does not work: %s", driver.name, found.reason)

    @property
    def working(self) -> tuple[str, ...]:
        """Names of those that work."""
        return tuple(name for name, driver in self._drivers.items() if driver.offer.works)

    def attributes(self) -> dict[str, Value]:
        """For the machine ad. What one of them can (HasContainer), the host can, whatever another says."""
        found: dict[str, Value] = {}
        for driver in self._drivers.values():
            offer = driver.offer.attributes
            offline = [text for ads in (found, offer) if isinstance(text := ads.get(REGISTRIES_OFFLINE), str)]
            found |= {name: value for name, value in offer.items() if found.get(name) is not True}
            if offline:
                names = ", ".join(offline).split(", ")
                found[REGISTRIES_OFFLINE] = ", ".join(sorted(set(names)))
        return found

    def gaps(self) -> tuple[str, ...]:
        """What is not enforced on jobs in them."""
        return tuple(gap for driver in self._drivers.values() if driver.offer.works for gap in driver.offer.gaps)

    def choose(self, job: ClassAd, machine: ClassAd, *, wrapper: bool) -> Choice:
        """The runtime of a job; see :func:`slotwise.starter.runtimes.choice.choose`."""
        return choose(job, machine, self._rules, self.working, wrapper=wrapper)

    async def prepare(self, job: ContainerJob, progress: Progress) -> ContainerJob:
        """Make the job's image available; see :class:`Runtime`."""
        if job.choice.runtime == NONE:
            return job
        return await self._drivers[job.choice.runtime].prepare(job, progress)

    def compose(self, spec: KeeperSpec, job: ContainerJob) -> KeeperSpec:
        """The spec with which the keeper runs the job."""
        if job.choice.runtime == NONE:
            return spec
        return self._drivers[job.choice.runtime].compose(spec, job)

    def inside(self, run: ContainerRun) -> Entrance | None:
        """How a visitor enters the job's view."""
        driver = self._drivers.get(run.choice.runtime)
        return Entrance(pid=run.pid) if driver is None else driver.inside(run)

    async def describe(self, run: ContainerRun, job_ad: ClassAd) -> Mapping[str, Value]:
        """Attributes of the job that are known once it runs."""
        driver = self._drivers.get(run.choice.runtime)
        return {} if driver is None else await driver.describe(run, job_ad)

    async def usage(self, run: ContainerRun) -> Mapping[str, Value]:
        """What only the runtime can measure of a running job."""
        driver = self._drivers.get(run.choice.runtime)
        return {} if driver is None else await driver.usage(run)

    async def conclude(self, run: ContainerRun, result: KeeperResult) -> KeeperResult:
        """The keeper's result, as the runtime sees it; nothing is left of the container."""
        driver = self._drivers.get(run.choice.runtime)
        return result if driver is None else await driver.conclude(run, result)

    async def sweep(self, live: Collection[str]) -> None:
        """Remove what is left of runs that are gone."""
        for driver in self._drivers.values():
            for problem in await driver.sweep(live):
                _log.error("%s: left over: %s", driver.name, problem)
