"""Requests to the schedd and its replies: their values to and from protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slotwise.classad import ClassAd, ExprTree, Value
from slotwise.client.spool import without_log
from slotwise.errors import UsageError
from slotwise.submit import Submission
from slotwise.wire.gen import common_pb2, schedd_pb2
from slotwise.wire.sizes import PIECE

#: Jobs: a constraint or a job's id as text or expression, or ids.
Jobs = str | ExprTree | Iterable[str]

_ACTIONS = {
    "remove": schedd_pb2.ActRequest.REMOVE,
    "transfer_and_remove": schedd_pb2.ActRequest.TRANSFER_AND_REMOVE,
    "remove_force": schedd_pb2.ActRequest.REMOVE_FORCE,
    "hold": schedd_pb2.ActRequest.HOLD,
    "release": schedd_pb2.ActRequest.RELEASE,
    "suspend": schedd_pb2.ActRequest.SUSPEND,
    "continue": schedd_pb2.ActRequest.CONTINUE,
    "vacate": schedd_pb2.ActRequest.VACATE,
    "vacate_fast": schedd_pb2.ActRequest.VACATE_FAST,
}
_USER_CHANGES = {
    "add": schedd_pb2.UsersEdit.ADD,
    "enable": schedd_pb2.UsersEdit.ENABLE,
    "disable": schedd_pb2.UsersEdit.DISABLE,
    "edit": schedd_pb2.UsersEdit.EDIT,
    "remove": schedd_pb2.UsersEdit.REMOVE,
}
#: The most jobs in a message; submissions with more, or with more bytes than a piece, are sent in parts.
ONE_MESSAGE = 5_000


@dataclass(frozen=True)
class Credentials:
    """Which credentials an access point has of a user: when each file was written (seconds since the epoch)."""

    user: str
    files: Mapping[str, float]
    #: One waits for its token.
    pending: bool = False
    #: What the user should know.
    note: str = ""

    @classmethod
    def of(cls, message: schedd_pb2.CredentialState) -> Credentials:
        """From the schedd's reply."""
        return cls(message.user, dict(message.files), message.pending, message.note)


@dataclass(frozen=True)
class SubmitResult:
    """The outcome of a submission: cluster ids and numbers of jobs."""

    clusters: tuple[int, ...]
    counts: tuple[int, ...]
    warnings: tuple[str, ...] = ()
    #: Number of each cluster's first job here.
    first_procs: tuple[int, ...] = field(default=(), repr=False)
    #: The submission, whose files :meth:`Schedd.spool` sends.
    submission: Submission | None = field(default=None, repr=False, compare=False)

    @property
    def cluster(self) -> int:
        """The (first) cluster."""
        return self.clusters[0]

    @property
    def count(self) -> int:
        """The number of jobs."""
        return sum(self.counts)


@dataclass(frozen=True)
class ActResult:
    """Number of jobs by result: ``success``, ``not_found``, ``permission_denied``, ``bad_status``, ``already_done``,
    ``limit_exceeded``.

    :param jobs: the result of each id that was named, as far as the schedd says it.
    """

    totals: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def succeeded(self) -> int:
        """The number of jobs that were changed."""
        return self.totals.get("success", 0)


@dataclass(frozen=True)
class Sending:
    """How a submission is sent.

    :param key: tells it from all others: one that is sent twice is queued once.
    :param first: its first cluster id if reserved, else 0.
    :param spool: its files follow, and its event log begins at the access point.
    :param again: it may have been sent before.
    :param client: the program that submits, for the schedd's log.
    """

    key: bytes
    first: int = 0
    spool: bool = False
    again: bool = False
    client: str = "python"

    def cluster_id(self, place: int) -> int:
        """The id of the cluster at ``place``; 0 if the schedd assigns one."""
        return self.first + place if self.first else 0

    def pack(self, ads: bytes) -> bytes:
        """A pack of ads in the form that is sent to the schedd."""
        return without_log(ads) if self.spool else ads


def bundle(submission: Submission, how: Sending) -> schedd_pb2.SubmitBundle:
    """A submission as one message."""
    made = schedd_pb2.SubmitBundle(client=how.client, key=how.key, again=how.again)
    for place, cluster in enumerate(submission.clusters):
        made.clusters.add(
            cluster_ad=how.pack(cluster.pack()),
            procs=schedd_pb2.ProcBatch(count=cluster.count, deltas=how.pack(cluster.deltas())),
            cluster_id=how.cluster_id(place),
            job_set_ad=cluster.job_set(),
        )
    return made


def weight(made: schedd_pb2.SubmitBundle) -> int:
    """About the number of bytes in a message."""
    return sum(
        len(cluster.cluster_ad) + len(cluster.job_set_ad) + len(cluster.procs.deltas) + 64 for cluster in made.clusters
    )


def small_bundle(submission: Submission, how: Sending) -> schedd_pb2.SubmitBundle | None:
    """A submission as one message; None if it has to be sent in parts."""
    if submission.count > ONE_MESSAGE:
        return None
    made = bundle(submission, how)
    return made if weight(made) <= PIECE else None


def parts(submission: Submission, how: Sending, again: bool) -> Iterator[schedd_pb2.SubmitPart]:
    """A submission in parts; ``again``: it was sent before."""
    yield schedd_pb2.SubmitPart(key=how.key, again=again)
    for place, cluster in enumerate(submission.clusters):
        ad = how.pack(cluster.pack())
        yield schedd_pb2.SubmitPart(
            open_cluster=schedd_pb2.ClusterSubmission(
                cluster_ad=ad, cluster_id=how.cluster_id(place), job_set_ad=cluster.job_set()
            )
        )
        for count, deltas in cluster.batches():
            yield schedd_pb2.SubmitPart(more_procs=schedd_pb2.ProcBatch(count=count, deltas=how.pack(deltas)))
    yield schedd_pb2.SubmitPart(commit=True)


def result(reply: schedd_pb2.SubmitReply, submission: Submission) -> SubmitResult:
    """The schedd's reply, with the warnings of reading."""
    return SubmitResult(
        tuple(cluster.cluster_id for cluster in reply.clusters),
        tuple(cluster.num_procs for cluster in reply.clusters),
        (*submission.warnings, *reply.warnings),
        tuple(cluster.first_proc for cluster in reply.clusters),
        submission,
    )


def selection(jobs: Jobs) -> schedd_pb2.JobSelection:
    """A constraint, or ids."""
    if isinstance(jobs, str | ExprTree):
        words = str(jobs)
        if words.replace(".", "", 1).isdigit():
            return schedd_pb2.JobSelection(ids=[words])
        return schedd_pb2.JobSelection(constraint=words)
    return schedd_pb2.JobSelection(ids=list(jobs))


def action(name: str) -> schedd_pb2.ActRequest.Action:
    """An action by its name.

    :raises UsageError: there is no such action.
    """
    found = _ACTIONS.get(name.lower())
    if found is None:
        raise UsageError(f"there is no action {name!r}", hint=f"one of {', '.join(_ACTIONS)}")
    return found


def act(name: str, jobs: Jobs, reason: str, subcode: int) -> schedd_pb2.ActRequest:
    """An action on jobs."""
    return schedd_pb2.ActRequest(action=action(name), jobs=selection(jobs), reason=reason, subcode=subcode)


def job_query(
    constraint: str, projection: Sequence[str], limit: int = 0, mine: bool = False, totals: bool = False, view: str = ""
) -> schedd_pb2.JobQuery:
    """A query for ads of jobs, or of a view of them (``jobset``); with ``totals``, for the numbers of jobs alone."""
    query = schedd_pb2.JobQuery(mine_only=mine, totals_only=totals, view=view)
    query.query.constraint = constraint
    query.query.projection.extend(projection)
    query.query.limit = limit
    return query


def acted(reply: schedd_pb2.ActReply) -> ActResult:
    """The numbers of a reply."""
    return ActResult(dict(reply.totals), {one.id: one.result for one in reply.jobs})


def users_query(constraint: str, projection: Sequence[str]) -> common_pb2.AdQuery:
    """A query for records of users."""
    return common_pb2.AdQuery(kind="Owner", constraint=constraint, projection=projection)


def history_query(
    constraint: str, projection: Sequence[str], limit: int, since: str, kinds: Sequence[str] | None = None
) -> schedd_pb2.HistoryQuery:
    """A query for jobs that have left the queue; ``since``: a job, a cluster or an expression at which it ends.
    ``kinds``: for the records of runs of these kinds instead, of all where none is named."""
    query = schedd_pb2.HistoryQuery(since=since, runs=kinds is not None, kinds=kinds or ())
    query.query.CopyFrom(job_query(constraint, projection, limit).query)
    return query


def users_edit(
    what: str, users: Iterable[str] | ExprTree, reason: str, attributes: Mapping[str, Value]
) -> schedd_pb2.UsersEdit:
    """A change of the records of users.

    :raises UsageError: there is no such change.
    """
    if what not in _USER_CHANGES:
        raise UsageError(f"there is no change {what!r} of users", hint=f"one of {', '.join(_USER_CHANGES)}")
    request = schedd_pb2.UsersEdit(what=_USER_CHANGES[what], reason=reason)
    if isinstance(users, ExprTree):
        request.constraint = str(users)
    else:
        request.names.extend([users] if isinstance(users, str) else users)
    for name, text in _texts(attributes):
        request.set[name] = text
    return request


def edit(jobs: Jobs, attributes: Mapping[str, Value]) -> schedd_pb2.EditRequest:
    """A change of attributes to values or expressions."""
    request = schedd_pb2.EditRequest(jobs=selection(jobs))
    for name, text in _texts(attributes):
        request.set[name] = text
    return request


def _texts(attributes: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """Attributes with the texts of their values or expressions."""
    holder = ClassAd()
    for name, value in attributes.items():
        holder[name] = value
        yield name, str(holder.lookup(name))
