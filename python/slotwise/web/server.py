"""Serves HTTP in the event loop of the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import time
from asyncio import sslproto
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from slotwise.config import Config
from slotwise.daemon import owner, privileges, tasks
from slotwise.daemon.host_faults import is_shortage
from slotwise.daemon.registry import DAEMONS
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import HostError
from slotwise.observe.outage import Outage
from slotwise.web.access import Gate
from slotwise.web.api import application
from slotwise.web.exposition import Scraper
from slotwise.web.pool_client import PoolClient
from slotwise.web.settings import WebSettings
from slotwise.web.trend import Trend, watch
from slotwise.wire import call
from slotwise.wire.local_peer import account_over_loopback

_log = logging.getLogger(__name__)
#: How long requests under way may take when the service ends, in seconds.
_GRACE_S = 2
#: How long an idle connection is kept, in seconds.
_IDLE_S = 30
#: How long a caller may take to send a request, head and body, in seconds.
_REQUEST_S = 30
#: How often it is looked whether a caller takes what is sent to it, in seconds, and the bytes that it has to have taken
#: meanwhile unless it has taken all.
_STALL_S, _TAKEN_LEAST = 10, 16 * 1024
#: A body of which at least so many bytes came within the time for a request has as much time again: files are large.
_CAME_LEAST = 256 * 1024
#: The part of all connections that one caller may have.
_SHARE_EACH = 4
#: How long a caller may take for the handshake of TLS, in seconds, and how many times the connections that are answered
#: there may be with those that are at it.
HANDSHAKE_S, _WITH_HANDSHAKES = 10.0, 2


#: Connections that may wait to be accepted. asyncio tries as many in one turn, also when the first finds no descriptor.
_BACKLOG = 128


class Accepting:
    """Tells of connections that are not accepted for want of descriptors or memory: at the beginning, now and then, and
    at the end. asyncio reports it once a second for each connection that might wait, with a trace each time.

    It is the handler of an event loop's exceptions.
    """

    def __init__(self) -> None:
        self._outage = Outage(_log)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Take what the loop reports; of other exceptions what is usual becomes."""
        error = context.get("exception")
        if isinstance(error, OSError) and is_shortage(error.errno) and "socket" in context:
            text = "connections wait to be accepted: %s (errno %d)"
            self._outage.failed(time.monotonic(), text, os.strerror(error.errno or 0), error.errno)
        else:
            loop.default_exception_handler(context)

    def works(self) -> None:
        """A connection has been accepted."""
        self._outage.over(time.monotonic(), "connections are accepted")


class Peers:
    """The connections of each caller: an account where they come over the loopback interface, else an address.

    :param most: those of all callers together, handshakes included.
    """

    def __init__(self, most_each: int, most: int) -> None:
        self.most_each, self.most = most_each, most
        self.accepting = Accepting()
        self._open: dict[str, dict[Connection | Handshake, None]] = {}

    def enter(self, connection: Connection | Handshake) -> str:
        """Count a connection; where there are too many of its caller, the oldest that waits for a request makes room,
        and where there are too many in all, the oldest of the caller that has the most.

        :returns: its caller; empty: it is not taken.
        """
        self.accepting.works()
        who = _whose(connection)
        own = self._open.get(who, {})
        crowded = own if len(own) >= self.most_each else None
        if crowded is None and sum(map(len, self._open.values())) >= self.most:
            crowded = max(self._open.values(), key=len)
        if crowded is not None:
            waiting = next((one for one in crowded if one.waits), None)
            if waiting is None:
                return ""
            del crowded[waiting]
            waiting.transport.abort()
        self._open.setdefault(who, own)[connection] = None
        return who

    def leave(self, connection: Connection | Handshake, who: str) -> None:
        """Count it no more."""
        own = self._open.get(who, {})
        own.pop(connection, None)
        if not own:
            self._open.pop(who, None)


def _whose(connection: Connection | Handshake) -> str:
    peer, here = (connection.transport.get_extra_info(name) for name in ("peername", "sockname"))
    if not peer or not here:
        return "<unknown>"
    if (uid := account_over_loopback(peer[:2], here[:2])) is not None:
        return f"uid {uid}"
    return f"<{call.network_of(peer[0])}>"


class Connection(H11Protocol):
    """A connection that ends when its caller does not send a request in time: connections are counted, and those that
    say nothing, or read nothing, would keep others out."""

    request_s: float = _REQUEST_S
    stall_s: float = _STALL_S
    #: Those of all callers; None: they are not bounded.
    peers: Peers | None = None
    _who = ""
    #: Bytes that have come, and how many there were when time was last given.
    _came = _came_before = 0
    _due: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect a request."""
        super().connection_made(cast("asyncio.Transport", transport))
        if self.peers is not None:
            self._who = self.peers.enter(self)
            if not self._who:
                self.transport.abort()
                return
        self._expect(self.request_s)

    def data_received(self, data: bytes) -> None:
        """Count what comes."""
        self._came += len(data)
        super().data_received(data)

    @property
    def waits(self) -> bool:
        """Whether no whole request is there to be answered."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def on_response_complete(self) -> None:
        """Expect the next one."""
        super().on_response_complete()
        self._expect(self.timeout_keep_alive + self.request_s)

    def pause_writing(self) -> None:
        """The caller does not take what is sent: end unless it goes on soon, as daemons wait for it, too."""
        super().pause_writing()
        self._watch_stall()

    def _watch_stall(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(self.stall_s, self._end_if_stalled, left)

    def _end_if_stalled(self, before: int) -> None:
        if self.transport.get_write_buffer_size() > before - _TAKEN_LEAST:
            self.transport.abort()
        else:
            self._watch_stall()

    def resume_writing(self) -> None:
        """It goes on."""
        self._goes_on()
        super().resume_writing()

    def _goes_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._expect(None)
        self._goes_on()
        if self.peers is not None:
            self.peers.leave(self, self._who)
        super().connection_lost(exc)

    def _expect(self, seconds: float | None) -> None:
        self._came_before = self._came
        if self._due is not None:
            self._due.cancel()
        self._due = None if seconds is None else self.loop.call_later(seconds, self._end_unless_received)

    def _end_unless_received(self) -> None:
        if self.conn.their_state is h11.SEND_BODY and self._came - self._came_before >= _CAME_LEAST:
            self._expect(self.request_s)
        elif self.waits:
            self.transport.abort()


class Handshake(sslproto.SSLProtocol):
    """A connection with TLS: it counts from its first byte on, as one that waits until a whole request is there.

    asyncio tells of others only when their handshake is done: callers who never finish one would hold any number.
    """

    def __init__(self, peers: Peers, inner: Connection, context: ssl.SSLContext, handshake_s: float) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        # How it ends is the protocol's to say: nobody waits for this one.
        waiter.add_done_callback(lambda done: done.cancelled() or done.exception())
        # The types know whole seconds alone.
        super().__init__(
            loop,
            inner,
            context,
            waiter,
            server_side=True,
            ssl_handshake_timeout=handshake_s,  # type: ignore[arg-type]
        )
        self._peers, self._inner, self._who = peers, inner, ""
        self.transport: asyncio.Transport

    @property
    def waits(self) -> bool:
        """Whether no whole request is there to be answered."""
        return self._inner.transport is None or self._inner.waits

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect the handshake."""
        self.transport = cast("asyncio.Transport", transport)
        super().connection_made(transport)
        self._who = self._peers.enter(self)
        if not self._who:
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count it no more."""
        self._peers.leave(self, self._who)
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """A server whose signals are the daemon's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon."""
        yield


class Web:
    """The running web service."""

    def __init__(self, context: DaemonContext, settings: WebSettings) -> None:
        self._context = context
        self._gate = Gate(context.credential, settings.readers, name_of=self._name_of)
        self._scraper = Scraper(context.home, DAEMONS)
        self._trend = Trend()
        app = application(context.env, self._gate, self._scraper, self._trend, settings.serves)
        self._pool = PoolClient(context.env, context.credential) if settings.serves == "all" else None
        most = settings.connections
        self._peers = Peers(max(1, most // _SHARE_EACH), _WITH_HANDSHAKES * most)
        self._server = _Server(
            uvicorn.Config(
                app,
                http=type("Counted", (Connection,), {"peers": None if settings.certificate else self._peers}),
                host=settings.host,
                port=settings.port,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                backlog=_BACKLOG,
                limit_concurrency=settings.connections,
                timeout_keep_alive=_IDLE_S,
                timeout_graceful_shutdown=_GRACE_S,
                h11_max_incomplete_event_size=64 * 1024,
                ssl_certfile=settings.certificate,
                ssl_keyfile=settings.key,
            )
        )
        self._serving: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    def _name_of(self, uid: int) -> str | None:
        found = owner.local_identity(uid, self._context.config)
        return None if found is None else found[0]

    async def open(self) -> None:
        """Listen.

        :raises HostError: when the port is taken.
        """
        config = self._server.config
        try:
            with privileges.root_files():
                config.load()  # the key may be root's
            if config.ssl is not None:
                made = cast("type[Connection]", config.http_protocol_class)
                config.http_protocol_class = secured(self._peers, made, config.ssl)
                config.ssl = None
            listener = await asyncio.to_thread(_bound, config)
        except OSError as error:
            raise HostError(
                f"cannot listen on {config.host}:{config.port}: {error.strerror}",
                hint="SLOTWISE_HTTP_PORT names another port, 0 takes a free one",
            ) from None
        asyncio.get_running_loop().set_exception_handler(self._peers.accepting)
        port = listener.getsockname()[1]
        scheme = "https" if config.is_ssl else "http"
        self._serving = asyncio.create_task(self._server.serve([listener]), name="http")
        if self._pool is not None:
            self._watching = tasks.keep("looking at the pool", partial(watch, self._pool, self._trend))
        _log.info("serving %s://%s:%d/", scheme, config.host, port)

    async def reconfig(self, config: Config) -> list[str]:
        """Take over who may read; places to listen wait for a restart."""
        self._gate.readers = WebSettings.of(config).readers
        return []

    async def stop(self, mode: str) -> None:
        """Answer what is under way, and end."""
        self._server.should_exit = True
        await tasks.end(self._watching)
        if self._serving is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving
        await self._scraper.close()


def secured(
    peers: Peers, made: Callable[..., Connection], context: ssl.SSLContext, handshake_s: float = HANDSHAKE_S
) -> type[asyncio.Protocol]:
    """What makes connections with TLS in the place of what makes others."""

    def connection(*arguments: object, **named: object) -> Handshake:
        return Handshake(peers, made(*arguments, **named), context, handshake_s)

    return cast("type[asyncio.Protocol]", connection)


def _bound(config: uvicorn.Config) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(
        config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
    except OSError:
        listener.close()
        raise
    return listener
