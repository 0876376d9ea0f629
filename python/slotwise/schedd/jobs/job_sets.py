"""Job sets: clusters of one user that have a name in common (submit command ``jobset``, USE_JOBSETS). Pure.

As in HTCondor, a set begins with the first cluster that names it, gets that cluster's id as its JobSetId, and is gone
with the last of its clusters. Names do not differ by case; the ad has the name as it was written first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import UsageError
from slotwise.model.ownership import owner_of
from slotwise.schedd.jobs.codes import Status, Universe
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.storage.batch import Batch, StoredJobSet, UserTotals

#: The attribute of a job that has the id of its set, and the one that names the set.
SET_ID, SET_NAME = "JobSetId", "JobSetName"
#: What submitters are told where there are no job sets.
NOT_HERE = "schedd does not support jobsets."
#: The longest text of the attributes that submissions give to one set, in bytes.
ATTRIBUTES_MOST = 64 * 1024
_STATES = {
    "Completed": (Status.COMPLETED,),
    "Held": (Status.HELD,),
    "Idle": (Status.IDLE,),
    "Removed": (Status.REMOVED,),
    "Running": (Status.RUNNING, Status.TRANSFERRING_OUTPUT),
}


class JobSet(Struct):
    """A job set and its clusters: those in the queue, and those that are being committed."""

    number: int
    user: str
    name: str
    totals: UserTotals = field(default_factory=UserTotals)
    clusters: dict[int, Cluster] = field(default_factory=dict)
    #: What submissions gave it.
    attributes: ClassAd = field(default_factory=ClassAd)
    #: The same of clusters that are being committed.
    coming: dict[int, ClassAd] = field(default_factory=dict)

    def ad(self, now: int) -> ClassAd:
        """The ad, with the jobs in the queue by state."""
        ad = self.attributes.copy()
        ad.update({**self._own(), "ServerTime": now})
        return ad

    def takes(self, given: ClassAd) -> list[str]:
        """Remove the attributes that no submission sets; returns their names.

        :raises UsageError: for more than a set can have.
        """
        refused = [name for name in given if name.lower() in _GIVEN]
        for name in refused:
            del given[name]
        if len(given):
            all_given = self.attributes.copy()
            for ad in (*self.coming.values(), given):
                all_given.update(ad)
            if (size := len(all_given.print_old())) > ATTRIBUTES_MOST:
                raise UsageError(
                    f"the attributes of job set {self.name} have {size} bytes",
                    hint=f"at most {ATTRIBUTES_MOST}: give it fewer, or use another set",
                )
        return refused

    def _own(self) -> dict[str, str | int | float]:
        counts, scheduler_counts = [0] * 8, [0] * 8
        jobs = 0
        for cluster in self.clusters.values():
            jobs += sum(cluster.counts)
            into = scheduler_counts if cluster.universe == Universe.SCHEDULER else counts
            for status, count in enumerate(cluster.counts):
                into[status] += count
        ad: dict[str, str | int | float] = {
            "MyType": "JobSet",
            SET_ID: self.number,
            SET_NAME: self.name,
            "Owner": owner_of(self.user),
            "User": self.user,
            "RefCount": jobs + len(self.clusters),
            "NumJobs": sum(counts),
            "NumSchedulerJobs": sum(scheduler_counts),
            "NumSuspended": counts[Status.SUSPENDED],
        }
        for state, among in _STATES.items():
            ad[f"Num{state}"] = sum(counts[status] for status in among)
            ad[f"NumScheduler{state}"] = sum(scheduler_counts[status] for status in among)
        if any(self.totals.completed) or any(self.totals.removed):
            for kind, (left, cpu_s, slot_s) in (("Completed", self.totals.completed), ("Removed", self.totals.removed)):
                ad |= {f"Total{kind}Jobs": left, f"{kind}JobsCpuTime": cpu_s, f"{kind}JobsSlotTime": slot_s}
        return ad


#: Attributes that no submission sets, in lower case.
_GIVEN = frozenset(
    name.lower()
    for name in (*JobSet(0, "x", "x", UserTotals((1, 0, 0), (1, 0, 0))).ad(0), "TargetType", "ProcId", "ClusterId")
)


class JobSets:
    """All job sets. ``enabled``: USE_JOBSETS, new clusters may have one."""

    def __init__(self) -> None:
        self.enabled = False
        self._sets: dict[int, JobSet] = {}
        self._named: dict[tuple[str, str], JobSet] = {}

    def __iter__(self) -> Iterator[JobSet]:
        return iter([self._sets[number] for number in sorted(self._sets)])

    def load(self, rows: Iterable[StoredJobSet], clusters: Iterable[Cluster]) -> None:
        """Restore the sets of the store, with the clusters that are in the queue."""
        for row in rows:
            given = ClassAd({name: ExprTree(text) for name, text in row.attributes.items()})
            self._put(JobSet(row.number, row.user, row.name, totals=row.totals, attributes=given))
        for cluster in clusters:
            number = cluster.common.get(SET_ID)
            if isinstance(number, int) and (found := self._sets.get(number)) is not None:
                found.clusters[cluster.number] = cluster

    def _put(self, new: JobSet) -> None:
        self._sets[new.number] = self._named[_key(new.user, new.name)] = new

    # ---- submission

    def join(self, cluster: Cluster, name: object, given: ClassAd) -> list[str]:
        """Put a new cluster into the set of this name; returns warnings for its user.

        The cluster counts from now on; :meth:`withdraw` it when it does not enter the queue, else call :meth:`entered`.

        :param given: attributes for the set, which replace those that it has.
        :raises UsageError: for attributes without a set, or too many.
        """
        if not isinstance(name, str) or not name:
            if len(given):
                raise UsageError(f"attributes of a job set came without {SET_NAME}", hint="jobset.name = NAME")
            return []
        if not self.enabled:
            return [f"{NOT_HERE}  Ignoring JOBSET.* attributes" if len(given) else NOT_HERE]
        found = self._named.get(_key(cluster.user, name)) or JobSet(cluster.number, cluster.user, name)
        refused = found.takes(given)
        self._put(found)
        found.clusters[cluster.number] = cluster
        cluster.common[SET_ID] = found.number
        if len(given):
            found.coming[cluster.number] = given
        return [f"jobset.{each} was ignored: the access point gives this attribute of a job set" for each in refused]

    def store(self, cluster: Cluster, batch: Batch) -> None:
        """Note the set of a cluster that enters the queue."""
        if (found := self._of(cluster)) is not None:
            given = found.coming.get(cluster.number, ClassAd())
            texts = {name: str(given.lookup(name)) for name in given}
            batch.know_job_set(found.number, found.user, found.name, texts)

    def entered(self, cluster: Cluster) -> None:
        """Note that a cluster is in the queue: its set has the attributes that came with it."""
        found = self._of(cluster)
        if found is not None and (given := found.coming.pop(cluster.number, None)) is not None:
            found.attributes.update(given)

    def withdraw(self, cluster: Cluster) -> None:
        """Forget a cluster that was not queued."""
        self._leave(cluster)

    # ---- ends

    def left(self, jobs: Iterable[Job], closed: Iterable[Cluster], batch: Batch) -> None:
        """Add the usage of jobs that leave the queue to their sets, and end sets without clusters.

        :param closed: further clusters that leave.
        """
        if not self._sets:
            return
        added: dict[int, UserTotals] = {}
        touched: dict[int, Cluster] = {cluster.number: cluster for cluster in closed}
        for job in jobs:
            found = self._of(job.cluster)
            if found is None:
                continue
            touched[job.cluster.number] = job.cluster
            if not job.counted and job.status in (Status.COMPLETED, Status.REMOVED):
                cpu_s = job.number("CumulativeRemoteUserCpu") + job.number("CumulativeRemoteSysCpu")
                totals = added.setdefault(found.number, UserTotals())
                totals.add(job.status == Status.COMPLETED, cpu_s, job.number("RemoteWallClockTime"))
        for number, totals in added.items():
            self._sets[number].totals.merge(totals)
            batch.add_job_set_totals(number, totals)
        for cluster in touched.values():
            if not cluster.jobs and (cluster.factory is None or cluster.factory.over):
                ended = self._leave(cluster)
                if ended is not None:
                    batch.delete_job_set(ended)

    def _leave(self, cluster: Cluster) -> int | None:
        """Take a cluster out of its set; the set's number when it has ended by that."""
        found = self._of(cluster)
        if found is None:
            return None
        found.coming.pop(cluster.number, None)
        if found.clusters.pop(cluster.number, None) is None or found.clusters:
            return None
        del self._sets[found.number], self._named[_key(found.user, found.name)]
        return found.number

    def _of(self, cluster: Cluster) -> JobSet | None:
        number = cluster.common.get(SET_ID)
        return self._sets.get(number) if isinstance(number, int) else None


def _key(user: str, name: str) -> tuple[str, str]:
    return user.lower(), name.lower()
