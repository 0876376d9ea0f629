"""The client for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from slotwise.classad import ClassAd
from slotwise.client import messages
from slotwise.client.cluster_ids import ReservedIds
from slotwise.client.messages import ActResult, Description, SubmitResult
from slotwise.client.pool import Pool
from slotwise.client.retry import Keys, RetryPolicy, stated
from slotwise.client.streams import AsyncStream
from slotwise.submit import Submission
from slotwise.table import unpack_ads
from slotwise.wire import channel
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error


class AsyncSchedd:
    """As :class:`Schedd`, in coroutines. Make it inside a running event loop."""

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        token: str | None = None,
        env: Mapping[str, str] | None = None,
        patience_s: float = 30.0,
    ) -> None:
        self._pool = Pool(home, token, env)
        self._channel = channel.open_async(self._pool.target)
        self._stub = schedd_pb2_grpc.ScheddStub(self._channel)
        self._ids = ReservedIds()
        self._keys = Keys()
        self._patience = RetryPolicy(patience_s)
        self._stream = AsyncStream(self._stub, self._pool.metadata, self._patience)

    async def close(self) -> None:
        """Close the connection."""
        await self._stream.close()
        await self._channel.close()

    async def __aenter__(self) -> AsyncSchedd:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def submit(self, description: Description, count: int | None = None) -> SubmitResult:
        """Queue the jobs of a submit description; all of them or none. Many of these may be under way at once."""
        submission, first = await self._read(description, count)
        key = self._keys.next()
        if (bundle := messages.small_bundle(submission, first, key)) is not None:
            return messages.result(await self._stream.submit(bundle), submission)

        async def send(again: bool) -> schedd_pb2.SubmitReply:
            parts = messages.parts(submission, first, key, again)
            reply: schedd_pb2.SubmitReply = await stated(self._stub.Submit(parts, metadata=self._pool.metadata()))
            return reply

        return messages.result(await self._patience.acall(send), submission)

    async def _read(self, description: Description, count: int | None) -> tuple[Submission, int]:
        """The submission, and its first cluster id when its text needs that before it is sent, else 0."""
        candidate = self._ids.likely()
        submission = self._pool.read(description, count, candidate)
        if not submission.mentions_cluster:
            return submission, 0
        needed = len(submission.clusters)
        if not self._ids.enough(needed):
            asked = schedd_pb2.ReserveClustersRequest(count=self._ids.block(needed))
            reply = await self._patience.acall(
                lambda again: self._stub.ReserveClusters(asked, metadata=self._pool.metadata())
            )
            self._ids.refill(reply.first, asked.count)
        first = self._ids.use(needed)
        if first != candidate:
            submission = self._pool.read(description, count, first)
        return submission, first

    async def query(
        self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0, mine: bool = False
    ) -> list[ClassAd]:
        """Jobs in the queue for which ``constraint`` is true."""
        return [ad async for ad in self._ads(self._stub.Query, messages.job_query(constraint, projection, limit, mine))]

    async def history(self, constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0) -> list[ClassAd]:
        """Jobs that have left the queue, newest first."""
        query = schedd_pb2.HistoryQuery(query=messages.job_query(constraint, projection, limit, False).query)
        return [ad async for ad in self._ads(self._stub.History, query)]

    async def _ads(self, ask: Any, query: Any) -> AsyncIterator[ClassAd]:
        try:
            async for chunk in ask(query, metadata=self._pool.metadata()):
                if chunk.data:
                    for ad in unpack_ads(chunk.data):
                        yield ad
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the schedd") from None

    async def act(self, action: str, jobs: str | Iterable[str], *, reason: str = "", subcode: int = 0) -> ActResult:
        """Act on jobs: a constraint, or ids."""
        return await self._done(self._stub.Act, messages.act(action, jobs, reason, subcode))

    async def edit(self, jobs: str | Iterable[str], attributes: Mapping[str, Any]) -> ActResult:
        """Set attributes of jobs."""
        return await self._done(self._stub.Edit, messages.edit(jobs, attributes))

    async def _done(self, call: Any, request: Any) -> ActResult:
        try:
            return ActResult(dict((await call(request, metadata=self._pool.metadata())).totals))
        except grpc.RpcError as failure:
            raise to_error(failure, peer="the schedd") from None
