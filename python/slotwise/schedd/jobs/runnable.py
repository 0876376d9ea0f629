"""The runnable jobs in their order, and the resource requests made of them.

Runnable jobs of one submitter, one priority and one autocluster form a bucket: the unit of a resource request. Within
a bucket the order is cluster, then proc. The order of buckets is: larger PreJobPrio1, PreJobPrio2, JobPrio,
PostJobPrio1, PostJobPrio2 first, then the first job's number. The submission date is not a key.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from msgspec import Struct

from slotwise.schedd.jobs.codes import Universe
from slotwise.schedd.jobs.job import Bucket, Job, Priority


class Request(Struct, frozen=True):
    """A resource request: ``count`` slots for jobs like ``first``."""

    submitter: str
    autocluster: int
    count: int
    first: Job


class Runnable:
    """All runnable jobs, by submitter, priority and autocluster."""

    def __init__(self) -> None:
        self._buckets: dict[str, dict[tuple[Priority, int], Bucket]] = {}
        #: Runnable jobs whose autocluster is not known yet.
        self.unclustered: dict[Job, None] = {}
        #: Jobs that run on the access point itself: they are not matched.
        self.here: dict[Job, None] = {}
        #: Jobs of the parallel universe: they are gathered slots for, all at a time.
        self.parallel: dict[Job, None] = {}
        #: How many jobs have become runnable so far, by submitter.
        self.added: dict[str, int] = {}

    def add(self, job: Job) -> None:
        """Add a job that became runnable, unless an action on it is under way."""
        if job.awaits:
            return
        if job.cluster.runs_here:
            self.here[job] = None
            return
        if job.cluster.universe == Universe.PARALLEL:
            self.parallel[job] = None
            return
        if job.bucket is not None or job in self.unclustered:
            return
        if job.autocluster is None:
            self.unclustered[job] = None
        else:
            self._bucket(job).add(job)

    def discard(self, job: Job) -> None:
        """Remove a job that is not runnable any more, or is reserved for a match."""
        if job.bucket is not None:
            job.bucket.discard(job)
        else:
            self.unclustered.pop(job, None)
            self.here.pop(job, None)
            self.parallel.pop(job, None)

    def has(self, job: Job) -> bool:
        """Whether the job waits, and is not reserved."""
        return job.bucket is not None or job in self.unclustered or job in self.here or job in self.parallel

    def clustered(self, job: Job, autocluster: int) -> None:
        """Sort a job in whose autocluster became known or changed."""
        waiting = job.bucket is not None or job in self.unclustered
        self.discard(job)
        job.autocluster = autocluster
        if waiting:
            self._bucket(job).add(job)

    def forget_autoclusters(self) -> None:
        """Discard all autoclusters: the significant attributes changed."""
        for job in [job for bucket in self._all() for job in bucket.members]:
            self.discard(job)
            job.autocluster = None
            self.unclustered[job] = None
        self._buckets.clear()

    def compact(self) -> None:
        """Drop jobs that have left from the heaps."""
        for bucket in self._all():
            if len(bucket.heap) > 2 * len(bucket.members) + 100:
                bucket.heap = [(job.cluster.number, job.proc, job) for job in bucket.members]
                heapq.heapify(bucket.heap)
        self.unclustered = dict(self.unclustered)
        self.here = dict(self.here)
        self.parallel = dict(self.parallel)

    def submitters(self) -> list[str]:
        """Submitters with runnable jobs, sorted."""
        waiting = {job.submitter for job in self.unclustered}
        waiting.update(name for name, own in self._buckets.items() if any(b.members for b in own.values()))
        return sorted(waiting)

    def count(self, submitter: str) -> int:
        """Runnable jobs of the submitter."""
        clustered = sum(len(bucket.members) for bucket in self._buckets.get(submitter, {}).values())
        return clustered + sum(1 for job in self.unclustered if job.submitter == submitter)

    def kinds(self, submitter: str) -> int:
        """The approximate number of autoclusters of the submitter's runnable jobs."""
        return len(self._buckets.get(submitter, ()))

    def ordered(self, submitter: str) -> Iterator[tuple[Bucket, Job]]:
        """The submitter's buckets with the first job of each, best first."""
        own = self._buckets.get(submitter)
        if not own:
            return
        found: list[tuple[Priority, int, int, Bucket, Job]] = []
        for key, bucket in list(own.items()):
            first = bucket.first()
            if first is None:
                del own[key]
            else:
                found.append((bucket.priority, first.cluster.number, first.proc, bucket, first))
        found.sort(key=lambda row: row[:3])
        for _, _, _, bucket, first in found:
            yield bucket, first

    def requests(self, submitter: str, limit: int = 0) -> list[Request]:
        """The submitter's requests, best first; ``limit`` bounds the jobs in total (0 = no bound)."""
        requests: list[Request] = []
        left = limit or 1 << 60
        for bucket, first in self.ordered(submitter):
            count = min(len(bucket.members), left)
            if count <= 0:
                break
            requests.append(Request(submitter, bucket.autocluster, count, first))
            left -= count
        return requests

    def firsts(self, submitter: str) -> dict[int, Job]:
        """The best job of each autocluster, which represents the others in requests."""
        found: dict[int, Job] = {}
        for bucket, job in self.ordered(submitter):
            found.setdefault(bucket.autocluster, job)
        return found

    def take(self, submitter: str, autocluster: int, count: int) -> list[Job]:
        """Up to ``count`` first runnable jobs of that autocluster, reserved: they are no longer runnable."""
        taken: list[Job] = []
        for bucket, _ in self.ordered(submitter):
            if bucket.autocluster != autocluster:
                continue
            while len(taken) < count and (job := bucket.first()) is not None:
                bucket.discard(job)
                taken.append(job)
        return taken

    def _bucket(self, job: Job) -> Bucket:
        assert job.autocluster is not None
        own = self._buckets.setdefault(job.submitter, {})
        key = (job.priority, job.autocluster)
        self.added[job.submitter] = self.added.get(job.submitter, 0) + 1
        bucket = own.get(key)
        if bucket is None:
            bucket = own[key] = Bucket(job.submitter, job.priority, job.autocluster)
        return bucket

    def _all(self) -> Iterator[Bucket]:
        for own in self._buckets.values():
            yield from own.values()
