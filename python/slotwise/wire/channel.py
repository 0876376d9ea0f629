"""Channels to daemons."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import grpc
import grpc.experimental

from slotwise.wire import address_key, socket_path
from slotwise.wire.contact import key_of, way_to
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
#: The private network that this process is in.
_network = ""


def use_network(name: str) -> None:
    """Reach daemons of this private network at their addresses inside of it (PRIVATE_NETWORK_NAME)."""
    global _network
    _network = name


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


def _opening(target: str) -> tuple[str, grpc.ChannelCredentials | None, list[tuple[str, int | str]]]:
    """What gRPC connects to, with which credentials and options."""
    way = way_to(target, _network)
    credentials, authority = None if target.startswith("unix:") else _tls, way.authority
    if key := key_of(target):
        credentials, authority = address_key.channel_credentials(key), address_key.NAME
    options = OPTIONS
    if credentials is not None:
        # The authority is what a certificate is checked against: with TLS it must be the name in the address.
        options = [(name, value) for name, value in OPTIONS if name != "grpc.default_authority"]
        options.append(("grpc.default_authority", authority))
    if way.via:
        options = [(name, value) for name, value in options if name != "grpc.enable_http_proxy"]
        options += [("grpc.http_proxy", f"http://{way.via}"), ("grpc.enable_http_proxy", 1)]
    return socket_path.usable_target(way.target), credentials, options


def open_async(target: str) -> grpc.aio.Channel:
    """An asyncio channel to ``target``: ``unix:/path`` or an address of :mod:`slotwise.wire.contact`."""
    at, credentials, options = _opening(target)
    if credentials is not None:
        return grpc.aio.secure_channel(at, credentials, options=options)
    return grpc.aio.insecure_channel(at, options=options)


def open_blocking(target: str) -> grpc.Channel:
    """A blocking channel, for commands and for the Python client."""
    at, credentials, options = _opening(target)
    # A stream of answers is read in the caller's thread: no other is woken for each of them.
    options = [*options, (grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1)]
    if credentials is not None:
        return grpc.secure_channel(at, credentials, options=options)
    return grpc.insecure_channel(at, options=options)


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
