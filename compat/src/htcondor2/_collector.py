"""``Collector``: ads of the pool, and where its daemons answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from classad2 import ClassAd, ExprTree, quote
from slotwise import environment
from slotwise.client import Collector as Client
from slotwise.client import Startd
from slotwise.client.collector import LOCATING
from slotwise.errors import NotFoundError
from slotwise.model.ad_kinds import COMMAND_WORDS, GENERIC, MY_TYPES

from htcondor2 import _pool
from htcondor2._enums import AdType, DaemonType
from htcondor2._errors import HTCondorException
from htcondor2._expressions import as_read
from htcondor2._security import SecurityContext


class Collector:
    """A pool's collector: this pool's, or that of ``pool`` (``host:port``, a list of such, or an ad with MyAddress)."""

    def __init__(
        self, pool: str | ClassAd | Sequence[str] | None = None, security: SecurityContext | None = None
    ) -> None:
        self._token = None if security is None else security.preferred_token
        if isinstance(pool, ClassAd):
            self._address: str | None = _pool.address_of(pool, "collector")
        elif pool is None or isinstance(pool, str):
            self._address = _pool.collector_at(pool) if pool else None
        elif isinstance(pool, Sequence) and pool:
            self._address = _pool.collector_at(pool[0])
        else:
            raise TypeError("pool must be a string, a list of strings, or a ClassAd")
        #: Names the pool: that of the moment, whatever the environment names later.
        self._env: Mapping[str, str] | None = environment() if self._address is None else None

    @classmethod
    def _of_pool(cls, env: Mapping[str, str]) -> Collector:
        """The collector of the pool that ``env`` names."""
        made = cls()
        made._env = env
        return made

    def _client(self) -> Client:
        return _pool.client(Client, self._address, self._token, self._env)

    def query(
        self,
        ad_type: AdType = AdType.Any,
        constraint: str | ExprTree | bool | None = None,
        projection: Sequence[str] | None = None,
        statistics: str | None = None,
    ) -> list[ClassAd]:
        """The ads of a kind for which the constraint is true; a startd, where the pool's address is a startd's, answers
        for its own slots, and a schedd for those that it has claimed. ``statistics`` has no effect: ads have all of
        theirs.
        """
        if not isinstance(ad_type, AdType):
            raise TypeError("ad_type must be an htcondor.AdType")
        kind = MY_TYPES.get(ad_type.name.lower())
        if kind is None:
            raise HTCondorException(f"this collector shows no ads of the type {ad_type.name}")
        with _pool.calling("the collector"):
            wanted, names = as_read(constraint), projection or ()
            try:
                found = self._client().query(kind, wanted, names)
            except NotFoundError:
                if self._address is None or kind != MY_TYPES["startd"]:
                    raise
                try:
                    found = _pool.client(Startd, self._address, self._token).slots(wanted, names)
                except NotFoundError:
                    return self._claimed(constraint, names)
        return [ClassAd._of(ad) for ad in found]

    def _claimed(self, constraint: str | ExprTree | bool | None, projection: Sequence[str]) -> list[ClassAd]:
        """The slots of a schedd, which answers at the address of this pool."""
        from htcondor2._schedd import Schedd  # it asks a collector

        schedd = Schedd(ClassAd({"MyAddress": self._address}))
        return schedd.get_claims(None if constraint is None else str(constraint), projection)

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
        return self.query(_ad_type(daemon_type), f"Name == {quote(str(found['Name']))}", projection, statistics)[0]

    def locate(self, daemon_type: DaemonType, name: str | None = None) -> ClassAd | None:
        """The ad of a daemon with what is needed to reach it; None when the pool has none of that name.

        Without a name: the daemon of this host, or of the pool that the collector was made for.
        """
        kind = _ad_type(daemon_type)
        if name is not None:
            by_machine = daemon_type == DaemonType.Startd and "@" not in name
            attribute = "Machine" if by_machine else "Name"
            return next(iter(self.query(kind, f"{attribute} == {quote(name)}", LOCATING)), None)
        if self._address is None and (here := _pool.here(DaemonType(daemon_type).name.lower(), self._env)):
            for ad in self.query(kind, None, LOCATING):
                if ad.get("MyAddress") in here:
                    return ad
        return next(iter(self.query(kind, None, LOCATING)), None)

    def locateAll(self, daemon_type: DaemonType) -> list[ClassAd]:
        """The ads of all daemons of a type, with what is needed to reach them."""
        return self.query(_ad_type(daemon_type), projection=LOCATING)

    def advertise(self, ad_list: Sequence[ClassAd], command: str = "UPDATE_AD_GENERIC", use_tcp: bool = True) -> None:
        """Put ads into the collector, or take them out of it (``INVALIDATE_...``).

        :raises ValueError: there is no such command.
        :raises HTCondorException: the collector refuses one, with its reason.
        """
        found = re.fullmatch(r"(UPDATE|INVALIDATE)_(?:AD_GENERIC|([A-Z]+)_ADS?(_GENERIC)?)", command)
        if found is None or (found[2] and found[2] not in COMMAND_WORDS):
            raise ValueError(f"invalid command {command}")
        kind = COMMAND_WORDS[found[2]] if found[2] else GENERIC
        for ad in ad_list:
            if not isinstance(ad, ClassAd):
                raise TypeError("ad_list must be a list of ClassAds")
        if found[1] == "INVALIDATE":
            self._invalidate(ad_list, kind)
            return
        with _pool.calling("the collector"):
            refused = self._client().advertise([ad._native for ad in ad_list], "" if kind == GENERIC else kind)
        if refused:
            raise HTCondorException("; ".join(refused))

    def _invalidate(self, ad_list: Sequence[ClassAd], kind: str) -> None:
        with _pool.calling("the collector"):
            for ad in ad_list:
                if "Requirements" in ad:
                    self._client().invalidate(kind, constraint=str(ad.lookup("Requirements")))
                else:
                    self._client().invalidate(kind, [str(ad["Name"])])


def _ad_type(daemon_type: DaemonType) -> AdType:
    try:
        return AdType[DaemonType(daemon_type).name]
    except (KeyError, ValueError):
        raise HTCondorException(f"there are no daemons of the type {daemon_type!r}") from None
