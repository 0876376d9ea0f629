"""Slotwise from Python: submit jobs, look at them, act on them.

>>> schedd = Schedd()                                       # the pool named by SLOTWISE_HOME
>>> result = schedd.submit({"executable": "/bin/sleep", "arguments": "10"}, count=5)
>>> schedd.query(f"ClusterId == {result.cluster}", ["ProcId", "JobStatus"])
>>> schedd.act("hold", f"ClusterId == {result.cluster}", reason="later")

:class:`AsyncSchedd` has the same calls as coroutines; many may be under way at once, and the schedd makes those that
arrive together durable together.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from slotwise.classad import ClassAd, ExprTree
from slotwise.config import Config, load
from slotwise.errors import SubmitError, UsageError
from slotwise.home import PoolHome
from slotwise.submit import Submission, parse
from slotwise.table import unpack_ads
from slotwise.wire import address, channel, security
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

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
#: Jobs to a message; larger submissions go in parts.
_ONE_MESSAGE = 5_000
#: Submissions under way at once in ``submit_many``.
_AHEAD = 64


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


class _Pool:
    """What both clients know of their pool."""

    def __init__(self, home: str | Path | None, token: str | None, env: Mapping[str, str] | None) -> None:
        self.env = dict(os.environ if env is None else env)
        if home is not None:
            self.env["SLOTWISE_HOME"] = str(home)
        self.home = PoolHome.from_env(self.env)
        self.metadata = channel.token_metadata(token or security.find_token(self.home, self.env))
        self.target = address.lookup(self.home, "schedd").target
        self._config: Config | None = None
        try:
            self.owner = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            self.owner = self.env.get("USER", "")

    @property
    def config(self) -> Config:
        """The configuration that submissions read."""
        if self._config is None:
            self._config = load(subsystem="SUBMIT", env=self.env, home=self.home)
        return self._config

    def read(self, description: Description, count: int | None, first_cluster: int = 0) -> Submission:
        """The submission that a description makes.

        :raises SubmitError: for a description that makes no jobs, or that is wrong.
        """
        text, queue = _text(description, count)
        submission = parse(
            text,
            filename="<python>",
            cwd=Path.cwd(),
            env=self.env,
            config=self.config,
            queue_args=queue,
            owner=self.owner,
            first_cluster=first_cluster or None,
        )
        if not submission.count:
            raise SubmitError("no jobs queued", hint="give a count, or a queue statement")
        return submission


def _text(description: Description, count: int | None) -> tuple[str, str | None]:
    """Text of a description, and the queue statement's arguments if they do not stand in it."""
    if isinstance(description, str):
        return description, str(count) if count is not None else None
    lines = [f"{key} = {_value(value)}" for key, value in description.items()]
    return "\n".join(lines) + "\n", str(1 if count is None else count)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _bundle(submission: Submission, first: int) -> schedd_pb2.SubmitBundle:
    bundle = schedd_pb2.SubmitBundle(client="python")
    for place, cluster in enumerate(submission.clusters):
        bundle.clusters.add(
            cluster_ad=cluster.pack(),
            procs=schedd_pb2.ProcBatch(count=cluster.count, deltas=cluster.deltas()),
            cluster_id=first + place if first else 0,
        )
    return bundle


def _parts(submission: Submission, first: int) -> Iterator[schedd_pb2.SubmitPart]:
    for place, cluster in enumerate(submission.clusters):
        opened = schedd_pb2.ClusterSubmission(cluster_ad=cluster.pack(), cluster_id=first + place if first else 0)
        yield schedd_pb2.SubmitPart(open_cluster=opened)
        for count, deltas in cluster.batches():
            yield schedd_pb2.SubmitPart(more_procs=schedd_pb2.ProcBatch(count=count, deltas=deltas))
    yield schedd_pb2.SubmitPart(commit=True)


def _result(reply: schedd_pb2.SubmitReply, submission: Submission) -> SubmitResult:
    return SubmitResult(
        tuple(cluster.cluster_id for cluster in reply.clusters),
        tuple(cluster.num_procs for cluster in reply.clusters),
        (*submission.warnings, *reply.warnings),
    )


def _selection(jobs: str | ExprTree | Iterable[str]) -> schedd_pb2.JobSelection:
    """A constraint, or ids."""
    if isinstance(jobs, str | ExprTree):
        text = str(jobs)
        if text.replace(".", "", 1).isdigit():
            return schedd_pb2.JobSelection(ids=[text])
        return schedd_pb2.JobSelection(constraint=text)
    return schedd_pb2.JobSelection(ids=list(jobs))


def _action(name: str) -> schedd_pb2.ActRequest.Action:
    found = _ACTIONS.get(name.lower())
    if found is None:
        raise UsageError(f"there is no action {name!r}", hint=f"one of {', '.join(_ACTIONS)}")
    return found


def _job_query(constraint: str, projection: Sequence[str], limit: int, mine: bool) -> schedd_pb2.JobQuery:
    query = schedd_pb2.JobQuery(mine_only=mine)
    query.query.constraint = constraint
    query.query.projection.extend(projection)
    query.query.limit = limit
    return query


def _edit(jobs: str | Iterable[str], attributes: Mapping[str, Any]) -> schedd_pb2.EditRequest:
    holder = ClassAd()
    request = schedd_pb2.EditRequest(jobs=_selection(jobs))
    for name, value in attributes.items():
        holder[name] = value
        request.set[name] = str(holder.lookup(name))
    return request


class Schedd:
    """The pool's schedd. Calls block; errors are those of :mod:`slotwise.errors`.

    :param home: the pool's state directory; ``SLOTWISE_HOME`` or the default when None.
    :param token: the caller's token; that of ``SLOTWISE_TOKEN_FILE``, or the pool owner's, when None.
    """

    def __init__(
        self, home: str | Path | None = None, *, token: str | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self._pool = _Pool(home, token, env)
        self._channel = channel.open_blocking(self._pool.target)
        self._stub = schedd_pb2_grpc.ScheddStub(self._channel)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> Schedd:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, description: Description, count: int | None = None) -> SubmitResult:
        """Queue the jobs of a submit description (its text, or its statements as a mapping); all of them or none.

        ``count`` takes the place of the description's queue statement.
        """
        submission = self._pool.read(description, count)
        first = 0
        try:
            if submission.mentions_cluster:
                asked = schedd_pb2.ReserveClustersRequest(count=len(submission.clusters))
                first = self._stub.ReserveClusters(asked, metadata=self._pool.metadata).first
                submission = self._pool.read(description, count, first)
            if submission.count <= _ONE_MESSAGE:
                reply = self._stub.SubmitOne(_bundle(submission, first), metadata=self._pool.metadata)
            else:
                reply = self._stub.Submit(_parts(submission, first), metadata=self._pool.metadata)
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the schedd") from None
        return _result(reply, submission)

    def submit_many(self, descriptions: Iterable[Description]) -> Iterator[SubmitResult]:
        """Queue many submissions, each a transaction of its own, with several under way at once; results in order."""
        waiting: list[tuple[Any, Submission]] = []
        try:
            for description in descriptions:
                submission = self._pool.read(description, None)
                call = self._stub.SubmitOne.future(_bundle(submission, 0), metadata=self._pool.metadata)
                waiting.append((call, submission))
                if len(waiting) >= _AHEAD:
                    call, submission = waiting.pop(0)
                    yield _result(call.result(), submission)
            for call, submission in waiting:
                yield _result(call.result(), submission)
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the schedd") from None

    def query(
        self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0, mine: bool = False
    ) -> list[ClassAd]:
        """Jobs in the queue for which ``constraint`` is true."""
        return self._ads(self._stub.Query, _job_query(constraint, projection, limit, mine))

    def history(self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0) -> list[ClassAd]:
        """Jobs that have left the queue, newest first."""
        query = schedd_pb2.HistoryQuery(query=_job_query(constraint, projection, limit, False).query)
        return self._ads(self._stub.History, query)

    def _ads(self, ask: Any, query: Any) -> list[ClassAd]:
        found: list[ClassAd] = []
        try:
            for chunk in ask(query, metadata=self._pool.metadata):
                if chunk.data:
                    found.extend(unpack_ads(chunk.data))
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the schedd") from None
        return found

    def act(self, action: str, jobs: str | Iterable[str], *, reason: str = "", subcode: int = 0) -> ActResult:
        """``remove``, ``hold``, ``release``, ``suspend``, ``continue`` or ``vacate`` jobs: a constraint, or ids."""
        request = schedd_pb2.ActRequest(action=_action(action), jobs=_selection(jobs), reason=reason, subcode=subcode)
        return self._done(self._stub.Act, request)

    def edit(self, jobs: str | Iterable[str], attributes: Mapping[str, Any]) -> ActResult:
        """Set attributes of jobs to values or expressions (:class:`~slotwise.classad.ExprTree`)."""
        return self._done(self._stub.Edit, _edit(jobs, attributes))

    def _done(self, call: Any, request: Any) -> ActResult:
        try:
            return ActResult(dict(call(request, metadata=self._pool.metadata).totals))
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the schedd") from None


class AsyncSchedd:
    """As :class:`Schedd`, in coroutines. Make it inside a running event loop."""

    def __init__(
        self, home: str | Path | None = None, *, token: str | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self._pool = _Pool(home, token, env)
        self._channel = channel.open_async(self._pool.target)
        self._stub = schedd_pb2_grpc.ScheddStub(self._channel)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncSchedd:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def submit(self, description: Description, count: int | None = None) -> SubmitResult:
        """Queue the jobs of a submit description; all of them or none."""
        submission = self._pool.read(description, count)
        first = 0
        try:
            if submission.mentions_cluster:
                asked = schedd_pb2.ReserveClustersRequest(count=len(submission.clusters))
                first = (await self._stub.ReserveClusters(asked, metadata=self._pool.metadata)).first
                submission = self._pool.read(description, count, first)
            if submission.count <= _ONE_MESSAGE:
                reply = await self._stub.SubmitOne(_bundle(submission, first), metadata=self._pool.metadata)
            else:
                reply = await self._stub.Submit(_parts(submission, first), metadata=self._pool.metadata)
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the schedd") from None
        return _result(reply, submission)

    async def query(
        self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0, mine: bool = False
    ) -> list[ClassAd]:
        """Jobs in the queue for which ``constraint`` is true."""
        return [ad async for ad in self._ads(self._stub.Query, _job_query(constraint, projection, limit, mine))]

    async def history(self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0) -> list[ClassAd]:
        """Jobs that have left the queue, newest first."""
        query = schedd_pb2.HistoryQuery(query=_job_query(constraint, projection, limit, False).query)
        return [ad async for ad in self._ads(self._stub.History, query)]

    async def _ads(self, ask: Any, query: Any) -> AsyncIterator[ClassAd]:
        try:
            async for chunk in ask(query, metadata=self._pool.metadata):
                if chunk.data:
                    for ad in unpack_ads(chunk.data):
                        yield ad
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the schedd") from None

    async def act(self, action: str, jobs: str | Iterable[str], *, reason: str = "", subcode: int = 0) -> ActResult:
        """Act on jobs: a constraint, or ids."""
        request = schedd_pb2.ActRequest(action=_action(action), jobs=_selection(jobs), reason=reason, subcode=subcode)
        return await self._done(self._stub.Act, request)

    async def edit(self, jobs: str | Iterable[str], attributes: Mapping[str, Any]) -> ActResult:
        """Set attributes of jobs."""
        return await self._done(self._stub.Edit, _edit(jobs, attributes))

    async def _done(self, call: Any, request: Any) -> ActResult:
        try:
            return ActResult(dict((await call(request, metadata=self._pool.metadata)).totals))
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the schedd") from None
