"""What calls to the schedd send and bring back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import UsageError
from slotwise.submit import Submission
from slotwise.wire.gen import schedd_pb2
from slotwise.wire.sizes import PIECE

#: The text of a submit description, or its statements.
Description = str | Mapping[str, Any]

_ACTIONS = {
    "remove": schedd_pb2.ActRequest.REMOVE,
    "remove_force": schedd_pb2.ActRequest.REMOVE_FORCE,
    "hold": schedd_pb2.ActRequest.HOLD,
    "release": schedd_pb2.ActRequest.RELEASE,
    "suspend": schedd_pb2.ActRequest.SUSPEND,
    "continue": schedd_pb2.ActRequest.CONTINUE,
    "vacate": schedd_pb2.ActRequest.VACATE,
    "vacate_fast": schedd_pb2.ActRequest.VACATE_FAST,
}
#: Jobs to a message; submissions that have more, or more bytes than a piece, go in parts.
ONE_MESSAGE = 5_000


@dataclass(frozen=True)
class SubmitResult:
    """What a submission made: cluster ids and numbers of jobs."""

    clusters: tuple[int, ...]
    counts: tuple[int, ...]
    warnings: tuple[str, ...] = ()

    @property
    def cluster(self) -> int:
        """The (first) cluster."""
        return self.clusters[0]

    @property
    def count(self) -> int:
        """Jobs in all."""
        return sum(self.counts)


@dataclass(frozen=True)
class ActResult:
    """Number of jobs by result: ``success``, ``not_found``, ``permission_denied``, ``bad_status``, ``already_done``."""

    totals: dict[str, int] = field(default_factory=dict)

    @property
    def succeeded(self) -> int:
        """Jobs that were changed."""
        return self.totals.get("success", 0)


def text(description: Description, count: int | None) -> tuple[str, str | None]:
    """Text of a description, and the queue statement's arguments if they do not stand in it."""
    if isinstance(description, str):
        return description, str(count) if count is not None else None
    lines = [f"{key} = {_value(value)}" for key, value in description.items()]
    return "\n".join(lines) + "\n", str(1 if count is None else count)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def bundle(submission: Submission, first: int, key: bytes) -> schedd_pb2.SubmitBundle:
    """A submission as one message; ``first`` is its first cluster id when reserved, else 0."""
    made = schedd_pb2.SubmitBundle(client="python", key=key)
    for place, cluster in enumerate(submission.clusters):
        made.clusters.add(
            cluster_ad=cluster.pack(),
            procs=schedd_pb2.ProcBatch(count=cluster.count, deltas=cluster.deltas()),
            cluster_id=first + place if first else 0,
        )
    return made


def weight(made: schedd_pb2.SubmitBundle) -> int:
    """About how many bytes a message holds."""
    return sum(len(cluster.cluster_ad) + len(cluster.procs.deltas) + 64 for cluster in made.clusters)


def small_bundle(submission: Submission, first: int, key: bytes) -> schedd_pb2.SubmitBundle | None:
    """A submission as one message; None when it has to go in parts."""
    if submission.count > ONE_MESSAGE:
        return None
    made = bundle(submission, first, key)
    return made if weight(made) <= PIECE else None


def parts(submission: Submission, first: int, key: bytes, again: bool) -> Iterator[schedd_pb2.SubmitPart]:
    """A submission in parts; ``again`` when it was sent before."""
    yield schedd_pb2.SubmitPart(key=key, again=again)
    for place, cluster in enumerate(submission.clusters):
        opened = schedd_pb2.ClusterSubmission(cluster_ad=cluster.pack(), cluster_id=first + place if first else 0)
        yield schedd_pb2.SubmitPart(open_cluster=opened)
        for count, deltas in cluster.batches():
            yield schedd_pb2.SubmitPart(more_procs=schedd_pb2.ProcBatch(count=count, deltas=deltas))
    yield schedd_pb2.SubmitPart(commit=True)


def result(reply: schedd_pb2.SubmitReply, submission: Submission) -> SubmitResult:
    """What the schedd answered, with the warnings of reading."""
    return SubmitResult(
        tuple(cluster.cluster_id for cluster in reply.clusters),
        tuple(cluster.num_procs for cluster in reply.clusters),
        (*submission.warnings, *reply.warnings),
    )


def selection(jobs: str | ExprTree | Iterable[str]) -> schedd_pb2.JobSelection:
    """A constraint, or ids."""
    if isinstance(jobs, str | ExprTree):
        words = str(jobs)
        if words.replace(".", "", 1).isdigit():
            return schedd_pb2.JobSelection(ids=[words])
        return schedd_pb2.JobSelection(constraint=words)
    return schedd_pb2.JobSelection(ids=list(jobs))


def action(name: str) -> schedd_pb2.ActRequest.Action:
    """An action by its name.

    :raises UsageError: for a name that is none.
    """
    found = _ACTIONS.get(name.lower())
    if found is None:
        raise UsageError(f"there is no action {name!r}", hint=f"one of {', '.join(_ACTIONS)}")
    return found


def act(name: str, jobs: str | ExprTree | Iterable[str], reason: str, subcode: int) -> schedd_pb2.ActRequest:
    """An action on jobs."""
    return schedd_pb2.ActRequest(action=action(name), jobs=selection(jobs), reason=reason, subcode=subcode)


def job_query(constraint: str, projection: Sequence[str], limit: int, mine: bool) -> schedd_pb2.JobQuery:
    """A query for ads of jobs."""
    query = schedd_pb2.JobQuery(mine_only=mine)
    query.query.constraint = constraint
    query.query.projection.extend(projection)
    query.query.limit = limit
    return query


def edit(jobs: str | Iterable[str], attributes: Mapping[str, Any]) -> schedd_pb2.EditRequest:
    """A change of attributes to values or expressions."""
    holder = ClassAd()
    request = schedd_pb2.EditRequest(jobs=selection(jobs))
    for name, value in attributes.items():
        holder[name] = value
        request.set[name] = str(holder.lookup(name))
    return request
