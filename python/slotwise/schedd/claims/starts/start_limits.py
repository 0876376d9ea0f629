"""How many jobs may start now, and which.

START_VANILLA_UNIVERSE, MAX_JOBS_RUNNING, and MaxJobsRunning of users and projects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial

from slotwise.classad import ClassAd
from slotwise.schedd.claims.records import ClaimTable
from slotwise.schedd.jobs.ads import JobAds, native
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.policy.start import StartPolicy, owner_ad
from slotwise.schedd.storage.batch import RecordKind
from slotwise.schedd.users.running_limits import Limited, RunningLimits, holds_for


class StartLimits:
    """Decides whether a job may start now, apart from whether a slot fits it."""

    #: START_VANILLA_UNIVERSE.
    policy = StartPolicy(None)
    #: MAX_JOBS_RUNNING.
    jobs_running_most = 10_000

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        claim_table: ClaimTable,
        *,
        own_ad: Callable[[], Changes],
        running: RunningLimits,
    ) -> None:
        """
        :param own_ad: the schedd's own ad, as START_VANILLA_UNIVERSE sees it.
        :param running: how many jobs of users and projects may run at a time.
        """
        self._queue = queue
        self._ads = ads
        self._claim_table = claim_table
        self._own_ad = own_ad
        self._running = running

    def room(self) -> int:
        """How many more jobs may run on this access point's claims."""
        return max(0, self.jobs_running_most - len(self._claim_table.runs))

    def room_of(self, cluster: Cluster) -> int | None:
        """How many more jobs of the cluster may start now by its user's and its project's limits; None: any number."""
        rooms = self._rooms([cluster])
        return max(0, min(rooms.values())) if rooms else None

    def _rooms(self, clusters: Iterable[Cluster]) -> dict[Limited, int]:
        """What each limit of these clusters leaves, without the jobs that slots are being claimed for."""
        if not self._running.any:
            return {}
        rooms: dict[Limited, int] = {}
        for cluster in clusters:
            rooms.update(self._running.rooms(cluster))
        if rooms:
            waiting = [job for pending in self._claim_table.pending.values() for job in pending.jobs]
            waiting += [claim.reserved for claim in self._claim_table.claims.values() if claim.reserved is not None]
            asked = [job.cluster for job in waiting if not job.run]
            for limit in rooms:
                rooms[limit] -= sum(holds_for(limit, cluster) for cluster in asked)
        return rooms

    def within_rooms(self, jobs: list[Job]) -> list[Job]:
        """Those of the jobs that the limits of their users and projects have room for."""
        rooms = self._rooms({job.cluster for job in jobs})
        if not rooms:
            return jobs
        taken: list[Job] = []
        for job in jobs:
            limits = [limit for limit in rooms if holds_for(limit, job.cluster)]
            if all(rooms[limit] > 0 for limit in limits):
                taken.append(job)
                for limit in limits:
                    rooms[limit] -= 1
        return taken

    def kept_back(self, job: Job) -> str | None:
        """What keeps slots from being asked for a runnable job now, in words; None when nothing does."""
        if not self.room():
            return f"MAX_JOBS_RUNNING = {self.jobs_running_most}, and {len(self._claim_table.runs)} jobs run"
        for (kind, name), room in self._rooms([job.cluster]).items():
            if room <= 0:
                whose = "user" if kind == RecordKind.USER else "project"
                return f"{whose} {name} has as many jobs running or about to start as its MaxJobsRunning allows"
        if not self.may_start(job):
            return f"START_VANILLA_UNIVERSE is not true for it: {self.policy.expression}"
        return None

    def may_start(self, job: Job, slot: Callable[[], ClassAd] | None = None) -> bool:
        """Whether START_VANILLA_UNIVERSE lets a job start now, on a slot; without one: on some slot."""
        policy = self.policy
        if not policy:
            return True
        target = slot() if slot is not None and policy.of_slots else None
        return policy.may_start(self._ads.ad(job), self._schedd_ad, partial(self._owner_ad, job), target)

    def allowed_on(self, jobs: list[Job], slot_ad: bytes) -> list[Job]:
        """Those of the jobs that START_VANILLA_UNIVERSE lets start on a slot, given its packed ad."""
        if not self.policy:
            return jobs
        slot = cache(lambda: self._ads.parse(slot_ad))
        return [job for job in jobs if self.may_start(job, slot)]

    def constrain(self, job: Job, request: ClassAd) -> None:
        """Restrict a resource request to slots on which START_VANILLA_UNIVERSE lets the job start."""
        self.policy.constrain(request, self._schedd_ad, partial(self._owner_ad, job))

    def _schedd_ad(self) -> ClassAd:
        return ClassAd(native(self._own_ad()))

    def _owner_ad(self, job: Job) -> ClassAd:
        user = job.cluster.user
        return owner_ad(user, self._queue.counts_of(user))
