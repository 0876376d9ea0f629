"""Requests to start a job at once in the place of others of the same user (``condor_now``)."""

from __future__ import annotations

from collections.abc import Sequence

from slotwise.classad import ClassAd
from slotwise.classad.values import number
from slotwise.clock import Clock
from slotwise.errors import DeniedError, NotFoundError, UsageError
from slotwise.model.job_id import JobId
from slotwise.model.ownership import same_user
from slotwise.model.reason_codes import Vacate
from slotwise.schedd.api.job_actions import VACATED
from slotwise.schedd.claims.records import ClaimTable, Run
from slotwise.schedd.claims.starts.now_jobs import NowJobs
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status, Universe
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.lifecycle.claim_states import Running
from slotwise.schedd.storage.committer import Committer
from slotwise.wire.token import Identity

_MEASURED = "Cpus Memory Disk"


class NowRequests:
    """Vacates jobs for another one."""

    #: SCHEDD_NOW_JOB_VACATE_TIMEOUT: how long the jobs that make room may take to end, seconds.
    vacate_s = 20.0

    def __init__(
        self, queue: Queue, ads: JobAds, committer: Committer, clock: Clock, claim_table: ClaimTable, now_jobs: NowJobs
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self._claim_table = claim_table
        self._now_jobs = now_jobs

    async def run(self, caller: Identity, job_id: str, vacate: Sequence[str], superuser: bool) -> None:
        """Vacate the jobs ``vacate``, and have ``job_id`` start on what their slots have; durable when it returns.

        Where HTCondor would vacate them in vain, because the job does not fit, they are left as they are.

        :raises NotFoundError, DeniedError, UsageError: nothing was changed; the texts are HTCondor's where it refuses.
        """
        await self._committer.require_room(1 + len(vacate))
        moment = self._clock.monotonic()
        job = self._allowed(caller, job_id, "now-job", superuser)
        if job.cluster.universe != Universe.VANILLA:
            raise UsageError("the now-job must be in the vanilla universe")
        if job.status != Status.IDLE or job.run or job.awaits:
            raise UsageError("the now-job must be idle")
        if not vacate:
            raise UsageError("missing vacate-job ID")
        victims = [self._victim(caller, one, superuser) for one in dict.fromkeys(vacate)]
        if self._now_jobs.has(job, moment):
            raise UsageError("the now-job must not already be scheduled to run immediately")
        runs = [self._run_of(victim, moment) for victim in victims]
        self._check_fit(job, runs)
        decision = Decision(self._clock.now())
        with self._committer.deciding(decision):
            self._now_jobs.add(job, runs, moment + self.vacate_s)
            decision.note("%s: to start at once in the place of %s", job.key, " ".join(run.job.key for run in runs))
            for victim in victims:
                self._queue.vacate(victim, VACATED, int(Vacate.SCHEDD_VACATE), True, decision)
        await self._committer.durable(self._committer.commit(decision))

    def _allowed(self, caller: Identity, job_id: str, what: str, superuser: bool) -> Job:
        number_, proc = JobId.parse(job_id)
        cluster = self._queue.clusters.get(number_)
        job = cluster.jobs.get(proc) if cluster is not None and proc is not None else None
        if job is None:
            raise NotFoundError(f"no such job ({what})", hint="jobs are named by CLUSTER.PROC")
        if not (superuser or same_user(job.cluster.user, caller.name)):
            raise DeniedError(f"you must own the {what}")
        return job

    def _victim(self, caller: Identity, job_id: str, superuser: bool) -> Job:
        victim = self._allowed(caller, job_id, "vacate-job", superuser)
        if victim.cluster.universe != Universe.VANILLA:
            raise UsageError("vacate-job must be in the vanilla universe")
        if victim.status != Status.RUNNING:
            raise UsageError("vacate-job must be running")
        return victim

    def _run_of(self, victim: Job, moment: float) -> Run:
        run = self._claim_table.runs.get(victim.run)
        if run is None or not isinstance(run.claim.state, Running):
            raise UsageError("no match for vacate-job ID", hint="its slot is being taken away, or is not reached")
        if self._now_jobs.is_awaited(run.id, moment):
            raise UsageError(f"{victim.key} makes room for another job already")
        return run

    def _check_fit(self, job: Job, runs: list[Run]) -> None:
        """Whether the job may have the slots of the runs, and fits what they have together.

        :raises UsageError: it may not, or does not.
        """
        claims = [run.claim for run in runs]
        if any(not same_user(run.job.cluster.user, job.cluster.user) for run in runs):
            raise UsageError("the now-job and the vacate-job must have the same owner")
        limits = self._ads.text(job, "ConcurrencyLimits")
        if any(claim.limits != limits for claim in claims):
            raise UsageError("the now-job and the vacate-job must have the same concurrency limits")
        if len(claims) > 1:
            parents = {(claim.startd, claim.slot_name.partition("@")[0].rpartition("_")[0]) for claim in claims}
            dynamic = all(self._ads.value_of(claim.slot, "DynamicSlot") is True for claim in claims)
            if len(parents) > 1 or not dynamic:
                raise UsageError(
                    "the slots of the vacate-jobs cannot become one",
                    hint="they have to be dynamic slots of one partitionable slot",
                )
        slot = claims[0].slot if len(claims) == 1 else _sum([claim.slot_ad for claim in claims])
        if not self._ads.matches(job, slot):
            names = " and ".join(claim.slot_name for claim in claims)
            raise UsageError(f"the now-job does not match {names}", hint=f"see why: q -better-analyze {job.key}")


def _sum(packed: list[bytes]) -> ClassAd:
    """The ad of a slot that has what the slots with these ads, packed, have together."""
    slots = [JobAds.parse(ad) for ad in packed]
    whole = slots[0]
    names = whole.eval("MachineResources") if "MachineResources" in whole else None
    for name in (names if isinstance(names, str) else _MEASURED).split():
        amounts = [number(slot.eval(name)) for slot in slots if name in slot]
        if amounts and all(amount is not None for amount in amounts):
            amount = sum(amount for amount in amounts if amount is not None)
            whole[name] = int(amount) if amount == int(amount) else amount
    return whole
