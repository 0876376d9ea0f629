"""The rows of new clusters and jobs in the store, and the entries about them in event logs."""

from __future__ import annotations

from collections.abc import Callable

from slotwise.classad import ClassAd
from slotwise.model import job_events
from slotwise.schedd.jobs.ads import native
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes, encode, literal
from slotwise.schedd.storage.store import Batch, StoredCluster, StoredFactory
from slotwise.schedd.submission.new_cluster import NewJobs
from slotwise.table import pack_ads


class NewRows:
    """Makes what becomes durable of new jobs."""

    def __init__(
        self, queue: Queue, host: str, logs_everyone: Callable[[], bool], tells_of_everyone: Callable[[], bool]
    ) -> None:
        """
        :param host: the access point's address, as event logs show it.
        :param logs_everyone: whether there is a log of the events of all jobs.
        :param tells_of_everyone: whether that log tells of attributes of the jobs.
        """
        self._tells_of_everyone = tells_of_everyone
        self._queue = queue
        self.host = host
        self._logs_everyone = logs_everyone

    def cluster_rows(self, new: NewJobs, batch: Batch, decision: Decision) -> None:
        """Put the rows and log entries of a new cluster, and of its jobs, into a batch and a decision."""
        cluster, factory = new.cluster, new.cluster.factory
        batch.insert_cluster(
            StoredCluster(
                cluster.number, cluster.owner, cluster.qdate, cluster.next_proc, new.pack, encode(cluster.common)
            )
        )
        if factory is not None:
            row = StoredFactory(cluster.number, factory.total, 0, factory.limit, factory.max_idle, factory.paused)
            batch.insert_factory(row, new.parts)
            whole = self._queue.whole(cluster)
            frame = self._queue.frame(whole, decision.now)
            decision.log(whole, job_events.cluster_submitted(frame, self.host, *_notes(new.submitted)))
        self.job_rows(new, batch, decision)

    def job_rows(self, new: NewJobs, batch: Batch, decision: Decision) -> None:
        """Put the rows and log entries of new jobs into a batch and a decision."""
        if not new.jobs:
            return
        number = new.cluster.number
        packs: list[bytes | None] = (
            [pack_ads([delta]) if len(delta) else None for delta in new.deltas]
            if new.deltas is not None
            else [None] * len(new.jobs)
        )
        first = new.jobs[0].changes
        text = encode(first) if first else None  # nearly always one for all
        batch.insert_jobs(
            [
                (number, job.proc, job.status, pack, _changes_text(job.changes, first, text))
                for job, pack in zip(new.jobs, packs, strict=True)
            ]
        )
        self._log_submission(new, decision)

    def _log_submission(self, new: NewJobs, decision: Decision) -> None:
        everyone = self._logs_everyone()
        logged = [(nth, job) for nth, job in enumerate(new.jobs) if job.is_logged or (everyone and job.is_told_of)]
        if not logged:
            return
        host = self.host
        shared = _notes(new.submitted)
        for nth, job in logged:
            delta = None if new.deltas is None else new.deltas[nth]
            differs = delta is not None and any(name in delta for name in _IN_NOTES)
            log_notes, user_notes = _notes(new.submitted, delta) if differs else shared
            frame = self._queue.frame(job, decision.now)
            if new.cluster.told_attrs or (everyone and self._tells_of_everyone()):
                decision.new_ads[job] = _whole_ad(new, job, delta)
            # As in HTCondor, the log of a job that is submitted on hold does not mention the hold.
            decision.log(job, job_events.submitted(frame, host, log_notes, user_notes, "; ".join(new.warnings)))


def _whole_ad(new: NewJobs, job: Job, delta: ClassAd | None) -> ClassAd:
    """The ad that a new job will have."""
    ad = new.submitted.copy()
    ad.update(native(new.cluster.common))
    ad.update(delta or {})
    ad.update(native({**(job.changes or {}), "ProcId": job.proc}))
    return ad


#: What the notes of a submit event are made of.
_IN_NOTES = ("SubmitEventNotes", "SubmitEventUserNotes", "DAGNodeName", "JobBatchName")


def _notes(shared: ClassAd, delta: ClassAd | None = None) -> tuple[str, str]:
    """The two notes of a job's submit event: what its cluster's ad says unless its own, ``delta``, says otherwise."""
    values = [(shared if delta is None or name not in delta else delta).get(name) for name in _IN_NOTES]
    log_notes, user_notes, *told = (value if isinstance(value, str) else "" for value in values)
    fields = [f"{name} = {literal(value)}" for name, value in zip(_IN_NOTES[2:], told, strict=True) if value]
    if fields:  # they take the place of the notes, as in HTCondor; condor_dagman finds its node by the first
        log_notes = f"[ {'; '.join(fields)} ]"
    return log_notes, user_notes


def _changes_text(changes: Changes | None, known: Changes | None, text: str | None) -> str | None:
    if not changes:
        return None
    return text if changes is known else encode(changes)
