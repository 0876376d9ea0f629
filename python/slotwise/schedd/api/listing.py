"""Answers questions about the queue: ads, the batch view, the table of jobs, totals."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from slotwise.clock import Clock
from slotwise.daemon.questions import Questions
from slotwise.model.ownership import same_user
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import LETTERS, Status, Universe
from slotwise.schedd.jobs.factory import DONE, Factory
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.round_attrs import rounded
from slotwise.schedd.jobs.selection import constraint_of
from slotwise.schedd.jobs.values import quoted
from slotwise.table import AdChunks, Form
from slotwise.wire.gen import common_pb2, schedd_pb2
from slotwise.wire.security import Identity

#: Ads in one piece of an answer.
CHUNK_ROWS = 2000
_LINES = 20_000
_FORMS: dict[int, Form] = {
    common_pb2.AdQuery.PACK: "pack",
    common_pb2.AdQuery.LONG: "long",
    common_pb2.AdQuery.JSON: "json",
}


@dataclass
class Totals:
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
    """Reads queue and ads for callers."""

    def __init__(
        self, queue: Queue, ads: JobAds, clock: Clock, questions: Questions, *, name: str, address: str
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._clock = clock
        self._name = name
        self._address = address
        self.questions = questions
        #: Letters for the state of jobs, by id, that move files just now.
        self.moving: Mapping[str, str] = {}

    def constraint(self, caller: Identity, query: schedd_pb2.JobQuery) -> tuple[str, str]:
        """(constraint in all, part of it that is not about owners): what the query selects."""
        owners = list(query.jobs.owners)
        if query.mine_only and not owners:
            owners = [caller.name]
        text = " && ".join(f"({part})" for part in (query.query.constraint, query.jobs.constraint) if part.strip())
        return constraint_of(list(query.jobs.ids), owners, text), text

    # ---- ads

    def chunks(self, caller: Identity, query: schedd_pb2.JobQuery) -> AsyncIterator[AdChunks]:
        """The selected ads in pieces."""
        constraint, _ = self.constraint(caller, query)
        ask = query.query
        wanted = (constraint, list(ask.projection), ask.limit or None)
        return self.questions.chunks(self._ads.table, *wanted, _FORMS[ask.form], CHUNK_ROWS)

    async def count(self, caller: Identity, query: schedd_pb2.JobQuery) -> int:
        """How many ads are selected."""
        constraint, _ = self.constraint(caller, query)
        return await self.questions.count(self._ads.table, constraint)

    async def count_by(self, caller: Identity, query: schedd_pb2.JobQuery) -> list[dict[str, Any]]:
        """Counts by distinct values of some attributes."""
        constraint, _ = self.constraint(caller, query)
        names = list(query.query.count_by)
        rows = await self.questions.count_by(self._ads.table, names, constraint)
        return [{**dict(zip(names, row, strict=False)), "Count": row[-1]} for row in rows]

    # ---- totals

    def header(self) -> dict[str, Any]:
        """Who answers, and when."""
        return {"Schedd": self._name, "Address": self._address, "Now": self._clock.now()}

    async def totals(
        self, caller: Identity, query: schedd_pb2.JobQuery, selected: Totals | None = None, *, superuser: bool = False
    ) -> dict[str, Any]:
        """The three lines of the footer; HTCondor's tool leaves out that of a queue superuser's own jobs."""
        mine, everyone = Totals(), Totals()
        for cluster in self._queue.clusters.values():
            if _drives(cluster):
                continue
            everyone.add(cluster.counts)
            if same_user(cluster.user, caller.name):
                mine.add(cluster.counts)
        if selected is None:
            selected = await self._selected_totals(caller, query)
        return {
            **self.header(),
            "User": caller.user,
            "SuperUser": superuser,
            "Query": selected.row(),
            "Mine": mine.row(),
            "All": everyone.row(),
        }

    async def _selected_totals(self, caller: Identity, query: schedd_pb2.JobQuery) -> Totals:
        totals = Totals()
        if query.query.limit:
            for job in await self.jobs(caller, query):
                totals.counts[job.status] += 1
            return totals
        clusters = self._whole_clusters(caller, query)
        if clusters is not None:
            for cluster in clusters:
                if not _drives(cluster):
                    totals.add(cluster.counts)
            return totals
        constraint, _ = self.constraint(caller, query)
        for row in await self.questions.count_by(self._ads.table, ["JobStatus", "JobUniverse"], constraint):
            if isinstance(row[0], int) and 0 < row[0] < 8 and row[1] != Universe.SCHEDULER:
                totals.counts[row[0]] += row[2]
        return totals

    def _whole_clusters(self, caller: Identity, query: schedd_pb2.JobQuery) -> list[Cluster] | None:
        """The clusters selected, when the selection is by owners and whole clusters only."""
        _, text = self.constraint(caller, query)
        if text or any("." in name for name in query.jobs.ids) or query.query.limit:
            return None
        owners = list(query.jobs.owners) or ([caller.user] if query.mine_only else [])
        ids = {int(name) for name in query.jobs.ids if name.isdecimal() and name.isascii()}
        return [
            cluster
            for number, cluster in sorted(self._queue.clusters.items())
            if (not owners or _is_of(cluster, owners)) and (not query.jobs.ids or number in ids)
        ]

    async def jobs(self, caller: Identity, query: schedd_pb2.JobQuery) -> Iterable[Job]:
        """The selected jobs in order."""
        clusters = self._whole_clusters(caller, query)
        if clusters is not None:
            return itertools.chain.from_iterable(cluster.jobs.values() for cluster in clusters)
        constraint, _ = self.constraint(caller, query)
        keys = await self.questions.keys(self._ads.table, constraint, query.query.limit or None)
        found = [job for key in keys if (job := self._queue.by_key(key)) is not None]
        return sorted(found, key=lambda job: (job.cluster.number, job.proc))

    # ---- the batch view

    async def batches(self, caller: Identity, query: schedd_pb2.JobQuery) -> list[dict[str, Any]]:
        """One row for each batch: owner, name, submission, counts, job ids."""
        clusters = self._whole_clusters(caller, query)
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        if clusters is not None:
            for cluster in clusters:
                row = self._batch_row(rows, cluster)
                if _drives(cluster):
                    row["Driver"] = (cluster.number, next(iter(cluster.jobs), 0))
                    continue
                for status, count in enumerate(cluster.counts):
                    row["Counts"][status] += count
                row["Done"] += cluster.done
                row["Unmade"] += cluster.unmade
                if cluster.jobs:
                    row["First"] = min(row["First"], (cluster.number, next(iter(cluster.jobs))))
                    row["Last"] = max(row["Last"], (cluster.number, next(reversed(cluster.jobs))))
        else:
            seen: set[int] = set()
            for job in await self.jobs(caller, query):
                row = self._batch_row(rows, job.cluster)
                if _drives(job.cluster):
                    row["Driver"] = (job.cluster.number, job.proc)
                    continue
                row["Counts"][job.status] += 1
                row["First"] = min(row["First"], (job.cluster.number, job.proc))
                row["Last"] = max(row["Last"], (job.cluster.number, job.proc))
                if job.cluster.number not in seen:
                    seen.add(job.cluster.number)
                    row["Members"] += len(job.cluster.jobs)
                    row["Done"] += job.cluster.done
                    row["Unmade"] += job.cluster.unmade
        return [_batch(row) for row in rows.values()]

    @staticmethod
    def _batch_row(rows: dict[tuple[str, str], dict[str, Any]], cluster: Cluster) -> dict[str, Any]:
        name = cluster.batch
        row = rows.get((cluster.owner, name))
        if row is None:
            row = rows[(cluster.owner, name)] = {
                "Owner": cluster.owner,
                "BatchName": name,
                "QDate": cluster.qdate,
                "Counts": [0] * 8,
                "Done": 0,
                "Unmade": 0,
                "Members": 0,
                "First": (1 << 40, 0),
                "Last": (-1, 0),
                "Driver": None,
            }
        return row

    # ---- factories

    def factories(self, caller: Identity, query: schedd_pb2.JobQuery) -> list[dict[str, Any]]:
        """One ad for each selected cluster whose jobs are made as there is room for them."""
        heads = [name.partition(".")[0] for name in query.jobs.ids]
        ids = {int(head) for head in heads if head.isdecimal() and head.isascii()}
        owners = list(query.jobs.owners) or ([caller.user] if query.mine_only else [])
        return [
            _factory_row(cluster, cluster.factory)
            for number, cluster in sorted(self._queue.clusters.items())
            if cluster.factory is not None and (not ids or number in ids) and (not owners or _is_of(cluster, owners))
        ]

    # ---- the table of jobs

    async def lines(self, caller: Identity, query: schedd_pb2.JobQuery) -> AsyncIterator[str]:
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
            head = ""
            if job.priority == cluster.priority and id(job.changes) in shape.shared:
                # Jobs that share their changes (or have none) differ only in their commands.
                head = rest.get((cluster.number, id(job.changes)), "")
                if not head:
                    head = rest[(cluster.number, id(job.changes))] = self._head(job, now, shape)
            tail = head or self._head(job, now, shape)
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
            rows = zip(*self._ads.table.values(names, f"ClusterId == {cluster.number}"), strict=True)
            bases: dict[Any, str] = {}
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

    def _head(self, job: Job, now: float, shape: _Shape) -> str:
        cluster = job.cluster
        wall = job.number("RemoteWallClockTime")
        if job.status in (Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT):
            wall += max(0.0, now - job.number("ShadowBday", now))
        resident = job.number("ResidentSetSize_RAW", -1)
        # As MemoryUsage, the expression that submissions carry, has it of the rounded size.
        size = (rounded(resident) + 1023) // 1024 if resident >= 0 else shape.image_mib
        letter = LETTERS[job.status] + ("c" if job in self._queue.cooling else "")
        if self.moving and job.status == Status.RUNNING:
            letter = self.moving.get(job.key, letter)
        return (
            f"{cluster.owner:<14.14} {submitted_at(cluster.qdate)} {span(wall):>12} {letter:<2} "
            f"{-job.priority[2]:<3d} {size:6.1f} "
        )


@dataclass(frozen=True)
class _Shape:
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


def span(seconds: float) -> str:
    """``D+HH:MM:SS``."""
    whole = max(0, int(seconds))
    return f"{whole // 86400}+{whole // 3600 % 24:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _is_of(cluster: Cluster, owners: Sequence[str]) -> bool:
    """Whether the jobs belong to one of ``owners``: names, with a domain or without."""
    return any(same_user(cluster.user, owner) if "@" in owner else cluster.owner == owner for owner in owners)


def _drives(cluster: Cluster) -> bool:
    """Whether it is of the scheduler universe: HTCondor counts such jobs in no total, and with no batch."""
    return cluster.universe == Universe.SCHEDULER


def _factory_row(cluster: Cluster, factory: Factory) -> dict[str, Any]:
    counts = cluster.counts
    return {
        "ClusterId": cluster.number,
        "Owner": cluster.owner,
        "QDate": cluster.qdate,
        "JobBatchName": cluster.batch_name or f"ID: {cluster.number}",
        "JobMaterializeLimit": factory.limit,
        "JobMaterializeMaxIdle": factory.max_idle,
        "JobMaterializeNextProcId": factory.next_proc,
        "JobMaterializePaused": DONE if factory.over and not factory.paused else factory.paused,
        "TotalSubmitProcs": factory.total,
        "JobsPresent": sum(counts),
        "JobsRunning": counts[2] + counts[6] + counts[7],
        "JobsIdle": counts[1],
        "JobsHeld": counts[5],
    }


def _batch(row: dict[str, Any]) -> dict[str, Any]:
    counts = row["Counts"]
    first, last = row["First"], row["Last"]
    if last[0] < 0 and row["Driver"] is not None:
        first = last = row["Driver"]  # none of its nodes is in the queue
    if last[0] < 0:
        ids = ""
    elif first == last:
        ids = f"{first[0]}.{first[1]}"
    elif first[0] == last[0]:
        ids = f"{first[0]}.{first[1]}-{last[1]}"
    else:
        ids = f"{first[0]}.{first[1]} ... {last[0]}.{last[1]}"
    return {
        "Owner": row["Owner"],
        "BatchName": row["BatchName"],
        "QDate": row["QDate"],
        "Done": row["Done"] + counts[4],
        "Run": counts[2] + counts[6] + counts[7],
        "Idle": counts[1],
        "Hold": counts[5],
        "Removed": counts[3],
        # Of the clusters, whichever of their jobs are selected.
        "Total": row["Done"] + row["Unmade"] + max(row["Members"], sum(counts)),
        "JobIds": ids,
    }


def as_json(value: object) -> bytes:
    """Compact JSON text."""
    return json.dumps(value, separators=(",", ":")).encode()


__all__ = ["Listing", "Totals", "as_json", "quoted", "span", "submitted_at"]
