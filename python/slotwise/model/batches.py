"""Jobs by batch, from numbers of jobs by their attributes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from slotwise.classad.values import whole

#: The attributes by which :func:`batches` wants jobs counted.
BATCH_ATTRIBUTES = ("JobBatchName", "Cmd", "JobStatus")
#: The same, for the numbers of jobs that were submitted. Without ``User``, batches of two users with one name are one.
PROGRESS_ATTRIBUTES = ("User", *BATCH_ATTRIBUTES, "ClusterId", "TotalSubmitProcs", "JobMaterializeLimit")
_COMPLETED = 4


class Batch(Struct, frozen=True):
    """Jobs of one batch that are in the queue: how many, by JobStatus.

    :param submitted: jobs that the clusters of the batch had at first; None where that is not known, as while jobs are
        still materialized.
    """

    name: str
    counts: Mapping[int, int]
    user: str = ""
    submitted: int | None = None

    def of(self, status: int) -> int:
        """Jobs in this state."""
        return self.counts.get(status, 0)

    @property
    def jobs(self) -> int:
        """All jobs."""
        return sum(self.counts.values())

    @property
    def done(self) -> int | None:
        """Jobs that are completed or have left the queue; None where that is not known."""
        return None if self.submitted is None else max(0, self.submitted - self.jobs) + self.of(_COMPLETED)


def batches(rows: Iterable[Mapping[str, object]]) -> tuple[Batch, ...]:
    """The batches of jobs that were counted by :data:`BATCH_ATTRIBUTES` or :data:`PROGRESS_ATTRIBUTES`, those with the
    most running jobs first. Jobs without a batch name are in one batch with those of the same program."""
    counts: dict[tuple[str, str], Counter[int]] = {}
    clusters: dict[tuple[str, str], dict[int, int | None]] = {}
    for row in rows:
        name, user = row.get("JobBatchName"), row.get("User")
        key = (
            name if isinstance(name, str) else str(row.get("Cmd")).rpartition("/")[2],
            user if isinstance(user, str) else "",
        )
        own, status = counts.setdefault(key, Counter()), whole(row.get("JobStatus"))
        own[status] += whole(row.get("Count"))
        total = row.get("TotalSubmitProcs")
        known = isinstance(total, int) and not isinstance(row.get("JobMaterializeLimit"), int)
        clusters.setdefault(key, {})[whole(row.get("ClusterId"))] = whole(total) if known else None
    found = []
    for (name, user), own in counts.items():
        totals = [total for total in clusters[name, user].values() if total is not None]
        complete = len(totals) == len(clusters[name, user])
        found.append(Batch(name, own, user, sum(totals) if complete else None))
    return tuple(sorted(found, key=lambda batch: (-batch.of(2), -batch.jobs, batch.name, batch.user)))
