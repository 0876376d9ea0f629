"""Measures the time that jobs of users and projects run or wait, as often as the queue is counted."""

from __future__ import annotations

from slotwise.clock import Clock
from slotwise.daemon.pause import pause
from slotwise.daemon.questions import Questions
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import RUN_HERE, Status
from slotwise.schedd.jobs.from_ad import PROJECT
from slotwise.schedd.jobs.job import finite
from slotwise.schedd.users.daily_usage import DailyUsage

_STATES = (Status.IDLE, Status.RUNNING, Status.TRANSFERRING_OUTPUT)
_COUNTED = " && ".join(
    (
        f"({' || '.join(f'JobStatus == {int(status)}' for status in _STATES)})",
        *(f"JobUniverse =!= {int(universe)}" for universe in sorted(RUN_HERE)),
    )
)


class UsageMeter:
    """Adds what has passed since the last look to :class:`DailyUsage`."""

    def __init__(self, ads: JobAds, questions: Questions, clock: Clock, usage: DailyUsage) -> None:
        self._ads = ads
        self._questions = questions
        self._clock = clock
        self._usage = usage
        self._looked = clock.now()
        #: SCHEDD_INTERVAL.
        self.interval_s = 300.0

    async def run(self) -> None:
        """Look at every interval."""
        while True:
            await pause(lambda: self.interval_s)
            await self.look()

    async def look(self) -> None:
        """Count the time since the last look for the jobs as they are now."""
        now = self._clock.now()
        elapsed_s, self._looked = now - self._looked, now
        if elapsed_s <= 0:
            return
        names = ("User", PROJECT, "JobStatus", "RequestCpus")
        for user, project, status, cores, jobs in await self._questions.count_by(self._ads.table, names, _COUNTED):
            idle_cores = finite(cores, 1) if status == Status.IDLE else None
            project_key = project.lower() if isinstance(project, str) else ""
            self._usage.passed(str(user), project_key, int(finite(jobs)), idle_cores, elapsed_s, now)
