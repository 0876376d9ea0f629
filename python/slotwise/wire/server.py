"""A daemon's gRPC server: loopback TCP and a UNIX socket, tokens checked in front of everything."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import grpc

from slotwise.errors import HostError
from slotwise.wire.channel import MAX_MESSAGE
from slotwise.wire.security import Authenticator, TokenInterceptor

_OPTIONS = [
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.so_reuseport", 0),
    # Identity only: a compressed message may be a thousand times as large as what came over the wire.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.max_concurrent_streams", 1000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A peer whose host has lost its power says no word: only a question that it does not answer tells.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.http2.max_pings_without_data", 0),
]


def make_server(
    authenticator: Authenticator, *, interceptors: Sequence[grpc.aio.ServerInterceptor] = ()
) -> grpc.aio.Server:
    """A server that lets only authenticated calls through; add servicers, then :func:`listen`, then start it."""
    return grpc.aio.server(interceptors=[TokenInterceptor(authenticator), *interceptors], options=_OPTIONS)


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
    try:
        if tls is None:
            bound = server.add_insecure_port(f"{host}:{port}")
        else:
            bound = server.add_secure_port(f"{host}:{port}", tls)
    except RuntimeError as error:
        raise HostError(f"cannot listen on {host}:{port}: {error}", hint="is another daemon using it?") from None
    if socket is not None:
        with contextlib.suppress(FileNotFoundError):
            socket.unlink()
        server.add_insecure_port(f"unix:{socket}")
    return f"{host}:{bound}", str(socket or "")
