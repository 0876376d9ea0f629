"""Submissions that were checked, and their answers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from slotwise.errors import SlotwiseError
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import LogLine
from slotwise.schedd.jobs.log_lines import jobs_of
from slotwise.schedd.submission.new_cluster import NewJobs

_CLUSTERS_IN_LINE = 50


class QueuedCluster(NamedTuple):
    """A cluster that was queued: its id, and the number of its jobs, whose procs start at 0."""

    cluster_id: int
    num_procs: int


class SubmitResult(NamedTuple):
    """The answer to a submission that was queued."""

    clusters: tuple[QueuedCluster, ...]
    warnings: tuple[str, ...] = ()


class Submission(Struct, dict=True):
    """A submission that was checked and has its ids: queued as a whole or not at all."""

    #: ``user@domain``.
    user: str
    clusters: list[NewJobs]
    #: Identifies it should it be sent again; empty: it never is.
    key: bytes = b""
    #: The address it came from.
    peer: str = ""
    #: Who sent it: the user, or a queue superuser.
    sender: str = ""

    @property
    def count(self) -> int:
        """Jobs of all its clusters."""
        return sum(len(new.jobs) for new in self.clusters)

    @property
    def brings_work(self) -> bool:
        """Whether any of its jobs may start, now or once it is materialized."""
        return any(new.parts or any(job.status == Status.IDLE for job in new.jobs) for new in self.clusters)

    @cached_property
    def result(self) -> SubmitResult:
        """The answer to the caller."""
        return SubmitResult(
            tuple(QueuedCluster(new.cluster.number, new.cluster.next_proc) for new in self.clusters),
            tuple(dict.fromkeys(text for new in self.clusters for text in (*new.warnings, *new.notices))),
        )


#: A submission after its check: itself, why it is refused, or the answer that it got before.
Checked = Submission | SlotwiseError | SubmitResult


def submitted(submission: Submission) -> Iterator[LogLine]:
    """The log lines about a submission that is durable: one for many clusters, however many jobs they have."""
    clusters = [jobs_of(new.cluster) for new in submission.clusters]
    user, peer = submission.clusters[0].cluster.user, submission.peer or "an unknown address"
    for first in range(0, len(clusters), _CLUSTERS_IN_LINE):
        names = ", ".join(clusters[first : first + _CLUSTERS_IN_LINE])
        yield ("%s: submitted by %s from %s", names, user, peer)
