"""Where the daemons of a pool answer: this machine's files, or another pool's collector."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.errors import DeniedError, NotFoundError, PeerUnavailableError, UsageError

if TYPE_CHECKING:
    import grpc

    from slotwise.cli.common.invocation import Invocation
    from slotwise.config import Config
    from slotwise.wire.gen import daemon_pb2

_KINDS = {"negotiator": "Negotiator", "schedd": "Scheduler", "startd": "Machine", "master": "DaemonMaster"}


def target_of(inv: Invocation, daemon: str) -> str:
    """The gRPC target of ``daemon`` of the pool that the caller means (``-pool``, ``-name``, else this machine's).

    Without a daemon of this home, the configuration's COLLECTOR_HOST is asked.

    :raises PeerUnavailableError: when there is none.
    :raises NotFoundError: when the pool has no such daemon.
    """
    from slotwise.wire import address

    if inv.pool is None and inv.daemon_name is None:
        try:
            return address.lookup(inv.home, daemon).local
        except PeerUnavailableError:
            if _configured_collector(inv) is None:
                raise
    if daemon == "collector":
        return _collector(inv)
    asked = _collector(inv) if inv.pool is not None else _relay(inv, "collector") or _collector(inv)
    return _advertised(inv, asked, daemon)


def reading_target(inv: Invocation, daemon: str) -> str:
    """Where questions to ``daemon`` of the central manager are answered for this caller: by itself, or by this host's
    master, which passes them on, for who has nothing to show at other hosts.

    :raises PeerUnavailableError: when there is none.
    """
    if inv.pool is None and inv.daemon_name is None and (found := _relay(inv, daemon)) is not None:
        return found
    return target_of(inv, daemon)


def _relay(inv: Invocation, daemon: str) -> str | None:
    from slotwise.wire import address

    def local(name: str) -> str:
        try:
            return address.lookup(inv.home, name).local
        except PeerUnavailableError:
            return ""

    master = local("master")
    if local(daemon) or not master.startswith("unix:") or inv.proves_itself():
        return None
    return master


def _collector(inv: Invocation) -> str:
    from slotwise.wire import address

    if inv.pool is not None:
        if ":" not in inv.pool:
            raise UsageError(f"-pool {inv.pool} has no port", hint="write it as host:port")
        return inv.pool
    try:
        return address.lookup(inv.home, "collector").local
    except PeerUnavailableError:
        found = _configured_collector(inv)
        if found is None:
            raise
        return found


def _configured_collector(inv: Invocation) -> str | None:
    from slotwise.config import load
    from slotwise.wire import address

    return address.configured_collector(load(None, env=inv.env, home=inv.home))


def _advertised(inv: Invocation, collector: str, daemon: str) -> str:
    import grpc

    from slotwise.classad import quote
    from slotwise.table import unpack_ads
    from slotwise.wire.gen import collector_pb2_grpc, common_pb2
    from slotwise.wire.status import to_error

    name = inv.daemon_name
    attribute = "Machine" if daemon == "startd" else "Name"
    query = common_pb2.AdQuery(
        kind=_KINDS[daemon],
        constraint=f"{attribute} == {quote(name)}" if name else "",
        projection=["MyAddress"],
        limit=1,
    )
    stub = collector_pb2_grpc.CollectorStub(inv.open(collector))
    try:
        replies = list(stub.Query(query, timeout=20))
    except grpc.RpcError as error:
        raise to_error(error, peer=f"the collector at {collector}") from None
    for reply in replies:
        for ad in unpack_ads(reply.data) if reply.data else ():
            target = ad.get("MyAddress")
            if isinstance(target, str) and target:
                return target
    raise NotFoundError(f"the pool has no {daemon}" + (f" named {name}" if name else ""))


def trust_configured(inv: Invocation) -> None:
    """Let channels to other machines use TLS as the configuration says."""
    from slotwise.config import load
    from slotwise.wire import channel, tls

    if not channel.uses_tls():
        config = load(None, env=inv.env, home=inv.home)
        certificate = tls.own_certificate(config)
        channel.use_tls(
            tls.client_credentials(config, shows=bool(certificate)),
            cleartext=config.get_bool("SLOTWISE_ALLOW_CLEARTEXT"),
            certificate=certificate if _by_certificate(config) else "",
        )


def _by_certificate(config: Config) -> bool:
    """Whether commands may prove themselves by a certificate, as SEC_CLIENT_AUTHENTICATION_METHODS says."""
    methods = config.get("SEC_CLIENT_AUTHENTICATION_METHODS") or config.get("SEC_DEFAULT_AUTHENTICATION_METHODS") or ""
    return "SSL" in methods.upper().replace(",", " ").split()


def certificate_target(inv: Invocation, target: str) -> str:
    """Where the daemon at ``target`` takes callers that prove themselves by a certificate: ``target`` itself where it
    takes none, or does not answer.

    :raises DeniedError: when the own certificate has expired, or the daemon does not accept it.
    """
    import grpc

    from slotwise.wire import channel

    file = channel.own_certificate()
    _require_current(file)
    try:
        port = _ping(inv.plain(target)).certificate_port
    except grpc.RpcError:
        return target
    if not port:
        return target
    found = f"{target.rpartition(':')[0]}:{port}"
    try:
        _ping(inv.plain(found))
    except grpc.RpcError as error:
        raise DeniedError(
            f"{found} does not accept the certificate in {file}: {error.details()}",
            hint="an authority in AUTH_SSL_SERVER_CAFILE or AUTH_SSL_SERVER_CADIR of that daemon must have signed it",
        ) from None
    return found


def _ping(opened: grpc.Channel) -> daemon_pb2.PingReply:
    from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc

    reply: daemon_pb2.PingReply = daemon_pb2_grpc.DaemonStub(opened).Ping(daemon_pb2.PingRequest(), timeout=20)
    return reply


def _require_current(file: str) -> None:
    from cryptography import x509

    ends = x509.load_pem_x509_certificate(Path(file).read_bytes()).not_valid_after_utc
    if ends <= datetime.now(UTC):
        raise DeniedError(f"the certificate in {file} has expired on {ends:%Y-%m-%d}", hint="renew it")
