"""Materializes the jobs of factories as there is room for them, reading them from the store part by part."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Protocol

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.errors import DeniedError, HostError, UsageError
from slotwise.schedd.jobs import factories
from slotwise.schedd.jobs.ads import native, removed
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.factory import REMOVED, asked_for
from slotwise.schedd.jobs.from_ad import describe
from slotwise.schedd.jobs.job import Cluster
from slotwise.schedd.jobs.protected_attrs import check_submitted
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch
from slotwise.schedd.submission.entry import QueueEntry
from slotwise.schedd.submission.limits import SubmitLimits
from slotwise.schedd.submission.new_cluster import NewJobs, NewJobSettings, jobs_of, varied_names
from slotwise.schedd.submission.new_rows import NewRows
from slotwise.schedd.submission.rules import EDITED, without
from slotwise.table import pack_ads, unpack_ads

_log = logging.getLogger(__name__)
#: How long to wait after the store refused, in seconds.
_AGAIN_S = 10.0


class _Source(Struct):
    """The source of a factory's jobs: the cluster's ad, and the part read last."""

    pack: bytes
    submitted: ClassAd
    first: int = 0
    count: int = 0
    deltas: Sequence[ClassAd] | None = None


class MaterializationLimits(SubmitLimits, Protocol):
    """The limits of submissions, and what the configuration gives new jobs."""

    @property
    def new_jobs(self) -> NewJobSettings: ...


class JobRules(Protocol):
    """What new jobs have to keep to."""

    @property
    def settings(self) -> MaterializationLimits:
        """How many jobs may be in the queue, and what each gets."""

    def keep_rules(self, new: NewJobs, now: int, *, late: bool) -> None:
        """Apply the administrator's rules to new jobs."""


class Materializer:
    """Materializes the jobs of all factories as there is room for them."""

    def __init__(
        self,
        queue: Queue,
        admission: JobRules,
        rows: NewRows,
        entry: QueueEntry,
        committer: Committer,
        read_part: Callable[[int, int], tuple[int, int, bytes] | None],
        clock: Clock,
        threads: Executor,
    ) -> None:
        """``read_part``: reads from the store the part of a cluster that a proc is in: first proc, count, deltas."""
        self._queue = queue
        self._admission = admission
        self._rows = rows
        self._entry = entry
        self._committer = committer
        self._read_part = read_part
        self._clock = clock
        self._threads = threads
        self._sources: dict[int, _Source] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, new: NewJobs) -> None:
        """Start a factory that was submitted."""
        self.adopt(new.cluster, new.pack)
        self.advance(new.cluster)

    def adopt(self, cluster: Cluster, pack: bytes) -> None:
        """Take in a factory that is in the queue; ``pack`` has the ad of its cluster."""
        self._sources[cluster.number] = _Source(pack, unpack_ads(pack)[0])

    def resume(self) -> None:
        """Advance all factories, after a start."""
        decision = Decision(self._clock.now())
        for number in list(self._sources):
            cluster = self._queue.clusters[number]
            if cluster.factory is not None and cluster.factory.over and not cluster.jobs:
                self._queue.close(cluster, decision)
            else:
                self.advance(cluster)
        if decision.closed:
            self._committer.commit(decision)

    def change(self, cluster: Cluster, changes: Changes, batch: Batch) -> None:
        """Change these attributes of the jobs that are not materialized yet."""
        source = self._sources.get(cluster.number)
        if source is None or cluster.factory is None:
            return
        edited = source.submitted.copy()
        edited.update(native(changes))
        for name in removed(changes):
            edited.pop(name, None)
        describe(cluster, edited)  # first: when it raises, nothing has changed
        source.submitted, source.pack = edited, pack_ads([edited])
        batch.update_cluster(cluster.number, source.pack)
        factory, asked = cluster.factory, asked_for(source.submitted, 0)
        factory.limit, factory.max_idle = (asked.limit, asked.max_idle) if asked else (-1, -1)
        batch.set_factory(cluster.number, factory.limit, factory.max_idle, factory.paused)

    def shared(self, cluster: Cluster) -> ClassAd:
        """The attributes that all jobs of a factory's cluster share."""
        source = self._sources.get(cluster.number)
        ad = source.submitted.copy() if source else ClassAd()
        ad.update(native(cluster.common))
        return ad

    def look(self, decision: Decision) -> None:
        """Advance the factories of jobs that moved or left."""
        if not self._sources:
            return
        for cluster in decision.closed:
            self._sources.pop(cluster.number, None)
        touched = {job.cluster for job in (*decision.changed, *decision.retired)}
        for cluster in (*touched, *decision.factories):
            if cluster.factory is not None:
                self.advance(cluster)

    def advance(self, cluster: Cluster) -> None:
        """Materialize jobs if there is room for any."""
        factory = cluster.factory
        if factory is None or not (count := self._wanted(cluster)):
            return
        factory.busy = True
        task = asyncio.get_running_loop().create_task(self._make(cluster, count))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _wanted(self, cluster: Cluster) -> int:
        assert cluster.factory is not None
        limits = self._admission.settings
        room = min(
            limits.jobs_per_owner_most - self._queue.owned.get(cluster.user, 0),
            limits.jobs_per_submission_most - len(cluster.jobs),
            limits.jobs_most - sum(self._queue.counts()),
        )
        waiting = cluster.counts[Status.IDLE] + cluster.counts[Status.HELD]
        return cluster.factory.wanted(len(cluster.jobs), waiting, room)

    async def _make(self, cluster: Cluster, count: int) -> None:
        factory = cluster.factory
        assert factory is not None
        former = factory.next_proc
        try:
            new = await self._new_jobs(cluster, factory.next_proc, count)
            decision, batch = Decision(self._clock.now()), Batch()
            self._rows.job_rows(new, batch, decision)
            batch.advance_factory(cluster.number, former + len(new.jobs))
            await self._committer.commit(decision, batch, may_fail=True)
        except HostError as error:
            factory.busy = False
            _log.warning(
                "cluster %d: cannot materialize jobs, trying again in %d s: %s", cluster.number, _AGAIN_S, error
            )
            asyncio.get_running_loop().call_later(_AGAIN_S, self.advance, cluster)
            return
        except (DeniedError, UsageError) as error:
            factory.busy = False
            _log.warning("cluster %d: no more jobs are materialized: %s", cluster.number, error)
            self._pause(cluster, error.message)
            return
        except Exception:
            factory.busy = False
            _log.exception("cluster %d: error while materializing jobs", cluster.number)
            self._pause(cluster, "the jobs cannot be materialized: see the schedd's log")
            return
        _log.info("%d.%d-%d.%d: materialized", cluster.number, former, cluster.number, former + len(new.jobs) - 1)
        factory.next_proc += len(new.jobs)
        factory.busy = False
        self._entry.enter(new, self._entry.prepare(new))
        if factory.paused == REMOVED:  # meanwhile
            self._remove(new)
        else:
            self._committer.tell_new_work()
        self.advance(cluster)

    async def _new_jobs(self, cluster: Cluster, first: int, count: int) -> NewJobs:
        source = self._sources[cluster.number]
        if not source.first <= first < source.first + source.count:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._threads, self._read_part, cluster.number, first)
            if found is None:
                raise HostError(f"the store has no job {cluster.number}.{first}")
            source.first, source.count, pack = found
            source.deltas = unpack_ads(pack) if pack else None
            if source.deltas is not None:
                names = varied_names(source.deltas)
                check_submitted(names)  # as it was at the submission: the part was kept as it came
                names = without(source.deltas, source.submitted.get(EDITED), names)
                cluster.varied |= {name.lower() for name in names}
        at = first - source.first
        count = min(count, source.count - at)
        deltas = source.deltas[at : at + count] if source.deltas is not None else None
        new = jobs_of(
            cluster,
            source.submitted,
            source.pack,
            range(first, first + count),
            deltas,
            pack_ads(deltas) if deltas else b"",
            self._admission.settings.new_jobs,
        )
        now = int(self._clock.now())
        self._admission.keep_rules(new, now, late=True)
        made: Changes = {"JobMaterializeDate": now, "EnteredCurrentStatus": now}
        for changes in {id(job.changes): job.changes for job in new.jobs}.values():
            merged = {**(changes or {}), **made}
            for job in new.jobs:
                if job.changes is changes:
                    job.changes = merged
        return new

    def _pause(self, cluster: Cluster, reason: str) -> None:
        decision = Decision(self._clock.now())
        if factories.pause(self._queue, cluster, reason, decision):
            self._committer.commit(decision)

    def _remove(self, new: NewJobs) -> None:
        decision = Decision(self._clock.now())
        for job in new.jobs:
            self._queue.remove(job, "the cluster was removed", decision)
        self._committer.commit(decision)
