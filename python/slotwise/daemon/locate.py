"""Where the pool's central daemons answer, as a daemon of any of its hosts finds them."""

from __future__ import annotations

from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import PeerUnavailableError
from slotwise.home import PoolHome
from slotwise.table import unpack_ads
from slotwise.wire import address, channel
from slotwise.wire.gen import collector_pb2_grpc, common_pb2


def shown_collector(home: PoolHome) -> str:
    """``host:port``, with its key where it has one, by which other hosts reach the collector of this home.

    :raises PeerUnavailableError: when none has been started.
    """
    found = address.lookup(home, "collector")
    return found.target if found.reach else found.tcp


def collector_target(context: DaemonContext) -> str:
    """Where the collector answers: as COLLECTOR_HOST says when that is another place, else that of this pool's home.

    :raises PeerUnavailableError: when no collector of this home has been started.
    """
    configured = address.configured_collector(context.config)
    return configured or address.lookup(context.home, "collector").local


async def negotiator_target(context: DaemonContext) -> str:
    """Where the negotiator answers: that of this pool's home, else the one that the collector knows.

    :raises PeerUnavailableError: when there is none.
    :raises grpc.RpcError: when the collector does not answer.
    """
    try:
        return address.lookup(context.home, "negotiator").local
    except PeerUnavailableError:
        if address.configured_collector(context.config) is None:
            raise
    if found := await address_in(context, "Negotiator"):
        return found
    raise PeerUnavailableError("the collector knows of no negotiator", hint="does it run on the central manager?")


async def address_in(context: DaemonContext, kind: str, constraint: str = "") -> str:
    """MyAddress of the first ad of a kind of the collector's for which ``constraint`` is true; empty without one.

    :raises PeerUnavailableError, grpc.RpcError: when the collector does not answer.
    """
    query = common_pb2.AdQuery(kind=kind, constraint=constraint, projection=["MyAddress"], limit=1)
    target = collector_target(context)
    async with channel.open_async(target) as opened:
        stub = collector_pb2_grpc.CollectorStub(opened)
        async for chunk in stub.Query(query, metadata=context.credential.metadata(target), timeout=10):
            for ad in unpack_ads(chunk.data) if chunk.data else ():
                if isinstance(found := ad.get("MyAddress"), str) and found:
                    return found
    return ""
