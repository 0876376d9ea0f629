"""How many jobs may be submitted: MAX_JOBS_SUBMITTED, MAX_JOBS_PER_OWNER and MAX_JOBS_PER_SUBMISSION."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slotwise.classad import ClassAd
from slotwise.errors import DeniedError
from slotwise.model.ownership import owner_of
from slotwise.schedd.jobs.factory import asked_for
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.submission.new_cluster import SubmittedCluster, submitted_ad
from slotwise.schedd.submission.underway import UnderwaySubmissions


class SubmitLimits(Protocol):
    """The three limits."""

    @property
    def jobs_most(self) -> int: ...
    @property
    def jobs_per_owner_most(self) -> int: ...
    @property
    def jobs_per_submission_most(self) -> int: ...


def check_limits(
    user: str, clusters: Sequence[SubmittedCluster], limits: SubmitLimits, queue: Queue, underway: UnderwaySubmissions
) -> list[ClassAd]:
    """Check the limits before any job is built; returns the clusters' ads.

    As in HTCondor, jobs that are materialized late count when they are materialized. A cluster without jobs counts
    as one: otherwise a user could have any number of clusters.

    :raises DeniedError: when a limit would be exceeded, UsageError for a cluster that is not valid.
    """
    if len(clusters) > limits.jobs_per_submission_most:
        raise _exceeded("MAX_JOBS_PER_SUBMISSION", limits.jobs_per_submission_most, f"{len(clusters)} clusters")
    ads = [submitted_ad(cluster.cluster_ad) for cluster in clusters]
    wanted = late = 0
    for cluster, ad in zip(clusters, ads, strict=True):
        count = cluster.announced()
        if asked_for(ad, count) is None:
            wanted += count
        else:
            late += 1
    if wanted > limits.jobs_per_submission_most:
        raise _exceeded(
            "MAX_JOBS_PER_SUBMISSION",
            limits.jobs_per_submission_most,
            f"{wanted} jobs",
            hint="with max_idle or max_materialize in the description jobs are made as there is room for them, and any "
            "number may be submitted",
        )
    wanted += late
    there = sum(queue.counts()) + underway.jobs()
    if there + wanted > limits.jobs_most:
        raise _exceeded("MAX_JOBS_SUBMITTED", limits.jobs_most, f"{there} jobs and {wanted} more")
    own = queue.owned.get(user, 0) + underway.jobs_of(user)
    if late:
        own += sum(1 for each in queue.clusters.values() if each.user == user and not each.jobs)
    if own + wanted > limits.jobs_per_owner_most:
        there_are = f"{own} of {owner_of(user)} and {wanted} more"
        raise _exceeded("MAX_JOBS_PER_OWNER", limits.jobs_per_owner_most, there_are)
    return ads


def _exceeded(knob: str, limit: int, what: str, *, hint: str | None = None) -> DeniedError:
    return DeniedError(f"Number of submitted jobs would exceed {knob} ({limit}): {what}", hint=hint)
