"""The index of all jobs: by id, state, user and submitter, and which of them wait for a match. Pure.

:mod:`slotwise.schedd.jobs.queue` decides what happens to jobs; here are the transitions that are possible at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from slotwise.errors import InvariantError
from slotwise.model import job_events
from slotwise.model.job_events import DateForm, Frame
from slotwise.model.job_id import JobId
from slotwise.model.windows import Window
from slotwise.schedd.jobs import dags
from slotwise.schedd.jobs.codes import MOVES, Status, Universe
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.job_statistics import JobStatistics
from slotwise.schedd.jobs.runnable import Runnable
from slotwise.schedd.jobs.values import Changes

_NONE = (0,) * 8
#: States that count against MaxJobsRunning.
_RUNNING = (Status.RUNNING, Status.TRANSFERRING_OUTPUT, Status.SUSPENDED)


class JobIndex:
    """All jobs of the access point, and their number in each state."""

    def __init__(self, *, date_form: DateForm = DateForm()) -> None:  # noqa: B008 - frozen
        self.clusters: dict[int, Cluster] = {}
        self.runnable = Runnable()
        self.date_form = date_form
        self._totals = [0] * 8
        #: Jobs by JobStatus of each user.
        self._of_user: dict[str, list[int]] = {}
        #: Those of them that are of the scheduler universe.
        self._scheduler_jobs_of_user: dict[str, list[int]] = {}
        #: The same of each project.
        self._of_project: dict[str, list[int]] = {}
        self._scheduler_jobs_of_project: dict[str, list[int]] = {}
        self.statistics = JobStatistics(Window())
        #: Jobs admitted since the daemon started.
        self.admitted = 0
        #: Jobs retired since the last memory trim.
        self.retired = 0
        #: Jobs in the queue by owner.
        self.owned: dict[str, int] = {}
        #: Jobs in the queue by submitter, and those of them on hold; submitters without any are left out.
        self.submitted: dict[str, int] = {}
        self.held: dict[str, int] = {}
        #: Idle jobs in their cool-down after failed starts.
        self.cooling: set[Job] = set()

    # ---- reading

    def job(self, cluster: int, proc: int) -> Job | None:
        """The job, or None."""
        found = self.clusters.get(cluster)
        return found.jobs.get(proc) if found else None

    def named(self, cluster: int, proc: int | None) -> list[Job]:
        """The job with this id, or all jobs of the cluster; none if there is no such."""
        found = self.clusters.get(cluster)
        if found is None:
            return []
        if proc is None:
            return list(found.jobs.values())
        return [job] if (job := found.jobs.get(proc)) is not None else []

    def by_key(self, key: str) -> Job | None:
        """The job named ``cluster.proc``, or None."""
        job = JobId.match(key)
        return self.job(job.cluster, job.proc) if job is not None and job.proc is not None else None

    def has(self, job: Job) -> bool:
        """Whether the job is still in the queue."""
        return self.job(job.cluster.number, job.proc) is job

    def jobs(self) -> Iterator[Job]:
        """Every job, by cluster and proc."""
        for number in sorted(self.clusters):
            yield from self.clusters[number].jobs.values()

    def waits(self, job: Job) -> bool:
        """Whether the job waits for a match, or for its cool-down to end."""
        return self.runnable.has(job) or job in self.cooling

    def counts(self) -> list[int]:
        """Jobs by JobStatus, in all."""
        return list(self._totals)

    def counts_of(self, user: str) -> list[int]:
        """Jobs of a user by JobStatus."""
        return list(self._of_user.get(user, _NONE))

    def counts_in(self, project: str) -> list[int]:
        """Jobs of a project by JobStatus; ``project``: the name in lower case."""
        return list(self._of_project.get(project, _NONE))

    def running_of(self, user: str, universe: int) -> int:
        """Jobs of a user that run and count against MaxJobsRunning for a job of ``universe``.

        As in HTCondor, jobs of the scheduler universe count by themselves: a user whose limit is 1 can run a DAG and
        one of its nodes.
        """
        counts = self._of_user.get(user, _NONE)
        return _running(counts, self._scheduler_jobs_of_user.get(user, _NONE), universe)

    def running_in(self, project: str, universe: int) -> int:
        """The same of a project, by its name in lower case."""
        counts = self._of_project.get(project, _NONE)
        return _running(counts, self._scheduler_jobs_of_project.get(project, _NONE), universe)

    def frame(self, job: Job, now: float) -> Frame:
        """The head of a log entry of ``job``."""
        return Frame(job.cluster.number, job.proc, job_events.stamp(now, self.date_form))

    def validate(self) -> None:
        """Check the invariants of the index.

        :raises InvariantError: naming the one that is violated.
        """
        for cluster in self.clusters.values():
            counts = [0] * 8
            for job in cluster.jobs.values():
                counts[job.status] += 1
                if self.runnable.has(job) and (job.status != Status.IDLE or job.run):
                    raise InvariantError(f"{job} waits for a match")
            if counts != cluster.counts:
                raise InvariantError(f"cluster {cluster.number} counts {cluster.counts}, has {counts}")
        totals = [sum(cluster.counts[status] for cluster in self.clusters.values()) for status in range(8)]
        if totals != self._totals:
            raise InvariantError(f"the queue counts {self._totals}, has {totals}")
        of_users = [sum(counts[status] for counts in self._of_user.values()) for status in range(8)]
        if of_users != totals:
            raise InvariantError(f"users count {of_users} jobs, there are {totals}")
        in_projects = [0] * 8
        for cluster in self.clusters.values():
            if cluster.project:
                in_projects = [one + other for one, other in zip(in_projects, cluster.counts, strict=True)]
        if in_projects != [sum(counts[status] for counts in self._of_project.values()) for status in range(8)]:
            raise InvariantError(f"projects miscount their jobs, which are {in_projects}")
        drivers = sum(len(cluster.jobs) for cluster in self.clusters.values() if cluster.universe == Universe.SCHEDULER)
        if drivers != sum(sum(counts) for counts in self._scheduler_jobs_of_user.values()):
            raise InvariantError(f"users miscount the {drivers} jobs of the scheduler universe")
        submitted = Counter(job.submitter for job in self.jobs())
        held = Counter(job.submitter for job in self.jobs() if job.status == Status.HELD)
        if (submitted, held) != (self.submitted, self.held):
            raise InvariantError(f"submitters count {self.submitted}, {self.held}; have {submitted}, {held}")

    def recount(self) -> None:
        """Count the jobs again, after a change that may have failed half-way."""
        self._totals = [0] * 8
        self._of_user, self._scheduler_jobs_of_user = {}, {}
        self._of_project, self._scheduler_jobs_of_project = {}, {}
        self.owned, self.submitted, self.held = {}, {}, {}
        for cluster in self.clusters.values():
            cluster.counts = [0] * 8
            for job in cluster.jobs.values():
                cluster.counts[job.status] += 1
                self._count(job, 1)
            for status, number in enumerate(cluster.counts):
                self._total(cluster, status, number)
            _add(self.owned, cluster.user, len(cluster.jobs))

    # ---- admitting, retiring, moving

    def admit(self, cluster: Cluster, jobs: list[Job]) -> None:
        """Jobs enter the queue (their rows are durable)."""
        self.clusters.setdefault(cluster.number, cluster)
        self.admitted += len(jobs)
        for job in jobs:
            cluster.jobs[job.proc] = job
            cluster.counts[job.status] += 1
            self._total(cluster, job.status, 1)
            if job.status == Status.IDLE and not job.run:
                if job.cool_until:
                    self.cooling.add(job)
                else:
                    self.runnable.add(job)
            self._count(job, 1)
        self.owned[cluster.user] = self.owned.get(cluster.user, 0) + len(jobs)

    def driver_of(self, cluster: Cluster) -> Job | None:
        """HTCondor's condor_dagman that has submitted the cluster, if it is in the queue."""
        return dags.driver_of(cluster, self.clusters) if cluster.dag else None

    def retire(self, job: Job, decision: Decision) -> None:
        """The job leaves the queue, and its cluster with it when it was the last."""
        cluster = job.cluster
        if cluster.jobs.pop(job.proc, None) is None:
            return
        cluster.counts[job.status] -= 1
        self._total(cluster, job.status, -1)
        self.owned[cluster.user] -= 1
        self._count(job, -1)
        if job.status == Status.COMPLETED:
            cluster.done += 1
        self.runnable.discard(job)
        self.cooling.discard(job)
        decision.retired.append(job)
        self.retired += 1
        if (driver := self.driver_of(cluster)) is not None and (
            changes := dags.left(driver, job, last=not cluster.jobs)
        ):
            decision.set(driver, changes)
        if not cluster.jobs and (cluster.factory is None or cluster.factory.over):
            self.close(cluster, decision)

    def set_submitter(self, job: Job, submitter: str) -> None:
        """Count the job as one of ``submitter`` from now on."""
        self._count(job, -1)
        job.submitter = submitter
        self._count(job, 1)

    def _total(self, cluster: Cluster, status: int, change: int) -> None:
        self._totals[status] += change
        into = [(self._of_user, cluster.user)]
        if cluster.project:
            into.append((self._of_project, cluster.project))
        if cluster.universe == Universe.SCHEDULER:
            into.append((self._scheduler_jobs_of_user, cluster.user))
            if cluster.project:
                into.append((self._scheduler_jobs_of_project, cluster.project))
        for counts_by_name, name in into:
            counts = counts_by_name.get(name)
            if counts is None:
                counts = counts_by_name[name] = [0] * 8
            counts[status] += change

    def _count(self, job: Job, change: int) -> None:
        _add(self.submitted, job.submitter, change)
        if job.status == Status.HELD:
            _add(self.held, job.submitter, change)

    @staticmethod
    def whole(cluster: Cluster) -> Job:
        """A job that stands for the cluster as a whole in its event log."""
        return Job(cluster, -1, Status.IDLE)

    def close(self, cluster: Cluster, decision: Decision) -> None:
        """Remove a cluster that has no jobs and gets none any more."""
        self.clusters.pop(cluster.number, None)
        factory = cluster.factory
        if factory is not None:
            whole = self.whole(cluster)
            entry = job_events.cluster_removed(self.frame(whole, decision.now), factory.next_proc, factory.total)
            decision.log(whole, entry)
            decision.closed.append(cluster)

    def move(self, job: Job, status: Status, decision: Decision, changes: Changes) -> None:
        """Move the job to another state, and change the attributes that go with it.

        :raises InvariantError: for a transition that does not exist.
        """
        former = job.status
        if status not in MOVES[former]:
            raise InvariantError(f"job {job.key} may not go from {Status(former).name} to {status.name}")
        job.status = status
        if Status.HELD in (former, status):
            _add(self.held, job.submitter, (status == Status.HELD) - (former == Status.HELD))
        counts = job.cluster.counts
        counts[former] -= 1
        counts[status] += 1
        self._total(job.cluster, former, -1)
        self._total(job.cluster, status, 1)
        changes.update(JobStatus=int(status), LastJobStatus=int(former), EnteredCurrentStatus=int(decision.now))
        decision.set(job, changes)
        self.sort_in(job, decision)

    def sort_in(self, job: Job, decision: Decision) -> None:
        """Make the job runnable if it is idle and has no run, else not."""
        if job.status == Status.IDLE and not job.run:
            if job.changes and job.bucket is None:
                job.autocluster = None  # what changed while it ran may be significant
            if job.cool_until > decision.now:
                self.cooling.add(job)
                return
            self.runnable.add(job)
            decision.new_work = True
        else:
            self.runnable.discard(job)


def _running(counts: Sequence[int], scheduler_jobs: Sequence[int], universe: int) -> int:
    if universe == Universe.SCHEDULER:
        return sum(scheduler_jobs[status] for status in _RUNNING)
    return sum(counts[status] - scheduler_jobs[status] for status in _RUNNING)


def _add(counts: dict[str, int], name: str, change: int) -> None:
    if left := counts.get(name, 0) + change:
        counts[name] = left
    else:
        counts.pop(name, None)
