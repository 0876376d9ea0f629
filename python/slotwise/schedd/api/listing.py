"""Answers queries about the queue: ads, the batch view, the table of jobs, totals."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.classad.values import Value, whole
from slotwise.clock import Clock
from slotwise.daemon.pages import Part
from slotwise.daemon.questions import Questions
from slotwise.errors import UsageError
from slotwise.model.durations import days_and_time
from slotwise.model.job_id import JobId
from slotwise.model.ownership import owner_of, same_user
from slotwise.schedd.api.requests import JobQuery
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import LETTERS, Status, Universe
from slotwise.schedd.jobs.factory import DONE, HELD, Factory
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.job_sets import JobSets
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.selection import constraint_of, single_jobs
from slotwise.schedd.jobs.values import quoted
from slotwise.table import AdChunks, AdTable, Form, Order
from slotwise.wire.token import Identity

#: Ads in one piece of an answer.
CHUNK_ROWS = 2000
_LINES = 20_000
#: A row of an answer, by the names that clients read.
Row: TypeAlias = dict[str, Value]
_JobId: TypeAlias = tuple[int, int]
#: Clusters whose ads are made before others have their turn.
_CLUSTERS_AT_A_TIME = 200


class Totals(Struct):
    """Jobs by state, as the footer prints them."""

    counts: list[int] = field(default_factory=lambda: [0] * 8)

    def add(self, counts: list[int]) -> None:
        """Add counts by JobStatus."""
        for status, count in enumerate(counts):
            self.counts[status] += count

    def row(self) -> dict[str, int]:
        """With the names of the footer."""
        c = self.counts
        return {
            "Jobs": sum(c),
            "Completed": c[4],
            "Removed": c[3],
            "Idle": c[1],
            "Running": c[2] + c[6],
            "Held": c[5],
            "Suspended": c[7],
        }


class Listing:
    """Answers queries from the records of the queue where these suffice, else from the ads."""

    def __init__(
        self, queue: Queue, ads: JobAds, clock: Clock, questions: Questions, *, name: str, address: str
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._clock = clock
        self._name = name
        self._address = address
        self.questions = questions
        self.job_sets = JobSets()
        #: Actions on many jobs that go on.
        self.actions: Callable[[], list[ClassAd]] = list
        #: Letters for the state of jobs that are transferring files, by job id.
        self.moving: Mapping[str, str] = {}
        #: Why jobs of a user ("": of anyone) wait for their event logs, one reason for each job.
        self.unlogged: Callable[[str], list[str]] = lambda user: []

    def _asked(self, caller: Identity, query: JobQuery) -> tuple[AdTable, str]:
        """The table to ask and the constraint. Where a query names single jobs, one of these alone, so that a queue of
        a million jobs is not searched for them."""
        owners = query.jobs.owners
        if query.mine_only and not owners:
            owners = (caller.name,)
        keys = single_jobs(query.jobs.ids)
        if keys is None:
            return self._ads.table, constraint_of(query.jobs.ids, owners, _written(query))
        return self._ads.table.excerpt(keys), constraint_of((), owners, _written(query))

    # ---- ads

    def chunks(self, caller: Identity, query: JobQuery) -> AsyncIterator[AdChunks]:
        """The selected ads in pieces."""
        table, constraint = self._asked(caller, query)
        form: Form = query.form or "pack"
        return self.questions.chunks(
            table, constraint, query.projection, query.limit or None, form, CHUNK_ROWS, alone=query.alone
        )

    async def page(self, caller: Identity, query: JobQuery, order: Order) -> AsyncIterator[Part]:
        """The first of the selected ads in an order, one more than the query's limit.

        :raises UsageError: when the limit is none that a page may have.
        """
        if query.limit < 1:
            raise UsageError("a page needs a limit", hint="say how many jobs it has at most")
        table, constraint = self._asked(caller, query)
        found = await self.questions.firsts(table, constraint, order, query.limit + 1)
        yield self._ads.table, [(key, place.hex()) for place, key in found]

    async def count(self, caller: Identity, query: JobQuery) -> int:
        """How many ads are selected."""
        return await self.questions.count(*self._asked(caller, query))

    async def count_by(self, caller: Identity, query: JobQuery) -> list[Row]:
        """Counts by distinct values of some attributes."""
        table, constraint = self._asked(caller, query)
        rows = await self.questions.count_by(table, query.count_by, constraint)
        return [{**dict(zip(query.count_by, row, strict=False)), "Count": row[-1]} for row in rows]

    # ---- totals

    async def totals(self, caller: Identity, query: JobQuery, *, superuser: bool = False) -> Row:
        """Who answers, when, and the three lines of the footer.

        HTCondor's tool leaves out the line of a queue superuser's own jobs.
        """
        mine, everyone = Totals(), Totals()
        for cluster in self._queue.clusters.values():
            if _drives(cluster):
                continue
            everyone.add(cluster.counts)
            if same_user(cluster.user, caller.name):
                mine.add(cluster.counts)
        selected = await self._selected_totals(caller, query)
        unlogged = self.unlogged("" if superuser else caller.name)
        return {
            "Schedd": self._name,
            "Address": self._address,
            "Now": self._clock.now(),
            "User": caller.user,
            "SuperUser": superuser,
            "Query": selected.row(),
            "Mine": mine.row(),
            "All": everyone.row(),
            "Unlogged": {"Jobs": len(unlogged), "Reason": unlogged[0] if unlogged else ""},
        }

    async def _selected_totals(self, caller: Identity, query: JobQuery) -> Totals:
        totals = Totals()
        if query.limit:
            for job in await self.jobs(caller, query):
                totals.counts[job.status] += 1
            return totals
        clusters = self._whole_clusters(caller, query)
        if clusters is not None:
            for cluster in clusters:
                if not _drives(cluster):
                    totals.add(cluster.counts)
            return totals
        table, constraint = self._asked(caller, query)
        for row in await self.questions.count_by(table, ["JobStatus", "JobUniverse"], constraint):
            if isinstance(row[0], int) and 0 < row[0] < 8 and row[1] != Universe.SCHEDULER:
                totals.counts[row[0]] += whole(row[2])
        return totals

    def _whole_clusters(self, caller: Identity, query: JobQuery) -> list[Cluster] | None:
        """The selected clusters, when the selection is by owners and whole clusters only; else None."""
        if _written(query) or any("." in name for name in query.jobs.ids) or query.limit:
            return None
        owners = query.jobs.owners or ((caller.user,) if query.mine_only else ())
        ids = {int(name) for name in query.jobs.ids if name.isdecimal() and name.isascii()}
        return [
            cluster
            for number, cluster in sorted(self._queue.clusters.items())
            if (not owners or _is_of(cluster, owners)) and (not query.jobs.ids or number in ids)
        ]

    async def jobs(self, caller: Identity, query: JobQuery) -> Iterable[Job]:
        """The selected jobs in order."""
        clusters = self._whole_clusters(caller, query)
        if clusters is not None:
            return itertools.chain.from_iterable(cluster.jobs.values() for cluster in clusters)
        keys = await self.questions.keys(*self._asked(caller, query), query.limit or None)
        found = [job for key in keys if (job := self._queue.by_key(key)) is not None]
        return sorted(found, key=lambda job: (job.cluster.number, job.proc))

    # ---- the batch view

    async def batches(self, caller: Identity, query: JobQuery) -> list[Row]:
        """One row for each batch: owner, name, submission, counts, job ids."""
        clusters = self._whole_clusters(caller, query)
        batches: dict[tuple[str, str], _Batch] = {}
        if clusters is not None:
            for cluster in clusters:
                _batch_of(batches, cluster).add_cluster(cluster)
                self._count_nodes(batches, cluster)
        else:
            for job in await self.jobs(caller, query):
                _batch_of(batches, job.cluster).add_job(job)
                self._count_nodes(batches, job.cluster)
        return [batch.row() for batch in batches.values()]

    def _count_nodes(self, batches: dict[tuple[str, str], _Batch], cluster: Cluster) -> None:
        """Have a DAG's batch count its nodes where they are known, those of DAGs within it among them, as HTCondor's
        does."""
        job = next(iter(cluster.jobs.values()), None) if _drives(cluster) else None
        if job is not None and (total := int(self._ads.number(job, "DAG_NodesTotal"))):
            _batch_of(batches, cluster).add_nodes(total, int(self._ads.number(job, "DAG_NodesDone")))

    # ---- factories

    def factories(self, caller: Identity, query: JobQuery) -> list[Row]:
        """One ad for each selected cluster whose jobs are made as there is room for them."""
        ids = _clusters_of(query)
        owners = query.jobs.owners or ((caller.user,) if query.mine_only else ())
        return [
            _factory_row(cluster, cluster.factory)
            for number, cluster in sorted(self._queue.clusters.items())
            if cluster.factory is not None and (not ids or number in ids) and (not owners or _is_of(cluster, owners))
        ]

    # ---- clusters and job sets

    async def cluster_ads(self, caller: Identity, query: JobQuery) -> list[ClassAd]:
        """The ad of each selected cluster that has jobs in the queue: what its first job there was submitted with, and
        numbers of its jobs. Like HTCondor's it has no ProcId, and JobStatus 1."""
        ids = _clusters_of(query)
        owners = query.jobs.owners or ((caller.user,) if query.mine_only else ())
        ads: dict[str, ClassAd] = {}
        for place, number in enumerate(sorted(self._queue.clusters)):
            if place % _CLUSTERS_AT_A_TIME == 0:
                await asyncio.sleep(0)
            cluster = self._queue.clusters.get(number)
            if cluster is None or not cluster.jobs or (ids and number not in ids):
                continue
            if not owners or _is_of(cluster, owners):
                ads[str(number)] = self._cluster_ad(cluster)
        return await self._chosen(ads, query)

    def _cluster_ad(self, cluster: Cluster) -> ClassAd:
        first = next(iter(cluster.jobs.values()))
        ad = self._ads.ad(first)
        for name in ("ProcId", "GlobalJobId", *(first.changes or ())):
            if name in ad and name not in cluster.common:
                del ad[name]
        ad.update({"ClusterId": cluster.number, "JobStatus": int(Status.IDLE), **_cluster_counts(cluster)})
        return ad

    async def job_set_ads(self, caller: Identity, query: JobQuery) -> list[ClassAd]:
        """The ad of each selected job set."""
        ids = _clusters_of(query)
        owners = query.jobs.owners or ((caller.user,) if query.mine_only else ())
        now = int(self._clock.now())
        ads = {
            str(each.number): each.ad(now)
            for each in self.job_sets
            if (not ids or each.number in ids) and (not owners or _is_named(each.user, owners))
        }
        return await self._chosen(ads, query)

    async def _chosen(self, ads: Mapping[str, ClassAd], query: JobQuery) -> list[ClassAd]:
        """Those of further ads for which the query's constraint holds."""
        texts = [text for text in (query.constraint, query.jobs.constraint) if text.strip()]
        if texts:
            table = AdTable()
            for key, ad in ads.items():
                table.upsert(key, ad)
            chosen = await self.questions.keys(table, " && ".join(f"({text})" for text in texts), None)
            ads = {key: ad for key, ad in ads.items() if key in chosen}
        return list(ads.values())

    # ---- the table of jobs

    async def lines(self, caller: Identity, query: JobQuery) -> AsyncIterator[str]:
        """The table of jobs as text, in pieces of many lines."""
        now = self._clock.now()
        width = query.width or 1 << 30
        rest: dict[tuple[int, int], str] = {}
        shapes: dict[int, _Shape] = {}
        lines: list[str] = []
        for job in await self.jobs(caller, query):
            cluster = job.cluster
            shape = shapes.get(cluster.number)
            if shape is None:
                shape = shapes[cluster.number] = self._shape(cluster)
            owner = cluster.owner if query.whole_names else cluster.owner[:14]
            head = ""
            if job.priority == cluster.priority and id(job.changes) in shape.shared:
                # Jobs that share their changes (or have none) differ only in their commands.
                head = rest.get((cluster.number, id(job.changes)), "")
                if not head:
                    head = rest[(cluster.number, id(job.changes))] = self._head(job, now, shape, owner)
            tail = head or self._head(job, now, shape, owner)
            tail += cluster.command if shape.commands is None else shape.commands.get(job.proc, "")
            line = f"{cluster.number:4d}.{job.proc:<3d} {tail}"
            lines.append(line[:width].rstrip() if len(line) > width else line)
            if len(lines) >= _LINES:
                yield "\n".join(lines) + "\n"
                lines = []
        if lines:
            yield "\n".join(lines) + "\n"

    def _shape(self, cluster: Cluster) -> _Shape:
        """What the lines of a cluster's jobs have in common."""
        first = next(iter(cluster.jobs.values()))
        commands: dict[int, str] | None = None
        if not cluster.varied.isdisjoint(("cmd", "args", "arguments")):
            names = ["ProcId", "Cmd", "Arguments", "Args"]
            rows = zip(*self._ads.table.values_of([job.key for job in cluster.jobs.values()], names), strict=True)
            bases: dict[object, str] = {}
            commands = {}
            for proc, command, new, old in rows:
                base = bases.get(command)
                if base is None:
                    base = bases[command] = os.path.basename(command) if isinstance(command, str) else ""
                arguments = new or old
                commands[proc] = f"{base} {arguments}" if arguments else base
        seen: dict[int, int] = {}
        for job in cluster.jobs.values():
            seen[id(job.changes)] = seen.get(id(job.changes), 0) + 1
        shared = frozenset(key for key, count in seen.items() if count > 1 or key == id(None))
        return _Shape(commands, self._ads.number(first, "ImageSize", 0) / 1024, shared)

    def _head(self, job: Job, now: float, shape: _Shape, owner: str) -> str:
        cluster = job.cluster
        wall = job.number("RemoteWallClockTime")
        if job.status in (Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT):
            wall += max(0.0, now - job.number("ShadowBday", now))
        resident = job.number("ResidentSetSize", -1)
        # As MemoryUsage, the expression that submissions carry.
        size = (resident + 1023) // 1024 if resident >= 0 else shape.image_mib
        letter = LETTERS[job.status] + ("c" if job in self._queue.cooling else "")
        if self.moving and job.status == Status.RUNNING:
            letter = self.moving.get(job.key, letter)
        return (
            f"{owner:<14} {submitted_at(cluster.qdate)} {days_and_time(wall):>12} {letter:<2} "
            f"{-job.priority[2]:<3d} {size:6.1f} "
        )


def _written(query: JobQuery) -> str:
    """The part of what is selected that the caller wrote."""
    return " && ".join(f"({part})" for part in (query.constraint, query.jobs.constraint) if part.strip())


class _Batch:
    """A line of the batch view while it is counted. ``first``: the cluster that gives it its name and date."""

    def __init__(self, first: Cluster) -> None:
        self._owner, self._name, self._qdate = first.owner, first.batch, first.qdate
        self._counts = [0] * 8
        #: Of the clusters of the batch: jobs that left completed, that are not materialized yet, that are in the queue.
        self._done = self._unmade = self._members = 0
        #: The least and the greatest job id, by which the batch is shown.
        self._ids: tuple[_JobId, _JobId] | None = None
        #: The job that drives the others: of the scheduler universe, and in no total.
        self._driver: _JobId | None = None
        self._seen: set[int] = set()
        #: Of a DAG and of those within it: the nodes, and how many of them are done.
        self._nodes = self._nodes_done = 0

    def add_cluster(self, cluster: Cluster) -> None:
        """Count all jobs of a cluster."""
        if _drives(cluster):
            self._driver = (cluster.number, next(iter(cluster.jobs), 0))
            return
        for status, count in enumerate(cluster.counts):
            self._counts[status] += count
        self._done += cluster.done
        self._unmade += cluster.unmade
        if cluster.jobs:
            self._show((cluster.number, next(iter(cluster.jobs))))
            self._show((cluster.number, next(reversed(cluster.jobs))))

    def add_job(self, job: Job) -> None:
        """Count a job. Whichever of its cluster's jobs are selected, the batch's total is that of the whole cluster."""
        cluster = job.cluster
        if _drives(cluster):
            self._driver = (cluster.number, job.proc)
            return
        self._counts[job.status] += 1
        self._show((cluster.number, job.proc))
        if cluster.number not in self._seen:
            self._seen.add(cluster.number)
            self._members += len(cluster.jobs)
            self._done += cluster.done
            self._unmade += cluster.unmade

    def add_nodes(self, total: int, done: int) -> None:
        """Count the nodes of a DAG."""
        self._nodes += total
        self._nodes_done += done

    def _show(self, job: _JobId) -> None:
        first, last = self._ids or (job, job)
        self._ids = (min(first, job), max(last, job))

    def row(self) -> Row:
        """The line."""
        counts = self._counts
        done = self._done + counts[4]
        total = self._done + self._unmade + max(self._members, sum(counts))
        if self._nodes:
            total, done = self._nodes, self._nodes_done
        return {
            "Owner": self._owner,
            "BatchName": self._name,
            "QDate": self._qdate,
            "Done": done,
            "Run": counts[2] + counts[6] + counts[7],
            "Idle": counts[1],
            "Hold": counts[5],
            "Removed": counts[3],
            "Total": total,
            "JobIds": self._job_ids(),
        }

    def _job_ids(self) -> str:
        if self._ids is None:  # none of the jobs that the driver submits is in the queue
            return "" if self._driver is None else "{}.{}".format(*self._driver)
        first, last = self._ids
        if first == last:
            return f"{first[0]}.{first[1]}"
        if first[0] == last[0]:
            return f"{first[0]}.{first[1]}-{last[1]}"
        return f"{first[0]}.{first[1]} ... {last[0]}.{last[1]}"


class _Shape(Struct, frozen=True):
    """What the lines of a cluster's jobs have in common: commands by proc if they differ, size if it never ran."""

    commands: dict[int, str] | None
    image_mib: float
    #: Identities of change sets that several jobs share.
    shared: frozenset[int]


@lru_cache(maxsize=4096)
def submitted_at(qdate: int) -> str:
    """``M/D HH:MM``, as wide as the widest."""
    moment = datetime.fromtimestamp(qdate)
    return f"{moment.month:>2}/{moment.day:<2} {moment:%H:%M}"


def _is_of(cluster: Cluster, owners: Sequence[str]) -> bool:
    """Whether the jobs belong to one of ``owners``: names, with a domain or without."""
    return _is_named(cluster.user, owners)


def _is_named(user: str, owners: Sequence[str]) -> bool:
    return any(same_user(user, owner) if "@" in owner else owner_of(user) == owner for owner in owners)


def _drives(cluster: Cluster) -> bool:
    """Whether it is of the scheduler universe: HTCondor counts such jobs in no total, and with no batch."""
    return cluster.universe == Universe.SCHEDULER


def _cluster_counts(cluster: Cluster) -> dict[str, Value]:
    """What the ad of a cluster says of its jobs; those that a factory is still to make are idle, or held with it."""
    counts, factory = cluster.counts, cluster.factory
    pending = 0 if factory is None or factory.over else max(0, factory.total - factory.next_proc)
    held = factory is not None and factory.paused == HELD
    row: dict[str, Value] = {
        "JobsPresent": len(cluster.jobs) + pending,
        "JobsIdle": counts[Status.IDLE] + (0 if held else pending),
        "JobsRunning": counts[2] + counts[6] + counts[7],
        "JobsHeld": counts[Status.HELD] + (pending if held else 0),
        "ClusterSize": len(cluster.jobs) + pending,
    }
    if factory is not None:
        row["JobMaterializeNextProcId"] = factory.next_proc
        row["JobMaterializePaused"] = DONE if factory.over and not factory.paused else factory.paused
        row["TotalSubmitProcs"] = factory.total
    return row


def _clusters_of(query: JobQuery) -> set[int]:
    """The clusters that a query names, or those of the jobs that it names."""
    return {job.cluster for name in query.jobs.ids if (job := JobId.match(name)) is not None}


def _factory_row(cluster: Cluster, factory: Factory) -> Row:
    counts = cluster.counts
    row: Row = {
        "MyType": "Job",
        "ClusterId": cluster.number,
        "Owner": cluster.owner,
        "User": cluster.user,
        "QDate": cluster.qdate,
        "JobUniverse": cluster.universe,
        "JobBatchName": cluster.batch_name or f"ID: {cluster.number}",
        # Without a limit all jobs may be there at once, as HTCondor's submission writes into the ad.
        "JobMaterializeLimit": factory.limit if factory.limit >= 0 else factory.total,
        "JobMaterializeNextProcId": factory.next_proc,
        "JobMaterializePaused": DONE if factory.over and not factory.paused else factory.paused,
        "TotalSubmitProcs": factory.total,
        "JobsPresent": sum(counts),
        "JobsRunning": counts[2] + counts[6] + counts[7],
        "JobsIdle": counts[1],
        "JobsHeld": counts[5],
    }
    if factory.max_idle >= 0:
        row["JobMaterializeMaxIdle"] = factory.max_idle
    return row


def _batch_of(batches: dict[tuple[str, str], _Batch], cluster: Cluster) -> _Batch:
    """The line that a cluster is counted in."""
    batch = batches.get((cluster.owner, cluster.batch))
    if batch is None:
        batch = batches[(cluster.owner, cluster.batch)] = _Batch(cluster)
    return batch


def as_json(value: object) -> bytes:
    """Compact JSON text."""
    return json.dumps(value, separators=(",", ":")).encode()


__all__ = ["Listing", "Totals", "as_json", "quoted", "submitted_at"]
