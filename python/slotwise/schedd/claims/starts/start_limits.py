"""How many jobs may start now, and which: START_VANILLA_UNIVERSE, MAX_JOBS_RUNNING, and MaxJobsRunning of users."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from slotwise.classad import ClassAd
from slotwise.schedd.claims.records import ClaimTable
from slotwise.schedd.jobs.ads import JobAds, native
from slotwise.schedd.jobs.codes import Universe
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.policy.start import StartPolicy, owner_ad


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
        running_most: Callable[[str], int | None],
    ) -> None:
        """
        :param own_ad: the schedd's own ad, as START_VANILLA_UNIVERSE sees it.
        :param running_most: how many jobs of a user may run at a time; None: any number.
        """
        self._queue = queue
        self._ads = ads
        self._claim_table = claim_table
        self._own_ad = own_ad
        self._running_most = running_most

    def room(self) -> int:
        """How many more jobs may run on this access point's claims."""
        return max(0, self.jobs_running_most - len(self._claim_table.runs))

    def room_of(self, user: str) -> int | None:
        """How many more jobs of the user may start now; None: any number."""
        most = self._running_most(user)
        if most is None:
            return None
        running = self._queue.running_of(user, Universe.VANILLA)
        waiting = [job for pending in self._claim_table.pending.values() for job in pending.jobs]
        waiting += [claim.reserved for claim in self._claim_table.claims.values() if claim.reserved is not None]
        asked = sum(job.cluster.user == user and not job.run for job in waiting)
        return max(0, most - running - asked)

    def within_rooms(self, jobs: list[Job]) -> list[Job]:
        """Those of the jobs that the limits of their users have room for."""
        rooms = {user: self.room_of(user) for user in {job.cluster.user for job in jobs}}
        if all(room is None for room in rooms.values()):
            return jobs
        taken: list[Job] = []
        for job in jobs:
            room = rooms[job.cluster.user]
            if room is None or room > 0:
                taken.append(job)
                rooms[job.cluster.user] = None if room is None else room - 1
        return taken

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
