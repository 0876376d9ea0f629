"""The collector: ads of the pool, and where its daemons answer; blocking and for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from slotwise.classad import ClassAd, quote
from slotwise.client.ad_list import AdList
from slotwise.client.call import Call, ads, read_ads, text
from slotwise.client.daemon import AsyncClient, BlockingClient, Client, calls
from slotwise.client.locate import local_targets
from slotwise.errors import NotFoundError, SlotwiseError
from slotwise.model.ad_kinds import GENERIC, MY_TYPES
from slotwise.table import PackBuilder, pack_ads
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc, common_pb2, daemon_pb2, daemon_pb2_grpc

#: The attributes that say where a daemon answers.
LOCATING = ("MyAddress", "AddressV1", "CondorVersion", "CondorPlatform", "Name", "Machine", "MyType")


@dataclass(frozen=True)
class Location:
    """Where a daemon answers.

    :param address: the argument of ``Schedd(address=...)`` and other clients.
    :param ad: the daemon's ad, with the attributes about places and versions.
    """

    name: str
    machine: str
    address: str
    ad: ClassAd

    @classmethod
    def of(cls, ad: ClassAd) -> Location:
        """The location in an ad."""

        def text(name: str) -> str:
            value = ad.get(name)
            return value if isinstance(value, str) else ""

        return cls(text("Name"), text("Machine"), text("MyAddress"), ad)


@dataclass(frozen=True)
class Caller:
    """Who calls.

    :param identity: ``user@domain``; empty without a valid token.
    :param scopes: what the caller may do: READ, WRITE, ADMINISTRATOR ...
    """

    identity: str
    scopes: tuple[str, ...]


def ad_query(kind: str, constraint: str, projection: Sequence[str], limit: int = 0) -> common_pb2.AdQuery:
    """A query for ads of a kind: a MyType, or a name such as ``startd`` (:mod:`slotwise.model.ad_kinds`)."""
    return common_pb2.AdQuery(
        kind=MY_TYPES.get(kind.lower(), kind), constraint=constraint, projection=projection, limit=limit
    )


def locating_query(daemon: str, name: str | None) -> common_pb2.AdQuery:
    """A query for the daemons of a kind, or for the one of this name; a startd's name may be its machine's.

    :raises NotFoundError: there are no such daemons.
    """
    if daemon not in MY_TYPES:
        raise NotFoundError(f"there are no daemons of the kind {daemon!r}", hint=f"one of {', '.join(MY_TYPES)}")
    if name is None:
        return ad_query(daemon, "", LOCATING)
    attribute = "Machine" if daemon == "startd" and "@" not in name else "Name"
    return ad_query(daemon, f"{attribute} == {quote(name)}", LOCATING)


def own_first(found: Sequence[ClassAd], here: frozenset[str]) -> Location | None:
    """The daemon that answers at one of the targets ``here``, else the first."""
    own = next((ad for ad in found if ad.get("MyAddress") in here), None)
    first = own if own is not None else next(iter(found), None)
    return None if first is None else Location.of(first)


def advertise_requests(
    ads: Iterable[ClassAd], kind: str = "", *, merge: bool = False, goes_offline: bool = False
) -> list[collector_pb2.AdvertiseRequest]:
    """Messages that put ads into the collector, each under its Name.

    :param kind: MyType of the ads; empty: each ad's own, else Generic.
    :param merge: merge the attributes into the existing ads of these names.
    :param goes_offline: the machines go to sleep; their ads become offline, and are kept.
    :raises SlotwiseError: an ad has no Name.
    """
    requests = []
    for given in ads:
        ad = given.copy()
        name, own = ad.eval("Name"), ad.get("MyType")
        if not isinstance(name, str) or not name:
            raise SlotwiseError("an ad has no Name", hint='write `Name = "something"`; it tells one ad from another')
        wanted = kind or (own if isinstance(own, str) else "") or GENERIC
        ad["MyType"] = wanted
        if merge:
            builder = PackBuilder()
            builder.update(name, {attribute: ad.lookup(attribute) for attribute in ad})
            pack = builder.finish()
        else:
            pack = pack_ads([ad], keys=[name])
        requests.append(collector_pb2.AdvertiseRequest(kind=wanted, pack=pack, goes_offline=goes_offline))
    return requests


def refusals(reply: collector_pb2.AdvertiseReply) -> list[str]:
    """Why the collector rejected ads, each with the ad's name."""
    return [*reply.refused, *(f"there is no ad {key} to merge this into" for key in reply.resend)]


def refusals_in(replies: Iterable[collector_pb2.AdvertiseReply]) -> list[str]:
    """Why the collector rejected ads, from all of its replies."""
    return [why for reply in replies for why in refusals(reply)]


class CollectorCalls(Client):
    """The calls of a collector."""

    daemon = "collector"
    stub_class = collector_pb2_grpc.CollectorStub

    @calls
    def query(
        self, kind: str = "any", constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0
    ) -> Call[AdList]:
        """The ads of a kind (``startd`` for slots, ``schedd``, ``submitter``, ..., or a MyType) for which
        ``constraint`` is true."""
        return ads("Query", ad_query(kind, constraint, projection, limit))

    @calls
    def query_json(
        self, kind: str = "any", constraint: str = "", projection: Sequence[str] = (), *, limit: int = 0
    ) -> Call[bytes]:
        """As :meth:`query`, as one JSON array."""
        query = ad_query(kind, constraint, projection, limit)
        query.form = common_pb2.AdQuery.JSON
        return text("Query", query)

    @calls
    def caller(self) -> Call[Caller]:
        """Who the caller is to the pool."""

        def result(reply: daemon_pb2.PingReply) -> Caller:
            return Caller(reply.identity, tuple(reply.scopes))

        return Call("Ping", daemon_pb2.PingRequest(), result, service=daemon_pb2_grpc.DaemonStub)

    @calls
    def count_by(self, kind: str, attributes: Sequence[str], constraint: str = "") -> Call[AdList]:
        """Numbers of ads by the values of attributes: these and ``Count`` for each combination that there is."""
        query = ad_query(kind, constraint, ())
        query.form = common_pb2.AdQuery.COUNT
        query.count_by.extend(attributes)
        return ads("Query", query)

    @calls
    def locate(self, daemon: str, name: str | None = None) -> Call[Location | None]:
        """Where a daemon answers; None if the pool has none of that name. Without a name: this host's, else any."""
        here = local_targets(self._at.pool, daemon) if name is None else frozenset[str]()
        return read_ads("Query", locating_query(daemon, name), lambda found: own_first(found, here))

    @calls
    def locate_all(self, daemon: str) -> Call[list[Location]]:
        """Where each daemon of a kind answers."""
        return read_ads("Query", locating_query(daemon, None), lambda found: [Location.of(ad) for ad in found])

    @calls
    def advertise(self, ads: Iterable[ClassAd], kind: str = "", *, merge: bool = False) -> Call[list[str]]:
        """Advertise ads, each under its Name; returns why the collector rejected some, with their names.

        ``kind``, if given, becomes their MyType. With ``merge`` their attributes are merged into the existing ads.

        :raises SlotwiseError: an ad has no Name.
        """
        requests = advertise_requests(ads, kind, merge=merge)
        return Call("Advertise", iter(requests), refusals_in, many=True, timeout_s=None)

    @calls
    def invalidate(self, kind: str, names: Iterable[str] = (), constraint: str = "") -> Call[int]:
        """Invalidate ads of a kind, by name or by a constraint; returns how many were removed."""
        request = collector_pb2.InvalidateRequest(
            kind=MY_TYPES.get(kind.lower(), kind), keys=names, constraint=constraint
        )
        return Call("Invalidate", request, lambda reply: int(reply.removed))


class Collector(CollectorCalls, BlockingClient):
    """A pool's collector: that of the environment's pool, or ``pool`` (``host:port``).

    The parameters are those of :class:`~slotwise.client.daemon.Client`.
    """


class AsyncCollector(CollectorCalls, AsyncClient):
    """As :class:`Collector`, in coroutines. Make it inside a running event loop."""

    def query_pieces(self, kind: str, constraint: str, projection: Sequence[str], limit: int) -> AsyncIterator[bytes]:
        """As :meth:`CollectorCalls.query_json`, in pieces as they come."""
        query = ad_query(kind, constraint, projection, limit)
        query.form = common_pb2.AdQuery.JSON
        return self._pieces(text("Query", query))
