"""Where the daemons of a pool answer: this machine's files, or a collector."""

from __future__ import annotations

import grpc

from slotwise.classad import quote
from slotwise.client.pool import Pool
from slotwise.errors import NotFoundError, PeerUnavailableError, UsageError
from slotwise.model.ad_kinds import MY_TYPES
from slotwise.table import unpack_ads
from slotwise.wire import address, contact
from slotwise.wire.credential import places
from slotwise.wire.gen import collector_pb2_grpc, common_pb2
from slotwise.wire.status import to_error

_TIMEOUT_S = 20.0


def target_of(pool: Pool, daemon: str, name: str | None = None) -> str:
    """The gRPC target of a daemon of the pool; of the one called ``name``, if there is a name.

    Without a daemon in this home, the configuration's COLLECTOR_HOST is asked.

    :raises PeerUnavailableError: there is none.
    :raises NotFoundError: the pool has no such daemon.
    """
    if pool.collector is None and name is None:
        try:
            return address.lookup(pool.home, daemon).local
        except PeerUnavailableError:
            if address.configured_collector(pool.knobs()) is None:
                raise
    if daemon == "collector":
        return _collector(pool)
    asked = _collector(pool) if pool.collector is not None else _relay(pool, "collector") or _collector(pool)
    return _advertised(pool, asked, daemon, name)


def reading_target(pool: Pool, daemon: str, name: str | None = None) -> str:
    """Where queries to the central manager's ``daemon`` are answered for this caller: by the daemon itself, or by this
    host's master, which relays them for callers who cannot authenticate at other hosts.

    :raises PeerUnavailableError: there is none.
    """
    if pool.collector is None and name is None and (found := _relay(pool, daemon)) is not None:
        return found
    return target_of(pool, daemon, name)


def local_targets(pool: Pool, daemon: str) -> frozenset[str]:
    """The targets at which the daemon of this home answers, local and remote; none if it has not been started."""
    try:
        found = address.lookup(pool.home, daemon)
    except PeerUnavailableError:
        return frozenset()
    return frozenset((found.target, found.local))


def collector_at(pool: Pool, named: str) -> str:
    """The target of a collector that the caller names: ``host:port``, or ``host`` with COLLECTOR_PORT behind it.

    :raises UsageError: ``named`` is no address.
    """
    found = contact.with_port(named, lambda: pool.knobs().get_int("COLLECTOR_PORT"))
    if found is None:
        raise UsageError(f"{named} is not the address of a collector", hint="write it as host, or as host:port")
    places.name(found)
    return found


def _relay(pool: Pool, daemon: str) -> str | None:
    def local(name: str) -> str:
        try:
            return address.lookup(pool.home, name).local
        except PeerUnavailableError:
            return ""

    master = local("master")
    if local(daemon) or not master.startswith("unix:") or pool.proves_itself():
        return None
    return master


def _collector(pool: Pool) -> str:
    if pool.collector is not None:
        return collector_at(pool, pool.collector)
    try:
        return address.lookup(pool.home, "collector").local
    except PeerUnavailableError:
        found = address.configured_collector(pool.knobs())
        if found is None:
            raise
        places.name(found)
        return found


def _advertised(pool: Pool, collector: str, daemon: str, name: str | None) -> str:
    attribute = "Machine" if daemon == "startd" else "Name"
    query = common_pb2.AdQuery(
        kind=MY_TYPES[daemon],
        constraint=f"{attribute} == {quote(name)}" if name else "",
        projection=["MyAddress"],
        limit=1,
    )
    stub = collector_pb2_grpc.CollectorStub(pool.open(collector))
    try:
        replies = list(stub.Query(query, timeout=_TIMEOUT_S))
    except grpc.RpcError as error:
        raise to_error(error, peer=f"the collector at {collector}") from None
    for reply in replies:
        for ad in unpack_ads(reply.data) if reply.data else ():
            target = ad.get("MyAddress")
            if isinstance(target, str) and target:
                return target
    raise NotFoundError(f"the pool has no {daemon}" + (f" named {name}" if name else ""))
