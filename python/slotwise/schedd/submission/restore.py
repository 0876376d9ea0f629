"""Restores queue and ads from the store."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slotwise.classad import ClassAd
from slotwise.daemon.start_progress import Note
from slotwise.model.ownership import LocalDomains
from slotwise.schedd.jobs.ads import JobAds, fresh_ads, native, removed
from slotwise.schedd.jobs.factory import Factory
from slotwise.schedd.jobs.from_ad import PROJECT, describe, log_of, priority_of, project_of, submitter_of
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import decode
from slotwise.schedd.storage.store import StoredCluster, StoredQueue
from slotwise.table import unpack_ads

_Row = tuple[int, int, int, bytes | None, str | None]
#: Jobs between two notes of progress.
_AT_A_TIME = 20_000
_VARIES = frozenset(
    (
        "prejobprio1",
        "prejobprio2",
        "jobprio",
        "postjobprio1",
        "postjobprio2",
        "userlog",
        "iwd",
        "accountinggroup",
        "niceuser",
    )
)


def restore(
    stored: StoredQueue,
    queue: Queue,
    ads: JobAds,
    domains: LocalDomains,
    schedd_name: str,
    on_factory: Callable[[Cluster, bytes], None],
    note: Note,
) -> None:
    """Put every cluster and job of the store into the queue, each job with the id of its run.

    ``on_factory`` is called with each cluster that has a factory and the pack of its ad; ``note`` hears how many jobs
    are there.
    """
    rows: dict[int, list[_Row]] = {}
    for job in stored.jobs:
        rows.setdefault(job[0], []).append(job)
    running = {(run.cluster, run.proc): run.run_id for run in stored.runs}
    running |= {(run.cluster, run.proc): run.run_id for run in stored.local_runs}
    running |= {(node.run.cluster, node.run.proc): node.gang for node in stored.nodes}
    factories = {row.cluster: row for row in stored.factories}
    admitted, many = 0, len(stored.jobs)
    for row in stored.clusters:
        note("restores its job queue", done=admitted, of=many)
        factory = factories.get(row.cluster)
        cluster = _record(row, domains)
        if own := rows.get(row.cluster):
            tell = partial(_tell, note, admitted, many)
            _jobs(cluster, row, own, queue, ads, schedd_name, running, tell)
            admitted += len(own)
        elif factory is not None:
            queue.admit(cluster, [])
        cluster.done = stored.done.get(row.cluster, 0)
        if factory is not None:
            cluster.factory = Factory(factory.total, factory.next_proc, factory.most, factory.max_idle, factory.paused)
            on_factory(cluster, row.ad)


def projects_in(stored: StoredQueue, queue: Queue) -> set[str]:
    """The projects of restored clusters that have no record yet, as when PERSISTENT_PROJECT_RECORDS has been set."""
    known = {"", *(row.name.lower() for row in stored.projects)}
    rows = [row for row in stored.clusters if queue.clusters[row.cluster].project not in known]
    return {str(unpack_ads(row.ad)[0].get(PROJECT)) for row in rows}


def _tell(note: Note, before: int, many: int, of_cluster: int) -> None:
    if of_cluster % _AT_A_TIME == 0:
        note("restores its job queue", done=before + of_cluster, of=many)


def _record(stored: StoredCluster, domains: LocalDomains) -> Cluster:
    submitted = unpack_ads(stored.ad)[0]
    common = decode(stored.common)
    user = domains.named(str(common.get("User") or stored.owner))
    cluster = Cluster(
        stored.cluster,
        stored.owner,
        user,
        submitter_of(user, submitted),
        stored.qdate,
        common,
        domains.account_of(user),
        next_proc=stored.next_proc,
    )
    cluster.project = project_of(submitted)
    describe(cluster, submitted)
    return cluster


def _jobs(
    cluster: Cluster,
    stored: StoredCluster,
    rows: list[_Row],
    queue: Queue,
    ads: JobAds,
    schedd_name: str,
    running: dict[tuple[int, int], str],
    tell: Callable[[int], None],
) -> None:
    submitted = unpack_ads(stored.ad)[0]
    empty = ClassAd()
    deltas = [unpack_ads(row[3])[0] if row[3] else empty for row in rows]
    cluster.varied = frozenset(name.lower() for delta in deltas for name in delta)
    fresh = fresh_ads(
        cluster,
        submitted,
        [row[1] for row in rows],
        deltas,
        {"GlobalJobId": [f"{schedd_name}#{row[0]}.{row[1]}#{stored.qdate}" for row in rows]},
        dollars=b"$$(" in stored.ad
        or any(row[3] and b"$$(" in row[3] for row in rows)
        or any("$$(" in (row[4] or "") for row in rows),
    )
    ads.insert(fresh)
    jobs: list[Job] = []
    for count, (row, delta) in enumerate(zip(rows, deltas, strict=True)):
        tell(count)
        job = Job(cluster, row[1], row[2])
        job.run = running.get((row[0], row[1]), "")
        changes = decode(row[4])
        if changes:
            job.changes = changes
            job.cool_from, job.cool_until = job.number("LastVacateTime"), job.number("JobCoolDownExpiration")
            ads.set(job.key, changes)
            if matched := int(job.number("FirstJobMatchDate")):
                cluster.first_match = min(matched, cluster.first_match or matched)
        names = {name.lower() for name in changes} | {name.lower() for name in delta}
        if names & _VARIES:
            own = submitted.copy()
            own.update(delta)
            own.update(native(changes))
            for name in removed(changes):
                own.pop(name, None)
            job.priority, job.log = priority_of(own), log_of(own)
            job.submitter = submitter_of(cluster.user, own)
        jobs.append(job)
    queue.admit(cluster, jobs)
