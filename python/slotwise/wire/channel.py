"""Channels to daemons, with the caller's token on every call."""

from __future__ import annotations

from typing import Any

import grpc

#: Largest message either side accepts, in bytes. Packs of 100,000 ads travel in pieces well below this.
MAX_MESSAGE = 256 * 1024 * 1024

OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "slotwise"),
    # Two channels of one process to one daemon must not share a connection: a busy stream would slow the other.
    ("grpc.use_local_subchannel_pool", 1),
]


def token_metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """Call metadata that shows ``token``; empty without one. Pass as ``metadata=`` on every call."""
    return (("authorization", f"Bearer {token}"),) if token else ()


def open_async(target: str, *, tls: grpc.ChannelCredentials | None = None) -> grpc.aio.Channel:
    """An asyncio channel to ``target`` (``unix:/path`` or ``host:port``)."""
    if tls is not None and not target.startswith("unix:"):
        return grpc.aio.secure_channel(target, tls, options=OPTIONS)
    return grpc.aio.insecure_channel(target, options=OPTIONS)


def open_blocking(target: str, *, tls: grpc.ChannelCredentials | None = None) -> grpc.Channel:
    """A blocking channel, for commands and for the Python client."""
    if tls is not None and not target.startswith("unix:"):
        return grpc.secure_channel(target, tls, options=OPTIONS)
    return grpc.insecure_channel(target, options=OPTIONS)
