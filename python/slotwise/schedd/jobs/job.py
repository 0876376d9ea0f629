"""The records of clusters and jobs. Their ads are in the table of :mod:`slotwise.schedd.jobs.ads`."""

from __future__ import annotations

import heapq
import math
from typing import Protocol

from msgspec import Struct, field

from slotwise.schedd.jobs.codes import RUN_HERE, Status, Universe
from slotwise.schedd.jobs.factory import Factory
from slotwise.schedd.jobs.values import Changes

#: Order of runnable jobs: larger priorities first, so each is negated.
Priority = tuple[int, int, int, int, int]
NO_PRIORITY: Priority = (0, 0, 0, 0, 0)
#: Numbers in ads are capped here, so that sums still fit a 64-bit integer.
_MOST = 2**62


class Cluster(Struct, eq=False):
    """What the jobs of one submission share, and how many are in which state."""

    number: int
    owner: str
    user: str
    submitter: str
    qdate: int
    #: Attributes that the schedd itself set in every job of the cluster.
    common: Changes
    #: The account of the user here, or "" for a user of another domain.
    account: str = ""
    next_proc: int = 0
    #: When a job of it was first matched with a slot, epoch seconds; 0: none was, as far as this process knows.
    first_match: int = 0
    batch_name: str = ""
    #: The key of its project: ProjectName in lower case, or "".
    project: str = ""
    command: str = ""
    #: Event log of jobs that do not name their own, or "".
    log: str = ""
    #: The cluster of the condor_dagman that drives them (DAGManJobId), or 0.
    dag: int = 0
    #: Whether it is HTCondor's condor_dagman, which cannot tell this schedd what becomes of its nodes.
    is_dagman: bool = False
    #: The log that condor_dagman reads (DAGManNodesLog), or "", and the events that go there; none for all.
    nodes_log: str = ""
    nodes_events: frozenset[int] = frozenset()
    #: JobAdInformationAttrs: attributes of which its log tells with each event.
    told_attrs: tuple[str, ...] = ()
    #: OtherJobRemoveRequirements: which jobs go when one of these leaves, or "".
    others_removed: str = ""
    #: JobUniverse; all jobs of a cluster have the same.
    universe: int = Universe.VANILLA
    #: Attribute names (lower case) in which procs differ from the cluster ad as submitted.
    varied: frozenset[str] = frozenset()
    priority: Priority = NO_PRIORITY
    #: Jobs in the queue by JobStatus; index 0 is unused.
    counts: list[int] = field(default_factory=lambda: [0] * 8)
    #: Jobs that completed and left.
    done: int = 0
    jobs: dict[int, Job] = field(default_factory=dict)
    #: Materializes its jobs; None when all were materialized at submission.
    factory: Factory | None = None
    #: The autocluster that all of its jobs are in; None when unknown, or when they differ in a significant attribute.
    autocluster: int | None = None

    @property
    def runs_here(self) -> bool:
        """Whether its jobs run on the access point itself and are not matched with slots."""
        return self.universe in RUN_HERE

    @property
    def batch(self) -> str:
        """The name of the batch that it is shown in; the nodes of a DAG share one with their condor_dagman."""
        driver = self.number if self.universe == Universe.SCHEDULER else self.dag
        return self.batch_name or (f"DAG: {driver}" if driver else f"ID: {self.number}")

    @property
    def total(self) -> int:
        """Jobs that have entered the queue, without those removed."""
        return len(self.jobs) + self.done

    @property
    def unmade(self) -> int:
        """Jobs that its factory has not materialized yet."""
        return 0 if self.factory is None or self.factory.over else self.factory.total - self.factory.next_proc


def finite(value: object, default: float = 0) -> float:
    """A number from an ad, capped so that it fits a 64-bit integer; the default for anything that is not a number.

    Infinity and NaN are not numbers here: no column takes them, and ``int`` raises.
    """
    if not isinstance(value, (int, float)) or (isinstance(value, float) and not math.isfinite(value)):
        return default
    return max(-_MOST, min(_MOST, value))


class Awaited(Protocol):
    """An action that has yet to come to a job."""

    @property
    def leads_to(self) -> Status:
        """The state in which the job will be."""
        ...


class Job:
    """One job in the queue."""

    __slots__ = (
        "autocluster",
        "awaits",
        "bucket",
        "changes",
        "cluster",
        "cool_from",
        "cool_until",
        "counted",
        "failures",
        "log",
        "priority",
        "proc",
        "run",
        "status",
        "submitter",
        "unlogged",
    )

    def __init__(self, cluster: Cluster, proc: int, status: int) -> None:
        self.cluster = cluster
        self.proc = proc
        self.status = status
        #: Whether its usage is in its user's totals: after a failure, it may leave twice.
        self.counted = False
        #: Texts that tell of it and are not in their event logs yet.
        self.unlogged = 0
        #: All attribute changes since submission, or None while there was none.
        self.changes: Changes | None = None
        self.priority: Priority = cluster.priority
        self.submitter = cluster.submitter
        self.log = cluster.log
        self.autocluster: int | None = None
        #: Actions on many jobs that have yet to come to it, in order; until then it does not start.
        self.awaits: tuple[Awaited, ...] = ()
        #: The bucket of runnable jobs it waits in, or None.
        self.bucket: Bucket | None = None
        #: The id of its current run, or "".
        self.run = ""
        #: Consecutive starts that failed through no fault of the job, and when its last cool-down begins and ends.
        self.failures = 0
        self.cool_from = 0.0
        self.cool_until = 0.0

    @property
    def key(self) -> str:
        """``cluster.proc``."""
        return f"{self.cluster.number}.{self.proc}"

    @property
    def owner(self) -> str:
        """The user's name without the domain. For display: it does not identify a user."""
        return self.cluster.owner

    @property
    def has_left(self) -> bool:
        """Whether it is not in the queue any more."""
        return self.cluster.jobs.get(self.proc) is not self

    @property
    def is_logged(self) -> bool:
        """Whether any event log gets the job's events."""
        return self.is_told_of and bool(self.log or self.cluster.nodes_log)

    @property
    def is_told_of(self) -> bool:
        """Whether its events are told: of the procs of a parallel job, which are one job, those of the first."""
        return self.proc == 0 or self.cluster.universe != Universe.PARALLEL

    def writes(self, log: str) -> bool:
        """Whether its events go to this log."""
        return log in (self.log, self.cluster.nodes_log)

    def logs_of(self, entry: str) -> list[str]:
        """The event logs that an entry of the job goes to."""
        if not self.is_told_of:
            return []
        logs = [self.log] if self.log else []
        cluster = self.cluster
        if cluster.nodes_log not in ("", self.log) and (
            not cluster.nodes_events or int(entry[:3]) in cluster.nodes_events
        ):
            logs.append(cluster.nodes_log)
        return logs

    @property
    def account(self) -> str:
        """The account with whose rights its files are read and written: see :attr:`Cluster.account`."""
        return self.cluster.account

    def number(self, name: str, default: float = 0) -> float:
        """A numeric attribute that the schedd maintains and users can edit, see :func:`finite`."""
        value = (self.changes or {}).get(name)
        if value is None:
            value = self.cluster.common.get(name)
        return finite(value, default)

    def __repr__(self) -> str:
        return f"Job({self.key}, {self.status})"


class Bucket(Struct, eq=False):
    """Runnable jobs that are alike to the negotiator."""

    submitter: str
    priority: Priority
    autocluster: int
    members: set[Job] = field(default_factory=set)
    #: (cluster, proc, job). Jobs that have left are dropped when they reach the top.
    heap: list[tuple[int, int, Job]] = field(default_factory=list)

    def add(self, job: Job) -> None:
        """Put the job in."""
        self.members.add(job)
        heapq.heappush(self.heap, (job.cluster.number, job.proc, job))
        job.bucket = self

    def discard(self, job: Job) -> None:
        """Take the job out."""
        self.members.discard(job)
        job.bucket = None

    def first(self) -> Job | None:
        """The next job to run, left in place."""
        heap = self.heap
        while heap:
            job = heap[0][2]
            if job in self.members:
                return job
            heapq.heappop(heap)
        return None
