"""The broker: hosts that nobody can connect to keep a stream to it, and connect when it says that somebody calls.

What it passes on between the two is encrypted from end to end: it reads nothing of it, and cannot answer in the name of
a host, whose certificate the caller checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import grpc
from msgspec import Struct, field

from slotwise.clock import Clock
from slotwise.daemon import reach
from slotwise.errors import BusyError, UsageError
from slotwise.model.broker_statistics import BrokerStatistics
from slotwise.model.windows import Window
from slotwise.shared_port.listening import Caller, Passage
from slotwise.shared_port.request import Request, reply
from slotwise.shared_port.waiting import Book
from slotwise.wire import call
from slotwise.wire.context import Context
from slotwise.wire.gen import shared_port_pb2, shared_port_pb2_grpc
from slotwise.wire.status import answers_errors

_log = logging.getLogger(__name__)

#: How long a host may take to connect, in seconds: less than callers wait for a connection.
_CONNECT_S = 15.0
#: Requests that a host has not been told yet.
_UNTOLD_MOST = 256
#: Hosts that register by one connection: a host has its own, and one more for a moment when it registers again.
_OF_CONNECTION_MOST = 4
#: How long a stream may take to say which host it is for, in seconds.
_GREETING_S = 20.0


class _Caller(Struct):
    """A caller that waits: the connection of its host, or why there is none."""

    found: asyncio.Future[socket.socket | int]
    #: Set when the caller's end of the connection is over.
    over: asyncio.Event = field(default_factory=asyncio.Event)


class _Host(Struct, eq=False):
    """A host that is registered."""

    name: str
    requests: asyncio.Queue[shared_port_pb2.ConnectionRequest | None] = field(
        default_factory=lambda: asyncio.Queue(_UNTOLD_MOST)
    )


class Broker(shared_port_pb2_grpc.BrokerServicer):
    """The registered hosts, and the callers that wait for one of them to connect."""

    def __init__(self, passage: Passage, clock: Clock, window: Window | None = None) -> None:
        self._passage = passage
        self._clock = clock
        self.statistics = BrokerStatistics(window or Window())
        #: Set when there is something new in the statistics.
        self.counted = asyncio.Event()
        self._hosts: dict[str, _Host] = {}
        #: By connection, the streams of hosts, also of those that have not said yet which.
        self._streams: Counter[str] = Counter()
        self._book: Book[_Caller] = Book(lambda: secrets.token_hex(16))
        passage.brokering = self.serve

    @property
    def registered(self) -> int:
        """How many hosts can be reached through this broker."""
        return len(self._hosts)

    @answers_errors
    async def Register(
        self, request: AsyncIterator[shared_port_pb2.Registration], context: Context
    ) -> AsyncIterator[shared_port_pb2.ConnectionRequest]:
        """Keep a host reachable for as long as its stream lasts."""
        with self._one_of(str(context.peer() or "")):
            try:
                async with asyncio.timeout(_GREETING_S):
                    first = await anext(aiter(request), None)
            except TimeoutError:
                raise UsageError(f"the stream of a host has not said which in {_GREETING_S:g} s") from None
            async for wanted in self._registered(first, request, context):
                yield wanted

    @contextlib.contextmanager
    def _one_of(self, connection: str) -> Iterator[None]:
        """One stream more of a connection. Whoever may advertise may register any number of hosts, each with a secret
        that it makes up, and its connections are what is bounded.

        :raises BusyError: it has too many.
        """
        if self._streams[connection] >= _OF_CONNECTION_MOST:
            raise BusyError(
                f"{_OF_CONNECTION_MOST} hosts are registered by this connection",
                hint="a host has a connection of its own",
            )
        self._streams[connection] += 1
        try:
            yield
        finally:
            self._streams[connection] -= 1
            if not self._streams[connection]:
                del self._streams[connection]

    async def _registered(
        self,
        first: shared_port_pb2.Registration | None,
        request: AsyncIterator[shared_port_pb2.Registration],
        context: Context,
    ) -> AsyncIterator[shared_port_pb2.ConnectionRequest]:
        if first is None or not 32 <= len(first.host_secret) <= 200:
            raise UsageError("the first message of a host has its secret")
        host_id = reach.id_of(first.host_secret)
        caller = call.identity.get()
        host = _Host(caller.name if caller is not None else "a host")
        former = self._hosts.get(host_id)
        if former is not None:
            _end(former)  # its connection may be dead without a word
            self._count(CCBReconnects=1)
        else:
            self._move(CCBEndpointsRegistered=1)
        self._move(CCBEndpointsConnected=1)
        self._hosts[host_id] = host
        _log.info("%s at %s is reached through this broker as %s", host.name, call.peer_of(context), host_id)
        listening = asyncio.create_task(self._hear(request, host, host_id))
        try:
            yield shared_port_pb2.ConnectionRequest(host_id=host_id)
            while (wanted := await host.requests.get()) is not None:
                yield wanted
        finally:
            listening.cancel()
            self._move(CCBEndpointsConnected=-1)
            if self._hosts.get(host_id) is host:
                del self._hosts[host_id]
                self._move(CCBEndpointsRegistered=-1)
                _log.info("%s is not reached through this broker any more", host.name)

    async def _hear(self, request: AsyncIterator[shared_port_pb2.Registration], host: _Host, host_id: str) -> None:
        """Take what a host could not connect, and end its registration with its stream: no later one of that host."""
        try:
            async for said in request:
                if self._refuse(said.connection, 502, host_id):
                    _log.info("a host could not connect: %s", said.error[:200])
        except (grpc.RpcError, grpc.aio.AbortError):
            pass
        finally:
            _end(host)

    def _refuse(self, name: str, status: int, host_id: str | None = None) -> bool:
        """Answer the caller that waits under a name (for the host), if there is one."""
        refused = self._book.take(name, host_id)
        if refused is None or refused.found.done():
            return False
        refused.found.set_result(status)
        return True

    async def serve(self, request: Request, caller: Caller, taken: socket.socket) -> None:
        """A caller for a registered host, or such a host for a caller that waits."""
        assert request.asked is not None
        if request.asked.secret:
            await self._join(request, taken)
        else:
            await self._wait(request, caller, taken)

    async def _wait(self, request: Request, caller: Caller, taken: socket.socket) -> None:
        """Have the host connect, and pass on between the two."""
        assert request.asked is not None
        host_id, loop = request.asked.host_id, asyncio.get_running_loop()
        host = self._hosts.get(host_id)
        self._count(CCBRequests=1, CCBStreamingRequests=1)
        if host is not None and (crowding := self._book.makes_room(host_id, caller.network)) is not None:
            self._refuse(crowding, 429)
        status = 503 if host is None else 0 if self._book.may_wait(host_id, caller.network) else 429
        if host is None or status:
            self._count(CCBRequestsNotFound=int(host is None), CCBRequestsFailed=int(host is not None))
            await loop.sock_sendall(taken, reply(status))
            return
        found: socket.socket | int | None = None
        waiting = _Caller(loop.create_future())
        name = self._book.wait(host_id, caller.network, waiting)
        self._move(CCBStreamingHandshakesActive=1)
        try:
            wanted = shared_port_pb2.ConnectionRequest(connection=name, sock=request.asked.sock, caller=caller.shown)
            host.requests.put_nowait(wanted)
            async with asyncio.timeout(_CONNECT_S):
                found = await waiting.found
            if isinstance(found, int):
                await loop.sock_sendall(taken, reply(found))
                return
            self._count(CCBRequestsSucceeded=1, CCBStreamingSessions=1)
            with self._session():
                await loop.sock_sendall(found, reply(200))
                await loop.sock_sendall(taken, reply(200))
                if request.rest:
                    await loop.sock_sendall(found, request.rest)
                await self._passage.splice(taken, found, lambda count: self._count(CCBStreamingBytes=count))
        except asyncio.QueueFull:
            await loop.sock_sendall(taken, reply(429))
        except TimeoutError:
            with contextlib.suppress(OSError):
                await loop.sock_sendall(taken, reply(504))
        finally:
            self._book.take(name)
            waiting.over.set()
            if not isinstance(found, socket.socket):
                self._move(CCBStreamingHandshakesActive=-1)
                self._count(CCBRequestsFailed=1)

    @contextlib.contextmanager
    def _session(self) -> Iterator[None]:
        """While bytes are passed on between a caller and its host."""
        self._move(CCBStreamingHandshakesActive=-1, CCBStreamingActive=1)
        try:
            yield
        except (OSError, BaseExceptionGroup):
            self._count(CCBStreamingFailed=1)
            raise
        finally:
            self._move(CCBStreamingActive=-1)

    def _count(self, **amounts: int) -> None:
        self.statistics.add(self._clock.now(), **amounts)
        self.counted.set()

    def _move(self, **amounts: int) -> None:
        self.statistics.move(**amounts)
        self.counted.set()

    async def _join(self, request: Request, taken: socket.socket) -> None:
        """Give the connection of a host to the caller that waits for it, which passes on from there."""
        assert request.asked is not None
        waiting = self._book.take(request.asked.secret)
        if waiting is None or waiting.found.done():
            await asyncio.get_running_loop().sock_sendall(taken, reply(404))
            return
        waiting.found.set_result(taken)
        await waiting.over.wait()


def _end(host: _Host) -> None:
    while host.requests.full():
        host.requests.get_nowait()
    host.requests.put_nowait(None)
