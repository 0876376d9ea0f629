"""Channels to daemons."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import grpc

from slotwise.wire.context import Metadata, Request
from slotwise.wire.credential import Credential, places

#: Largest message either side accepts, in bytes. Packs of 100,000 ads travel in pieces well below this.
MAX_MESSAGE = 256 * 1024 * 1024

OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    # An error travels in the trailers of its call, with all that it says: see wire.status.
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.absolute_max_metadata_size", 128 * 1024),
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


#: What this process trusts and shows on connections that leave the machine; set once at its start.
_tls: grpc.ChannelCredentials | None = None
_certificate = ""


def use_tls(credentials: grpc.ChannelCredentials | None, *, cleartext: bool = False, certificate: str = "") -> None:
    """Make every later channel to a TCP address use TLS (None: none of them). UNIX sockets never do.

    :param cleartext: tokens may be sent without it (SLOTWISE_ALLOW_CLEARTEXT).
    :param certificate: the file of the certificate by which this user may prove itself, empty without one.
    """
    global _tls, _certificate
    _tls, _certificate = credentials, certificate
    places.tls, places.cleartext = credentials is not None, cleartext


def uses_tls() -> bool:
    """Whether channels to TCP addresses use TLS."""
    return _tls is not None


def own_certificate() -> str:
    """The file of the certificate by which this user may prove itself; empty without one."""
    return _certificate


def _options_for(tls: bool) -> list[tuple[str, int | str]]:
    # The authority is what a certificate is checked against: with TLS it must be the name in the address.
    return [(name, value) for name, value in OPTIONS if not (tls and name == "grpc.default_authority")]


def open_async(target: str) -> grpc.aio.Channel:
    """An asyncio channel to ``target`` (``unix:/path`` or ``host:port``)."""
    if _tls is not None and not target.startswith("unix:"):
        return grpc.aio.secure_channel(target, _tls, options=_options_for(True))
    return grpc.aio.insecure_channel(target, options=OPTIONS)


def open_blocking(target: str) -> grpc.Channel:
    """A blocking channel, for commands and for the Python client."""
    if _tls is not None and not target.startswith("unix:"):
        return grpc.secure_channel(target, _tls, options=_options_for(True))
    return grpc.insecure_channel(target, options=OPTIONS)


class _Details(NamedTuple):
    """The call details of gRPC, as an interceptor has to make them."""

    method: str
    timeout: float | None
    metadata: Metadata | None
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class _Showing(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Shows a credential on each call."""

    def __init__(self, credential: Credential, target: str) -> None:
        self._credential = credential
        self._target = target

    def _call(
        self, continuation: Callable[[_Details, Request], grpc.Call], details: _Details, request: Request
    ) -> grpc.Call:
        shown = (*(details.metadata or ()), *self._credential.metadata(self._target))
        return continuation(_Details(details.method, details.timeout, shown, *details[3:]), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_unary = intercept_stream_stream = _call


def showing(opened: grpc.Channel, credential: Credential, target: str) -> grpc.Channel:
    """A channel whose calls show ``credential`` to the daemon at ``target``, to which it is open.

    Its calls raise DeniedError when a token could be read on its way.
    """
    return grpc.intercept_channel(opened, _Showing(credential, target))
