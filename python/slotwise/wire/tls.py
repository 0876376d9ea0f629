"""TLS for pools that reach over the loopback: certificates from the configuration, with the reference's knob names.

==============================  =======================================================================
AUTH_SSL_SERVER_CERTFILE        the daemons' certificate (PEM, with intermediates)
AUTH_SSL_SERVER_KEYFILE         its private key
AUTH_SSL_SERVER_CAFILE          who may have signed certificates of clients; only looked at if they are required
AUTH_SSL_REQUIRE_CLIENT_CERTIFICATE  clients must show one
AUTH_SSL_CLIENT_CAFILE          who may have signed certificates of daemons
AUTH_SSL_CLIENT_CERTFILE, AUTH_SSL_CLIENT_KEYFILE  what clients show
==============================  =======================================================================

Tokens decide what a caller may do, with or without TLS; TLS keeps them secret on the way and proves the daemon.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import grpc

from slotwise.errors import ConfigError


class Knobs(Protocol):
    """What is needed of a configuration."""

    def get(self, name: str) -> str | None:
        """The text of a knob; None when undefined or empty."""
        ...

    def is_set(self, name: str) -> bool:
        """Whether somebody set it."""
        ...

    def get_bool(self, name: str) -> bool:
        """A truth knob."""
        ...


def server_credentials(config: Knobs) -> grpc.ServerCredentials | None:
    """What the daemons show, or None when no certificate is configured.

    :raises ConfigError: when a file is missing or unreadable, or only one of certificate and key is named.
    """
    certificate = _file(config, "AUTH_SSL_SERVER_CERTFILE")
    key = _file(config, "AUTH_SSL_SERVER_KEYFILE")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "AUTH_SSL_SERVER_CERTFILE" if certificate is None else "AUTH_SSL_SERVER_KEYFILE"
        raise ConfigError(f"{missing} is missing", hint="a certificate and its key go together", key=missing)
    required = config.get_bool("AUTH_SSL_REQUIRE_CLIENT_CERTIFICATE")
    authority = _file(config, "AUTH_SSL_SERVER_CAFILE") if required else None
    if required and authority is None:
        raise ConfigError(
            "AUTH_SSL_REQUIRE_CLIENT_CERTIFICATE needs AUTH_SSL_SERVER_CAFILE", key="AUTH_SSL_SERVER_CAFILE"
        )
    return grpc.ssl_server_credentials([(key, certificate)], authority, required)


def client_credentials(config: Knobs) -> grpc.ChannelCredentials | None:
    """What callers trust and show, or None when neither is configured.

    :raises ConfigError: when a file is missing or unreadable.
    """
    authority = _file(config, "AUTH_SSL_CLIENT_CAFILE")
    certificate = _file(config, "AUTH_SSL_CLIENT_CERTFILE")
    key = _file(config, "AUTH_SSL_CLIENT_KEYFILE")
    if authority is None and certificate is None:
        return None
    return grpc.ssl_channel_credentials(authority, key, certificate)


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine can reach a server that listens at ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_private(context: Any) -> bool:
    """Whether nobody reads along on a call's connection: it is encrypted, or does not leave this machine."""
    peer: str = context.peer()
    if peer.startswith("unix:") or context.auth_context().get("transport_security_type") == [b"ssl"]:
        return True
    return is_loopback(unquote(peer.partition(":")[2]).rpartition(":")[0])


def _file(config: Knobs, name: str) -> bytes | None:
    path = config.get(name) if config.is_set(name) else None
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}", key=name) from None
