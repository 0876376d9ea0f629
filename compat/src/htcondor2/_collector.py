"""``Collector``: ads of the pool, and where its daemons answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from classad2 import ClassAd, ExprTree, quote
from slotwise.errors import SlotwiseError
from slotwise.table import pack_ads
from slotwise.wire import address
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc, common_pb2

from htcondor2 import _pool
from htcondor2._enums import AdType, DaemonType
from htcondor2._errors import HTCondorException

_KINDS = {
    AdType.Startd: "Machine", AdType.Slot: "Machine", AdType.Schedd: "Scheduler", AdType.Master: "DaemonMaster",
    AdType.Submitter: "Submitter", AdType.Collector: "Collector", AdType.License: "License", AdType.Any: "Any",
    AdType.Negotiator: "Negotiator", AdType.HAD: "HAD", AdType.Generic: "Generic", AdType.Credd: "CredD",
    AdType.Grid: "Grid", AdType.Placementd: "PlacementD", AdType.Defrag: "Defrag", AdType.Accounting: "Accounting",
    AdType.StartDaemon: "StartDaemon",
}  # fmt: skip
_AD_TYPES = {
    DaemonType.Master: AdType.Master, DaemonType.Schedd: AdType.Schedd, DaemonType.Startd: AdType.Startd,
    DaemonType.Collector: AdType.Collector, DaemonType.Negotiator: AdType.Negotiator, DaemonType.Credd: AdType.Credd,
    DaemonType.HAD: AdType.HAD, DaemonType.Generic: AdType.Generic, DaemonType.Placementd: AdType.Placementd,
    DaemonType.Any: AdType.Any,
}  # fmt: skip
_WORDS = {
    "STARTD": "Machine", "SCHEDD": "Scheduler", "MASTER": "DaemonMaster", "SUBMITTOR": "Submitter",
    "NEGOTIATOR": "Negotiator", "COLLECTOR": "Collector", "LICENSE": "License", "GRID": "Grid", "HAD": "HAD",
    "ACCOUNTING": "Accounting",
}  # fmt: skip
_FOR_LOCATION = ("MyAddress", "AddressV1", "CondorVersion", "CondorPlatform", "Name", "Machine", "MyType")


class Collector:
    """A pool's collector: this pool's, or that of ``pool`` (``host:port``, a list of such, or an ad with MyAddress)."""

    def __init__(self, pool: str | ClassAd | Sequence[str] | None = None) -> None:
        if isinstance(pool, ClassAd):
            self._address: str | None = _pool.address_of(pool, "collector")
        elif pool is None or isinstance(pool, str):
            self._address = _with_port(pool) if pool else None
        elif isinstance(pool, Sequence) and pool:
            self._address = _with_port(pool[0])
        else:
            raise TypeError("pool must be a string, a list of strings, or a ClassAd")

    def _stub(self) -> collector_pb2_grpc.CollectorStub:
        call = _pool.caller()
        try:
            if self._address is not None:
                return collector_pb2_grpc.CollectorStub(call.open(self._address))
            found: collector_pb2_grpc.CollectorStub = call.reading(collector_pb2_grpc.CollectorStub, "collector")
            return found
        except SlotwiseError as error:
            raise HTCondorException(str(error)) from error

    def query(
        self,
        ad_type: AdType = AdType.Any,
        constraint: str | ExprTree | bool | None = None,
        projection: Sequence[str] | None = None,
        statistics: str | None = None,
    ) -> list[ClassAd]:
        """The ads of a kind for which the constraint is true. ``statistics`` has no effect: ads have all of theirs."""
        if not isinstance(ad_type, AdType):
            raise TypeError("ad_type must be an htcondor.AdType")
        kind = _KINDS.get(ad_type)
        if kind is None:
            raise HTCondorException(f"this collector shows no ads of the type {ad_type.name}")
        asked = common_pb2.AdQuery(
            kind=kind, constraint="" if constraint is None else str(constraint), projection=projection or []
        )
        return _pool.ads("the collector", lambda: self._stub().Query(asked, timeout=60))

    def directQuery(
        self,
        daemon_type: DaemonType,
        name: str | None = None,
        projection: Sequence[str] | None = None,
        statistics: str | None = None,
    ) -> ClassAd:
        """The newest ad of a daemon: what the collector has, which daemons update as they change.

        :raises HTCondorException: there is no such daemon.
        """
        found = self.locate(daemon_type, name)
        if found is None:
            raise HTCondorException(f"the pool has no {daemon_type.name}" + (f" named {name}" if name else ""))
        return self.query(_AD_TYPES[daemon_type], f"Name == {quote(str(found['Name']))}", projection, statistics)[0]

    def locate(self, daemon_type: DaemonType, name: str | None = None) -> ClassAd | None:
        """The ad of a daemon with what is needed to reach it; None when the pool has none of that name.

        Without a name: the daemon of this host, or of the pool that the collector was made for.
        """
        kind = _ad_type(daemon_type)
        if name is not None:
            by_machine = daemon_type == DaemonType.Startd and "@" not in name
            attribute = "Machine" if by_machine else "Name"
            return next(iter(self.query(kind, f"{attribute} == {quote(name)}", _FOR_LOCATION)), None)
        if self._address is None and (here := _local(daemon_type)) is not None:
            for ad in self.query(kind, None, _FOR_LOCATION):
                if ad.get("MyAddress") in here:
                    return ad
        return next(iter(self.query(kind, None, _FOR_LOCATION)), None)

    def locateAll(self, daemon_type: DaemonType) -> list[ClassAd]:
        """The ads of all daemons of a type, with what is needed to reach them."""
        return self.query(_ad_type(daemon_type), projection=_FOR_LOCATION)

    def advertise(self, ad_list: Sequence[ClassAd], command: str = "UPDATE_AD_GENERIC", use_tcp: bool = True) -> None:
        """Put ads into the collector, or take them out of it (``INVALIDATE_...``).

        :raises HTCondorException: the collector refuses one, with its reason.
        """
        found = re.fullmatch(r"(UPDATE|INVALIDATE)_(?:AD_GENERIC|([A-Z]+)_ADS?(_GENERIC)?)", command)
        if found is None or (found[2] and found[2] not in _WORDS):
            raise HTCondorException(f"unknown command {command}")
        kind = _WORDS[found[2]] if found[2] else "Generic"
        for ad in ad_list:
            if not isinstance(ad, ClassAd):
                raise TypeError("ad_list must be a list of ClassAds")
        if found[1] == "INVALIDATE":
            self._invalidate(ad_list, kind)
            return
        requests = []
        for ad in ad_list:
            name = ad.eval("Name") if "Name" in ad else None
            if not isinstance(name, str) or not name:
                raise HTCondorException("an ad has no Name")
            own = ad.get("MyType")
            sent = own if kind == "Generic" and isinstance(own, str) and own else kind
            whole = ClassAd._of(ad._native.copy())
            whole["MyType"] = sent
            requests.append(collector_pb2.AdvertiseRequest(kind=sent, pack=pack_ads([whole._native], keys=[name])))
        replies = _pool.asked("the collector", lambda: list(self._stub().Advertise(iter(requests))))
        refused = [why for reply in replies for why in reply.refused]
        if refused:
            raise HTCondorException("; ".join(refused))

    def _invalidate(self, ad_list: Sequence[ClassAd], kind: str) -> None:
        for ad in ad_list:
            if "Requirements" in ad:
                request = collector_pb2.InvalidateRequest(kind=kind, constraint=str(ad.lookup("Requirements")))
            else:
                request = collector_pb2.InvalidateRequest(kind=kind, keys=[str(ad["Name"])])
            _pool.asked("the collector", partial(self._stub().Invalidate, request, timeout=60))


def _ad_type(daemon_type: DaemonType) -> AdType:
    try:
        return _AD_TYPES[DaemonType(daemon_type)]
    except (KeyError, ValueError):
        raise HTCondorException(f"there are no daemons of the type {daemon_type!r}") from None


def _local(daemon_type: DaemonType) -> set[str] | None:
    """The addresses at which the daemon of this home answers; None when there is none."""
    try:
        found = address.lookup(_pool.caller().home, DaemonType(daemon_type).name.lower())
    except SlotwiseError:
        return None
    return {found.target, found.local}


def _with_port(pool: str) -> str:
    word = pool.strip().strip("<>").partition("?")[0]
    return word if ":" in word else f"{word}:9618"
