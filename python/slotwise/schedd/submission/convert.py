"""Submissions between messages and the values that the schedd decides on."""

from __future__ import annotations

from collections.abc import Sequence

from slotwise.errors import SlotwiseError
from slotwise.schedd.submission.new_cluster import ProcBatch, SubmittedCluster
from slotwise.schedd.submission.submissions import QueuedCluster, SubmitResult
from slotwise.wire.gen import schedd_pb2
from slotwise.wire.status import detail


def submitted_cluster(message: schedd_pb2.ClusterSubmission) -> SubmittedCluster:
    """A cluster that came in one message, or the first part of one."""
    return SubmittedCluster(message.cluster_ad, [proc_batch(message.procs)], message.cluster_id, message.job_set_ad)


def proc_batch(message: schedd_pb2.ProcBatch) -> ProcBatch:
    """A batch of jobs of a cluster."""
    return ProcBatch(message.count, message.deltas)


def reply(result: SubmitResult) -> schedd_pb2.SubmitReply:
    """The answer to a submission that was queued."""
    message = schedd_pb2.SubmitReply(warnings=result.warnings)
    for cluster in result.clusters:
        message.clusters.add(cluster_id=cluster.cluster_id, first_proc=0, num_procs=cluster.num_procs)
    return message


def answers(results: Sequence[SubmitResult | SlotwiseError]) -> schedd_pb2.SubmitAnswers:
    """The answers to the submissions of one frame, in order."""
    message = schedd_pb2.SubmitAnswers()
    for result in results:
        if isinstance(result, SlotwiseError):
            message.answers.add(error=detail(result))
        else:
            message.answers.add(reply=reply(result))
    return message


def to_bytes(result: SubmitResult) -> bytes:
    """The form in which the store keeps a result, should the submission be sent again."""
    return reply(result).SerializeToString()


def from_bytes(stored: bytes) -> SubmitResult:
    """The result from the bytes of :func:`to_bytes`."""
    message = schedd_pb2.SubmitReply.FromString(stored)
    clusters = tuple(QueuedCluster(one.cluster_id, one.num_procs) for one in message.clusters)
    return SubmitResult(clusters, tuple(message.warnings))
