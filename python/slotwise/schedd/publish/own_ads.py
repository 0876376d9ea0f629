"""The ads of the access point and its submitters: what the collector gets, and what conditions see as the schedd's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from typing import Protocol

from slotwise.daemon.ad import daemon_ad
from slotwise.daemon.runtime import DaemonContext
from slotwise.release import CONDOR_VERSION, condor_platform
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.values import Changes, Expr
from slotwise.schedd.local.settings import LocalSettings
from slotwise.schedd.publish.statistics import Statistics

#: How old an ad may be that conditions see that are asked very often, in seconds.
_CONDITIONS_S = 1.0


class JobCounts(Protocol):
    """How many jobs there are in the queue."""

    @property
    def owned(self) -> Mapping[str, int]:
        """Jobs by their user."""

    def counts(self) -> list[int]:
        """Jobs by JobStatus."""


class Submitters(Protocol):
    """Who has jobs here that wait or run on slots."""

    @property
    def autoclusters(self) -> Sized:
        """The autoclusters of waiting jobs."""

    def submitter_ads(self) -> dict[str, Changes]:
        """An ad for each submitter, by ``Name#ScheddName``."""


class ShownSettings(Protocol):
    """The settings that the schedd's ad shows. ``advertised``: SCHEDD_ATTRS."""

    @property
    def name(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def jobs_running_most(self) -> int: ...
    @property
    def jobs_most(self) -> int: ...
    @property
    def jobs_per_owner_most(self) -> int: ...
    @property
    def jobs_per_submission_most(self) -> int: ...
    @property
    def local(self) -> LocalSettings: ...
    @property
    def advertised(self) -> Changes: ...


class OwnAds:
    """Composes the ads from what the parts of the schedd count.

    :param birthdate: when the queue was made (JobQueueBirthdate), in epoch seconds.
    :param counts_here: attributes with the numbers of jobs on the access point itself.
    :param found_by_cron: attributes that the schedd's cron jobs have found out.
    """

    def __init__(
        self,
        context: DaemonContext,
        settings: ShownSettings,
        birthdate: int,
        *,
        jobs: JobCounts,
        submitters: Submitters,
        statistics: Statistics,
        counts_here: Callable[[], Changes],
        found_by_cron: Callable[[], Changes],
    ) -> None:
        self._context = context
        self.settings = settings
        self._birthdate = birthdate
        self._jobs = jobs
        self._submitters = submitters
        self._statistics = statistics
        self._counts_here = counts_here
        self._found_by_cron = found_by_cron
        self._cached_at, self._cached = -10.0, Changes()

    def scheduler(self) -> Changes:
        """The schedd's ad."""
        return {**self.without_cron(), **self._found_by_cron()}

    def for_conditions(self) -> Changes:
        """The same for conditions that are asked very often: all but counts of jobs may be a second old."""
        now = self._context.clock.monotonic()
        if not 0 <= now - self._cached_at < _CONDITIONS_S:
            self._cached_at, self._cached = now, self.scheduler()
        return {**self._cached, **self._counts()}

    def without_cron(self) -> Changes:
        """The schedd's ad as conditions of cron jobs see it."""
        settings, address = self.settings, self._context.address
        return {
            **settings.advertised,
            **daemon_ad(self._context, "Scheduler", name=settings.name),
            "Machine": settings.host,
            "ScheddIpAddr": address.target,
            "JobQueueBirthdate": self._birthdate,
            **self._counts(),
            "MaxJobsRunning": settings.jobs_running_most,
            "MaxJobsSubmitted": settings.jobs_most,
            "MaxJobsPerOwner": settings.jobs_per_owner_most,
            "MaxJobsPerSubmission": settings.jobs_per_submission_most,
            "Autoclusters": len(self._submitters.autoclusters),
            "TotalFlockedJobs": 0,  # there is no flocking
            **self._start_conditions(),
            **self._statistics.attributes(),
        }

    def _counts(self) -> Changes:
        counts = self._jobs.counts()
        users = sum(1 for jobs in self._jobs.owned.values() if jobs)
        return {
            **self._counts_here(),
            "TotalRunningJobs": counts[Status.RUNNING] + counts[Status.TRANSFERRING_OUTPUT] + counts[Status.SUSPENDED],
            "TotalIdleJobs": counts[Status.IDLE],
            "TotalHeldJobs": counts[Status.HELD],
            "TotalRemovedJobs": counts[Status.REMOVED],
            "TotalJobAds": sum(counts),
            "NumOwners": users,
            "NumUsers": users,
        }

    def _start_conditions(self) -> Changes:
        rules = self.settings.local.rules
        found: Changes = {"MaxRunningSchedulerJobsPerOwner": rules.scheduler_most}
        if rules.local is not None:
            found["StartLocalUniverse"] = Expr(str(rules.local))
        if rules.scheduler is not None:
            found["StartSchedulerUniverse"] = Expr(str(rules.scheduler))
        return found

    def advertised(self) -> dict[str, dict[str, Changes]]:
        """What the collector gets: ads by kind and key."""
        added = {**self.settings.advertised, **self._found_by_cron()}
        shared: Changes = {
            "CondorVersion": CONDOR_VERSION,
            "CondorPlatform": condor_platform(),
            "DaemonStartTime": self._context.address.started_at,
            "JobQueueBirthdate": self._birthdate,
        }
        submitters: dict[str, Changes] = {}
        for key, ad in self._submitters.submitter_ads().items():
            counted = self._statistics.of_submitter(str(ad["Name"]))
            submitters[key] = {**counted, "JobsRunning": ad["RunningJobs"], **shared, **added, **ad}
        return {"Scheduler": {self.settings.name: self.scheduler()}, "Submitter": submitters}
