"""A daemon's gRPC server: loopback TCP and a UNIX socket, tokens checked in front of everything."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Sequence
from pathlib import Path

import grpc

from slotwise.authorization.authorizer import Authorizer
from slotwise.errors import HostError
from slotwise.wire import login, socket_path
from slotwise.wire.channel import MAX_MESSAGE
from slotwise.wire.known_peers import KnownPeers
from slotwise.wire.security import Authenticator, TokenInterceptor
from slotwise.wire.sizes import REQUEST_MOST

_OPTIONS = [
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.max_receive_message_length", REQUEST_MOST),
    ("grpc.so_reuseport", 0),
    # Identity only: a compressed message may be a thousand times as large as what came over the wire.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # Of one connection: a caller's further calls wait until others of its calls have ended.
    ("grpc.max_concurrent_streams", 256),
    # Who connects has to say something, and is cut off after a while without a call.
    ("grpc.server_handshake_timeout_ms", 20_000),
    ("grpc.max_connection_idle_ms", 600_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A peer whose host has lost its power says no word: only a question that it does not answer tells.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.http2.max_pings_without_data", 0),
]


def make_server(
    authenticator: Authenticator,
    authorizer: Authorizer | None = None,
    *,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    connections: int | None = None,
    peers: KnownPeers | None = None,
) -> grpc.aio.Server:
    """A server that lets only authenticated calls through that ``authorizer`` allows (without one: by tokens alone).

    Add servicers, then :func:`listen`, then start it.
    ``connections``: most at a time on each port or socket; without, :func:`connections_most`. ``peers``: learns which
    connections show valid tokens.
    """
    options = [*_OPTIONS, ("grpc.max_allowed_incoming_connections", connections or connections_most())]
    gate = TokenInterceptor(authenticator, authorizer or Authorizer(""), peers or KnownPeers())
    return grpc.aio.server(interceptors=[gate, *interceptors], options=options)


def connections_most() -> int:
    """How many connections a port or socket takes: a quarter of this process's descriptors is left for its files."""
    return min(max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4), 1 << 30)


def listen(
    server: grpc.aio.Server,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    socket: Path | None = None,
    tls: grpc.ServerCredentials | None = None,
) -> tuple[str, str]:
    """Bind ``host:port`` (0: any free port) and the UNIX socket; returns ``(tcp address, socket path or "")``.

    :raises HostError: when the port is taken or the address is not of this host.
    """
    bound = bind(server, host, port, tls)
    if socket is not None:
        with contextlib.suppress(FileNotFoundError):
            socket.unlink()
        server.add_insecure_port(f"unix:{socket_path.usable(socket)}")
        socket.chmod(login.OPEN_TO)
    return f"{host}:{bound}", str(socket or "")


def bind_socket(server: grpc.aio.Server, path: Path, credentials: grpc.ServerCredentials | None) -> None:
    """Bind a UNIX socket whose callers are as those of a port."""
    target = f"unix:{socket_path.usable(path)}"
    if credentials is None:
        server.add_insecure_port(target)
    else:
        server.add_secure_port(target, credentials)


def bind(server: grpc.aio.Server, host: str, port: int, tls: grpc.ServerCredentials | None) -> int:
    """Bind ``host:port`` (0: any free port); returns the port.

    :raises HostError: when the port is taken or the address is not of this host.
    """
    try:
        if tls is None:
            return int(server.add_insecure_port(f"{host}:{port}"))
        return int(server.add_secure_port(f"{host}:{port}", tls))
    except RuntimeError as error:
        raise HostError(f"cannot listen on {host}:{port}: {error}", hint="is another daemon using it?") from None
