"""Ads of machines that are off: those that went to sleep (offline), and those that stopped advertising (absent).

The ad of a machine that goes to sleep says ``Offline = true`` and stays with the others, so that jobs match
it. An absent ad (ABSENT_REQUIREMENTS) is kept apart: only queries for ``Absent`` see it. Both are in a file, from
which a restarted collector reads them, and are removed when their machine advertises again.

Source: HTCondor's offline plug-in of the collector; administrators' manual, "Power Management" and "Absent ClassAds".
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.collector.ad_log import AdLog
from slotwise.collector.ownership import host_in
from slotwise.collector.sleeps import SleepRecord
from slotwise.table import AdTable, PackKeys

#: The attribute that says when the collector last heard of an ad.
_HEARD = "LastHeardFrom"
_FOREVER_S = 2**31 - 1
_MARKS = frozenset({"offline", "absent"})


class OfflineRules(Struct):
    """How long ads of machines that are off are kept (seconds), and which machines become absent."""

    offline_life_s: int = _FOREVER_S
    absent_requirements: ExprTree | None = None
    absent_life_s: int = 30 * 24 * 3600
    #: Whether an invalidated ad may become absent, too (EXPIRE_INVALIDATED_ADS).
    expire_invalidated: bool = False


class Touched(Struct, frozen=True):
    """What a pack means for machines that are off."""

    keys: tuple[str, ...]
    #: When those offline ads were last heard of to which the pack only adds something (a match, say).
    merged: dict[str, float]


class OfflineAds:
    """Tracks the slots' ads.

    :param slots: the table of all slots.
    :param record: the record of sleeps.
    """

    def __init__(self, slots: AdTable, log: AdLog, now: float, record: SleepRecord) -> None:
        self.rules = OfflineRules()
        self.absent = AdTable()
        self.record = record
        self._slots = slots
        self._log = log
        sleeping: dict[str, tuple[ClassAd, float]] = {}
        for name, ad in log.ads.items():
            heard = ad.eval(_HEARD)
            at = float(heard) if isinstance(heard, int | float) else now
            if ad.eval("Absent") is True:
                self.absent.upsert(name, ad, at)
                continue
            slots.upsert(name, ad, at)
            machine = host_in(name)
            if machine not in sleeping or at < sleeping[machine][1]:
                sleeping[machine] = (ad, at)
        record.take_up(sleeping, now)

    @property
    def kept(self) -> dict[str, ClassAd]:
        """The ads that are kept, by name."""
        return self._log.ads

    def touched(self, found: PackKeys, *, goes_offline: bool) -> Touched:
        """Call this before a pack of slots' ads is applied, and give the result to :meth:`follow` afterwards."""
        keys = _concerned(found, goes_offline or not _MARKS.isdisjoint(n.lower() for n in found.names), self.kept)
        merged = {}
        for key in found.changed:
            if key in self.kept and (at := self._slots.received_at(key)) is not None:
                merged[key] = at
        return Touched(keys, merged)

    def follow(self, what: Touched, now: float, *, goes_offline: bool = False) -> None:
        """A pack was applied at ``now``: keep ads of machines that are off, drop those of machines that came back."""
        off: dict[str, ClassAd] = {}
        back: list[str] = []
        slept: dict[str, ClassAd] = {}
        for key in what.keys:
            ad = self._slots.get(key)
            if ad is None:
                if key not in self.absent:
                    back.append(key)
                continue
            self.absent.remove(key)
            if goes_offline and "Offline" not in ad:
                ad.update(asleep(now, self.rules.offline_life_s))
                self._slots.upsert(key, ad, now)
            elif key in what.merged and ad.eval("Offline") is True:
                ad[_HEARD] = int(what.merged[key])
                self._slots.upsert(key, ad, what.merged[key])
            if ad.eval("Offline") is True:
                off[key] = ad
                if not self._sleeps(key):
                    slept[host_in(key)] = ad
            elif key in self.kept:
                back.append(key)
                self.record.woke(host_in(key), now)
        self._let_go(back, now)
        if off:
            self._log.put(off)
        for machine, ad in slept.items():
            self.record.slept(machine, ad, now)

    def gone(self, keys: Iterable[str], now: float) -> None:
        """Handle ads that were invalidated or have expired."""
        self._let_go(list(keys), now)

    def _sleeps(self, key: str) -> bool:
        ad = self.kept.get(key)
        return ad is not None and ad.eval("Offline") is True and ad.eval("Absent") is not True

    def _let_go(self, keys: list[str], now: float) -> None:
        """Drop these ads; a machine without another offline ad no longer counts as asleep."""
        machines = {host_in(key) for key in keys if key in self.kept}.intersection(self.record.asleep)
        self._log.remove(keys)
        if machines:
            left = {host_in(key) for key in self.kept if self._sleeps(key)}
            for machine in machines - left:
                self.record.woke(machine, now)

    def miss(self, keys: Iterable[str], now: float) -> list[str]:
        """Keep as absent those of the ads to be removed that ABSENT_REQUIREMENTS wants; returns their keys."""
        wanted = self.rules.absent_requirements
        if wanted is None:
            return []
        missed: dict[str, ClassAd] = {}
        for key in keys:
            ad = self._slots.get(key)
            if ad is None or wanted.eval(ad, now=int(now)) is not True:
                continue
            ad.update(
                {
                    "Absent": True,
                    "ClassAdLifetime": self.rules.absent_life_s or _FOREVER_S,
                    "MyCurrentTime": int(now),
                    _HEARD: int(now),
                }
            )
            missed[key] = ad
            self.absent.upsert(key, ad, now)
            self._slots.remove(key)
        if missed:
            self._let_go([key for key in missed if self._sleeps(key)], now)
            self._log.put(missed)
        return list(missed)

    def stale(self, now: float, lifetime_s: float) -> list[str]:
        """Handle slots whose ads are about to expire."""
        if self.rules.absent_requirements is None:
            return []
        return self._slots.query_keys(f"{int(now)} - {_HEARD} > (ClassAdLifetime ?: {int(lifetime_s)})", now=int(now))

    def expire_absent(self, now: float) -> list[str]:
        """Remove the ads of machines that have been absent for ABSENT_EXPIRE_ADS_AFTER."""
        keys = self.absent.expire(now, float(_FOREVER_S))
        self.gone(keys, now)
        return keys

    def asks_for_absent(self, constraint: ExprTree | None) -> bool:
        """Whether a query is about absent machines, too."""
        if constraint is None or not len(self.absent):
            return False
        asked = constraint.references()
        return any(name.lower() == "absent" for name in (*asked.my, *asked.target, *asked.bare))


def _concerned(found: PackKeys, marked: bool, kept: dict[str, ClassAd]) -> tuple[str, ...]:
    named = (*found.whole, *found.changed, *found.removed)
    return named if marked else tuple(key for key in named if key in kept)


def asleep(now: float, life_s: int) -> dict[str, object]:
    """The attributes of a machine's ad from the moment it goes to sleep: none that keeps jobs away."""
    return {
        "Offline": True,
        "State": "Unclaimed",
        "Activity": "Idle",
        "EnteredCurrentState": 0,
        "EnteredCurrentActivity": 0,
        "MyCurrentTime": int(now),
        _HEARD: int(now),
        "LoadAvg": 0.0,
        "CondorLoadAvg": 0.0,
        "TotalLoadAvg": 0.0,
        "TotalCondorLoadAvg": 0.0,
        "CpuIsBusy": False,
        "CpuBusyTime": 0,
        "KeyboardIdle": _FOREVER_S,
        "ConsoleIdle": _FOREVER_S,
        **({"ClassAdLifetime": life_s} if life_s > 0 else {}),
    }
