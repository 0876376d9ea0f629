"""The blocking client."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from slotwise.classad import ClassAd
from slotwise.client import messages
from slotwise.client.cluster_ids import ReservedIds
from slotwise.client.messages import ActResult, Description, SubmitResult
from slotwise.client.pool import Pool
from slotwise.client.retry import Keys, RetryPolicy
from slotwise.client.streams import BlockingStream
from slotwise.submit import Submission
from slotwise.table import unpack_ads
from slotwise.wire import channel
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

#: Submissions that may wait for their answers in ``submit_many``.
_AHEAD = 256
#: How long one of them waits for others to share its frame.
_GATHER_S = 0.002


class Schedd:
    """The pool's schedd. Calls block; errors are those of :mod:`slotwise.errors`.

    :param home: the pool's state directory; ``SLOTWISE_HOME`` or the default when None.
    :param token: the caller's token; that of ``SLOTWISE_TOKEN_FILE`` when None; on the pool's own host none is needed.
    :param patience_s: how long submissions wait for a schedd that went away; none of them is queued twice.
    """

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        token: str | None = None,
        env: Mapping[str, str] | None = None,
        patience_s: float = 30.0,
    ) -> None:
        self._pool = Pool(home, token, env)
        self._channel = channel.open_blocking(self._pool.target)
        self._stub = schedd_pb2_grpc.ScheddStub(self._channel)
        self._ids = ReservedIds()
        self._keys = Keys()
        self._patience = RetryPolicy(patience_s)
        self._local = threading.local()
        self._streams: weakref.WeakSet[BlockingStream] = weakref.WeakSet()

    def close(self) -> None:
        """Close the connection."""
        for stream in list(self._streams):
            stream.close()
        self._channel.close()

    def __enter__(self) -> Schedd:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, description: Description, count: int | None = None) -> SubmitResult:
        """Queue the jobs of a submit description (its text, or its statements as a mapping); all of them or none.

        ``count`` takes the place of the description's queue statement. Durable when it returns.
        """
        return self._submit(*self._read(description, count))

    def submit_many(self, descriptions: Iterable[Description]) -> Iterator[SubmitResult]:
        """Queue many submissions, each of which stands or falls alone; results in the order of the descriptions.

        Several are under way at once: results come while later descriptions are read. The first refusal is raised in
        its place; of the submissions behind it some may be queued already. Cluster ids mostly ascend, but not always:
        descriptions that name their cluster, and those sent again after a break, may have lower or higher ones.
        """
        stream = BlockingStream(self._stub, self._pool.metadata, self._patience, gather_s=_GATHER_S)
        waiting: deque[Submission] = deque()
        try:
            for description in descriptions:
                submission, first = self._read(description, None)
                bundle = messages.small_bundle(submission, first, self._keys.next())
                if bundle is None:
                    while waiting:
                        yield messages.result(stream.answer(), waiting.popleft())
                    yield self._submit(submission, first)
                    continue
                stream.send(bundle)
                waiting.append(submission)
                if len(waiting) >= _AHEAD:
                    yield messages.result(stream.answer(), waiting.popleft())
            while waiting:
                yield messages.result(stream.answer(), waiting.popleft())
        finally:
            stream.close()

    def _read(self, description: Description, count: int | None) -> tuple[Submission, int]:
        """The submission, and its first cluster id when its text needs that before it is sent, else 0."""
        candidate = self._ids.likely()
        submission = self._pool.read(description, count, candidate)
        if not submission.mentions_cluster:
            return submission, 0
        first = self._ids.take(len(submission.clusters), self._reserve)
        if first != candidate:
            submission = self._pool.read(description, count, first)
        return submission, first

    def _reserve(self, count: int) -> int:
        asked = schedd_pb2.ReserveClustersRequest(count=count)
        reply = self._patience.call(lambda again: self._stub.ReserveClusters(asked, metadata=self._pool.metadata()))
        return int(reply.first)

    def _submit(self, submission: Submission, first: int) -> SubmitResult:
        key = self._keys.next()
        if (bundle := messages.small_bundle(submission, first, key)) is not None:
            stream = self._own_stream()
            stream.send(bundle)
            return messages.result(stream.answer(), submission)

        def send(again: bool) -> schedd_pb2.SubmitReply:
            parts = messages.parts(submission, first, key, again)
            reply: schedd_pb2.SubmitReply = self._stub.Submit(parts, metadata=self._pool.metadata())
            return reply

        return messages.result(self._patience.call(send), submission)

    def _own_stream(self) -> BlockingStream:
        """This thread's stream of submissions."""
        stream: BlockingStream | None = getattr(self._local, "stream", None)
        if stream is None:
            stream = self._local.stream = BlockingStream(self._stub, self._pool.metadata, self._patience)
            self._streams.add(stream)
        return stream

    def query(
        self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0, mine: bool = False
    ) -> list[ClassAd]:
        """Jobs in the queue for which ``constraint`` is true."""
        return self._ads(self._stub.Query, messages.job_query(constraint, projection, limit, mine))

    def history(self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0) -> list[ClassAd]:
        """Jobs that have left the queue, newest first."""
        query = schedd_pb2.HistoryQuery(query=messages.job_query(constraint, projection, limit, False).query)
        return self._ads(self._stub.History, query)

    def _ads(self, ask: Any, query: Any) -> list[ClassAd]:
        found: list[ClassAd] = []
        try:
            for chunk in ask(query, metadata=self._pool.metadata()):
                if chunk.data:
                    found.extend(unpack_ads(chunk.data))
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the schedd") from None
        return found

    def act(self, action: str, jobs: str | Iterable[str], *, reason: str = "", subcode: int = 0) -> ActResult:
        """``remove``, ``hold``, ``release``, ``suspend``, ``continue`` or ``vacate`` jobs: a constraint, or ids."""
        return self._done(self._stub.Act, messages.act(action, jobs, reason, subcode))

    def edit(self, jobs: str | Iterable[str], attributes: Mapping[str, Any]) -> ActResult:
        """Set attributes of jobs to values or expressions (:class:`~slotwise.classad.ExprTree`)."""
        return self._done(self._stub.Edit, messages.edit(jobs, attributes))

    def _done(self, call: Any, request: Any) -> ActResult:
        try:
            return ActResult(dict(call(request, metadata=self._pool.metadata()).totals))
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the schedd") from None
