"""The result of a description: clusters with their jobs."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from slotwise._native import SubmissionData
from slotwise.classad import ClassAd
from slotwise.submit.dag_files import nodes_total
from slotwise.table import pack_ads

#: Jobs per message when a cluster is sent in parts.
BATCH = 5_000
#: Bytes of such a message.
BATCH_BYTES = 1024 * 1024


class Cluster(Struct, frozen=True):
    """The jobs of one cluster. ``count`` jobs share the cluster's ad; each may differ in attributes of its own."""

    data: SubmissionData
    index: int
    count: int

    @property
    def ad(self) -> ClassAd:
        """The attributes that all jobs share: everything but ids."""
        ad = self.data.cluster_ad(self.index)
        if (limit := self.data.max_materialize) is not None:
            ad["JobMaterializeLimit"] = limit
        if (nodes := nodes_total(ad)) is not None:
            ad["DAG_NodesTotal"] = nodes
        return ad

    def pack(self) -> bytes:
        """The cluster's ad as a pack of one."""
        ad = self.ad
        plain = self.data.max_materialize is None and "DAG_NodesTotal" not in ad
        return self.data.cluster_pack(self.index) if plain else pack_ads([ad])

    def job_set(self) -> bytes:
        """What the description says about the cluster's set, as a pack of one ad; empty if that is nothing."""
        return self.data.job_set_pack(self.index)

    def deltas(self, first: int = 0, end: int | None = None) -> bytes:
        """Differences of jobs ``first`` to ``end`` as a pack of one ad each; empty if there are none."""
        return self.data.delta_pack(self.index, first, self.count if end is None else end)

    def batches(self, size: int = BATCH, most: int = BATCH_BYTES) -> Iterator[tuple[int, bytes]]:
        """All jobs in parts of at most ``size``, and of at most ``most`` bytes if a job fits: their number and their
        differences.
        """
        first = 0
        while first < self.count:
            end = min(first + size, self.count)
            packed = self.deltas(first, end)
            while len(packed) > most and end - first > 1:
                size = (end - first) // 2
                end = first + size
                packed = self.deltas(first, end)
            yield end - first, packed
            first = end

    def job(self, proc: int) -> ClassAd:
        """The whole ad of one job, without ids."""
        ad = self.data.job_ad(self.index, proc)
        return ad


class Submission(Struct, frozen=True):
    """A description that was read.

    ``mentions_cluster``: file names or other values contain the cluster id, so that the ids have to be reserved first,
    and the description read again with them.
    """

    clusters: tuple[Cluster, ...]
    warnings: tuple[str, ...]
    mentions_cluster: bool
    max_materialize: int | None = None

    @property
    def count(self) -> int:
        """The number of jobs of all clusters."""
        return sum(cluster.count for cluster in self.clusters)

    @property
    def is_late(self) -> bool:
        """Whether the schedd materializes the jobs as there is room for them."""
        return self.max_materialize is not None or any("JobMaterializeMaxIdle" in made.ad for made in self.clusters)
