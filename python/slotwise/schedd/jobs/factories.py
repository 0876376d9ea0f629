"""Decides when factories pause, resume and end. Pure."""

from __future__ import annotations

from typing import Protocol

from slotwise.model import job_events
from slotwise.model.job_events import Frame
from slotwise.model.reason_codes import Hold
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.factory import HELD, REMOVED, RUNNING
from slotwise.schedd.jobs.job import Cluster, Job


class Clusters(Protocol):
    """The clusters of the queue."""

    def whole(self, cluster: Cluster) -> Job:
        """A job that stands for the cluster as a whole in its event log."""
        ...

    def frame(self, job: Job, now: float) -> Frame:
        """The head of a log entry of ``job``."""
        ...

    def close(self, cluster: Cluster, decision: Decision) -> None:
        """Remove a cluster that has no jobs and gets none any more."""
        ...


def pause(clusters: Clusters, cluster: Cluster, reason: str, decision: Decision) -> bool:
    """Pause materialization until :func:`resume`; false when it is paused or over."""
    factory = cluster.factory
    if factory is None or factory.over or factory.paused:
        return False
    factory.paused = HELD
    decision.factories.append(cluster)
    whole = clusters.whole(cluster)
    decision.log(whole, job_events.factory_paused(clusters.frame(whole, decision.now), reason, HELD, Hold.USER_REQUEST))
    decision.note("cluster %d: materialization paused: %s", cluster.number, reason)
    return True


def resume(clusters: Clusters, cluster: Cluster, reason: str, decision: Decision) -> bool:
    """Resume materialization; false unless it was paused."""
    factory = cluster.factory
    if factory is None or factory.paused != HELD:
        return False
    factory.paused = RUNNING
    decision.factories.append(cluster)
    whole = clusters.whole(cluster)
    decision.log(whole, job_events.factory_resumed(clusters.frame(whole, decision.now), reason))
    decision.note("cluster %d: materialization resumed: %s", cluster.number, reason)
    return True


def end(clusters: Clusters, cluster: Cluster, decision: Decision) -> bool:
    """End materialization; false when all jobs are materialized."""
    factory = cluster.factory
    if factory is None or factory.over:
        return False
    factory.paused = REMOVED
    decision.factories.append(cluster)
    made, total = factory.next_proc, factory.total
    decision.note("cluster %d: materialization ended after %d of %d jobs", cluster.number, made, total)
    if not cluster.jobs:
        clusters.close(cluster, decision)
    return True
