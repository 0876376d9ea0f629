"""Authentication by a certificate: the port at which a daemon accepts it, and whether it is valid."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import grpc
from msgspec.structs import replace

from slotwise.config import Config
from slotwise.errors import DeniedError
from slotwise.wire import channel, tls
from slotwise.wire.contact import parse
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc

_TIMEOUT_S = 20.0


def trust_configured(load: Callable[[], Config]) -> None:
    """Let channels to other machines use TLS as configured, unless the process does already."""
    if not channel.uses_tls():
        config = load()
        certificate = tls.own_certificate(config)
        channel.use_tls(
            tls.client_credentials(config, shows=bool(certificate)),
            cleartext=config.get_bool("SLOTWISE_ALLOW_CLEARTEXT"),
            certificate=certificate if _by_certificate(config) else "",
        )
        channel.use_network((config.get("PRIVATE_NETWORK_NAME") or "").strip())


def _by_certificate(config: Config) -> bool:
    """Whether SEC_CLIENT_AUTHENTICATION_METHODS lets users authenticate by a certificate."""
    methods = config.get("SEC_CLIENT_AUTHENTICATION_METHODS") or config.get("SEC_DEFAULT_AUTHENTICATION_METHODS") or ""
    return "SSL" in methods.upper().replace(",", " ").split()


def certificate_target(target: str, plain: Callable[[str], grpc.Channel]) -> str:
    """Where the daemon at ``target`` accepts callers with a certificate: ``target`` itself if it accepts none, or does
    not answer.

    :param plain: opens a channel without a token.
    :raises DeniedError: the caller's certificate has expired, or the daemon does not accept it.
    """
    file = channel.own_certificate()
    _require_current(file)
    try:
        reply = _ping(plain(target))
    except grpc.RpcError:
        return target
    at = parse(target)
    if not reply.certificate_port or at is None:
        return target
    found = str(
        replace(at, sock=reply.certificate_sock) if reply.certificate_sock else replace(at, port=reply.certificate_port)
    )
    try:
        _ping(plain(found))
    except grpc.RpcError as error:
        raise DeniedError(
            f"{found} does not accept the certificate in {file}: {error.details()}",
            hint="an authority in AUTH_SSL_SERVER_CAFILE or AUTH_SSL_SERVER_CADIR of that daemon must have signed it",
        ) from None
    return found


def _ping(opened: grpc.Channel) -> daemon_pb2.PingReply:
    reply: daemon_pb2.PingReply = daemon_pb2_grpc.DaemonStub(opened).Ping(daemon_pb2.PingRequest(), timeout=_TIMEOUT_S)
    return reply


def _require_current(file: str) -> None:
    from cryptography import x509

    ends = x509.load_pem_x509_certificate(Path(file).read_bytes()).not_valid_after_utc
    if ends <= datetime.now(UTC):
        raise DeniedError(f"the certificate in {file} has expired on {ends:%Y-%m-%d}", hint="renew it")
