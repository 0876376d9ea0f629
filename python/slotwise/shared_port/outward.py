"""Keeps this host reachable through a broker: a stream to it, and connections to it when somebody calls."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Iterable
from urllib.parse import unquote

import grpc

from slotwise.daemon.reach import broker_target
from slotwise.errors import SlotwiseError
from slotwise.shared_port.listening import Caller, Passage, caller_of
from slotwise.shared_port.request import LONGEST, connect, status_of
from slotwise.wire.contact import SOCK, back_name, divide
from slotwise.wire.credential import HostCredential
from slotwise.wire.gen import shared_port_pb2, shared_port_pb2_grpc
from slotwise.wire.stream import WARN_AFTER, ReconnectingStream, reason_of

_log = logging.getLogger(__name__)

#: How long the broker may take to accept a connection, in seconds.
_CONNECT_S = 15.0
#: Connections that are being made at a time.
_MAKING_MOST = 200


class Outward(ReconnectingStream[shared_port_pb2.ConnectionRequest]):
    """The stream to a broker.

    :param broker: ``host:port`` of its shared port.
    :param secret: what the broker knows this host by.
    """

    def __init__(self, broker: str, secret: str, credential: HostCredential, passage: Passage) -> None:
        super().__init__(f"the broker at {broker}", warn_after=WARN_AFTER)
        self._broker = broker
        self._secret = secret
        self._credential = credential
        self._passage = passage
        self._tasks: set[asyncio.Task[None]] = set()
        #: Of connections that are not whole yet, the names at the broker.
        self._making: set[str] = set()
        self._failed: asyncio.Queue[shared_port_pb2.Registration] = asyncio.Queue()
        #: Whether others reach this host now.
        self.registered = False

    async def target(self) -> str:
        """The broker is a part of the shared port there."""
        return broker_target(self._broker)

    def call(self, opened: grpc.aio.Channel, target: str) -> grpc.aio.Call:
        """Register."""
        stub = shared_port_pb2_grpc.BrokerStub(opened)
        return stub.Register(metadata=self._credential.metadata(target))

    async def write(self, call: grpc.aio.Call) -> None:
        """Say who this is, then what could not be connected."""
        self._failed = asyncio.Queue()
        await call.write(shared_port_pb2.Registration(host_secret=self._secret))
        while True:
            await call.write(await self._failed.get())

    def received(self, frame: shared_port_pb2.ConnectionRequest) -> None:
        """Somebody calls."""
        if frame.host_id:
            self.registered = True
            return
        open_now = len(self._tasks) + self._passage.open
        if len(self._making) >= _MAKING_MOST or open_now >= self._passage.most:
            self._failed.put_nowait(shared_port_pb2.Registration(connection=frame.connection, error="too many calls"))
            return
        self._making.add(frame.connection)
        task = asyncio.get_running_loop().create_task(self._connect(frame))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def broke(self, why: str) -> None:
        """Nobody reaches this host until the stream is back; connections that there are go on."""
        self.registered = False

    async def close(self) -> None:
        """End the stream, and the connections that were made for callers."""
        await super().close()
        tasks: Iterable[asyncio.Task[None]] = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _connect(self, wanted: shared_port_pb2.ConnectionRequest) -> None:
        try:
            await self._pass_on(wanted)
        except (OSError, TimeoutError, SlotwiseError) as error:
            why = reason_of(error)
            _log.info("could not connect %s to %s for its broker: %s", wanted.sock[:64], wanted.caller[:80], why)
            self._failed.put_nowait(shared_port_pb2.Registration(connection=wanted.connection, error=why))
        except BaseExceptionGroup as group:
            if group.split(OSError)[1] is not None:
                raise
        finally:
            self._making.discard(wanted.connection)

    async def _pass_on(self, wanted: shared_port_pb2.ConnectionRequest) -> None:
        """Connect to the daemon that is meant and to the broker, and pass on between them.

        :raises OSError: when one of them does not take the connection.
        """
        if not SOCK.fullmatch(wanted.sock):
            raise OSError(f"{wanted.sock[:64]!r} is not the name of a daemon")
        divided = divide(self._broker)
        assert divided is not None, "CCB_ADDRESS has been read"
        async with asyncio.timeout(_CONNECT_S):
            broker = await _open(*divided)
        with broker:
            caller = _caller(wanted.caller, caller_of(broker.getpeername()).host)
            with await self._passage.open_daemon(wanted.sock, caller) as daemon:
                async with asyncio.timeout(_CONNECT_S):
                    await _ask_for(broker, wanted.connection)
                self._making.discard(wanted.connection)
                await self._passage.splice(broker, daemon)


async def _ask_for(broker: socket.socket, connection: str) -> None:
    """Ask a broker for the caller that waits.

    :raises OSError: when it does not wait any more.
    """
    loop = asyncio.get_running_loop()
    broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    broker.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    await loop.sock_sendall(broker, connect(back_name(connection)))
    said = b""
    # Byte by byte to the end of the answer: what follows is the caller's.
    while (status := status_of(said)) is None:
        piece = await loop.sock_recv(broker, 1)
        if not piece or len(said) > LONGEST:
            raise OSError("the broker has closed the connection")
        said += piece
    if status != 200:
        raise OSError(f"the broker does not want the connection any more ({status})")


async def _open(host: str, port: int) -> socket.socket:
    """A connection to the first address of a host that takes it."""
    loop = asyncio.get_running_loop()
    last: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, at in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        try:
            await loop.sock_connect(opened, at)
        except OSError as error:
            opened.close()
            last = error
        except BaseException:
            opened.close()
            raise
        else:
            return opened
    raise last


def _caller(text: str, broker: str) -> Caller:
    """Who calls, as the broker says.

    A caller on the broker's own host may have come by its loopback, which is not this host's.

    :param broker: its address, as this host sees it.
    :raises OSError: when that is no address.
    """
    divided = divide(unquote(text).partition(":")[2])
    try:
        at = ipaddress.ip_address(divided[0] if divided is not None else "")
        if getattr(at, "scope_id", None):
            raise ValueError("the scope is one of the broker's host, and any text")
    except ValueError:
        raise OSError(f"{text[:80]!r} is no caller") from None
    assert divided is not None
    at = getattr(at, "ipv4_mapped", None) or at
    beyond = not (at.is_loopback or at.is_unspecified or at.is_multicast)
    return Caller(str(at) if beyond else broker, divided[1], broker)
