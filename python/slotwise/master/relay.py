"""Relays queries about the pool for users of this host, who have no token for the central manager's daemons.

The kernel says who asks here; the collector and the negotiator are asked with the host's own proof, and told on whose
behalf: the user needs READ by the lists here and by theirs. Only queries are relayed, only for users of this host, and
only a few at a time; the replies are streamed.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import grpc

from slotwise.authorization.policy import LOCAL_METHOD
from slotwise.daemon.locate import collector_target, negotiator_target
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import BusyError, DeniedError
from slotwise.wire import channel
from slotwise.wire.context import Context
from slotwise.wire.gate import FOR_USER
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, negotiator_pb2, negotiator_pb2_grpc
from slotwise.wire.status import answers_errors, to_error

#: The most queries relayed at a time: in all, and for one user.
_MOST, _MOST_OF_USER = 16, 4
#: How long a reply may take, in seconds.
_ANSWER_S = 120.0


#: What a call shows of its caller.
Shown = tuple[tuple[str, str | bytes], ...]


class Relay:
    """What both services share: who may ask, how many at a time, and the credentials of the relayed call."""

    def __init__(self, context: DaemonContext) -> None:
        self._context = context
        self._asking: Counter[str] = Counter()

    @contextlib.contextmanager
    def admitted(self, context: Context) -> Iterator[str]:
        """The user on whose behalf a query is relayed.

        :raises DeniedError: the caller is not a user of this host with READ.
        :raises BusyError: too many queries are under way.
        """
        caller = self._context.authenticator.caller(context)
        if caller.method != LOCAL_METHOD or not caller.may("READ"):
            raise DeniedError(
                f"questions about the pool are passed on for users of this host with READ, and not for {caller.name}",
                hint="ask the daemon of the central manager itself",
            )
        if self._asking[caller.name] >= _MOST_OF_USER or self._asking.total() >= _MOST:
            raise BusyError("too many questions about the pool are under way on this host", hint="ask again later")
        self._asking[caller.name] += 1
        try:
            yield caller.name
        finally:
            self._asking[caller.name] -= 1
            if not self._asking[caller.name]:
                del self._asking[caller.name]

    def metadata(self, target: str, user: str) -> Shown:
        """The host's proof, and the user on whose behalf it is presented."""
        return (*self._context.credential.metadata(target), (FOR_USER, user.encode()))

    @property
    def context(self) -> DaemonContext:
        """The master's."""
        return self._context


class CollectorRelay(collector_pb2_grpc.CollectorServicer):
    """Relays queries for ads to the pool's collector."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    @answers_errors
    async def Query(self, request: common_pb2.AdQuery, context: Context) -> AsyncIterator[common_pb2.AdChunk]:
        """The pool's ads."""
        with self._relay.admitted(context) as user:
            target = collector_target(self._relay.context)
            async with channel.open_async(target) as opened:
                stub = collector_pb2_grpc.CollectorStub(opened)
                shown = self._relay.metadata(target, user)
                try:
                    async for chunk in stub.Query(request, metadata=shown, timeout=_ANSWER_S):
                        yield chunk
                except grpc.RpcError as error:
                    raise to_error(error, peer="the collector") from None


class NegotiatorRelay(negotiator_pb2_grpc.NegotiatorServicer):
    """Relays to the pool's negotiator what users of the host ask: priorities, the last cycle, why a job waits."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    @contextlib.asynccontextmanager
    async def _asking(self, context: Context) -> AsyncIterator[tuple[negotiator_pb2_grpc.NegotiatorStub, Shown]]:
        """The negotiator, and what is shown to it on behalf of the caller.

        :raises DeniedError: as :meth:`Relay.admitted`; and what the negotiator answers.
        """
        with self._relay.admitted(context) as user:
            try:
                target = await negotiator_target(self._relay.context)
                async with channel.open_async(target) as opened:
                    yield negotiator_pb2_grpc.NegotiatorStub(opened), self._relay.metadata(target, user)
            except grpc.RpcError as error:
                raise to_error(error, peer="the negotiator") from None

    @answers_errors
    async def Analyze(self, request: negotiator_pb2.AnalyzeRequest, context: Context) -> negotiator_pb2.AnalyzeReply:
        """Why a job is not matched."""
        async with self._asking(context) as (stub, shown):
            reply: negotiator_pb2.AnalyzeReply = await stub.Analyze(request, metadata=shown, timeout=_ANSWER_S)
        return reply

    @answers_errors
    async def LastCycle(self, request: common_pb2.Empty, context: Context) -> negotiator_pb2.LastCycleReply:
        """The last cycle."""
        async with self._asking(context) as (stub, shown):
            reply: negotiator_pb2.LastCycleReply = await stub.LastCycle(request, metadata=shown, timeout=_ANSWER_S)
        return reply

    @answers_errors
    async def Accounting(self, request: common_pb2.AdQuery, context: Context) -> AsyncIterator[common_pb2.AdChunk]:
        """Priorities and usage of submitters."""
        async with self._asking(context) as (stub, shown):
            async for chunk in stub.Accounting(request, metadata=shown, timeout=_ANSWER_S):
                yield chunk
