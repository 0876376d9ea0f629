"""Where the daemons of a pool answer: this machine's files, or another pool's collector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.errors import NotFoundError, PeerUnavailableError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.invocation import Invocation

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
    collector = _collector(inv)
    return collector if daemon == "collector" else _advertised(inv, collector, daemon)


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
        channel.use_tls(tls.client_credentials(config), cleartext=config.get_bool("SLOTWISE_ALLOW_CLEARTEXT"))
