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
import os
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import grpc

from slotwise.errors import ConfigError
from slotwise.wire.address import DaemonAddress
from slotwise.wire.credential import places


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
    key = _private_key(config, "AUTH_SSL_SERVER_KEYFILE")
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
    key = _private_key(config, "AUTH_SSL_CLIENT_KEYFILE")
    if authority is None and certificate is None:
        return None
    return grpc.ssl_channel_credentials(authority, key, certificate)


def audiences(config: Knobs, me: DaemonAddress, full_name: str) -> set[str]:
    """The gRPC targets under which callers may address a daemon: its socket, and its port at each of its names.

    These are the name in FULL_HOSTNAME, those in its certificate (but no patterns of names), and where it listens.
    """
    bound, _, port = me.tcp.rpartition(":")
    names = {full_name, bound, *_names(_file(config, "AUTH_SSL_SERVER_CERTFILE"))}
    if is_loopback(bound) or bound in ("0.0.0.0", "[::]"):
        names |= {"localhost", "127.0.0.1"}
    return {f"{name}:{port}".lower() for name in names} | ({f"unix:{me.socket}".lower()} if me.socket else set())


def _names(certificate: bytes | None) -> set[str]:
    if certificate is None:
        return set()
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(certificate).extensions
        names = found.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return set()
    own = {name for name in names.get_values_for_type(x509.DNSName) if "*" not in name}
    return own | {str(ip) for ip in names.get_values_for_type(x509.IPAddress)}


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


def carries_secrets(context: Any) -> bool:
    """Whether what is answered on a call's connection may be a token: it is encrypted, or a UNIX socket."""
    if context.peer().startswith("unix:") or places.cleartext:
        return True
    return bool(context.auth_context().get("transport_security_type") == [b"ssl"])


def _private_key(config: Knobs, name: str) -> bytes | None:
    """A private key, which its owner may write, its group read, as some distributions have it, and nobody else use."""
    path = config.get(name) if config.is_set(name) else None
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & 0o027:
                raise ConfigError(
                    f"{name}: others may use the private key {path} (mode {mode & 0o777:04o})",
                    hint=f"chmod 0600 {path}, and make a new key if it is too late",
                    key=name,
                )
            return file.read()
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}", key=name) from None


def _file(config: Knobs, name: str) -> bytes | None:
    path = config.get(name) if config.is_set(name) else None
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}", key=name) from None
