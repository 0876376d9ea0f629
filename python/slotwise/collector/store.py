"""The collector's ads: a table per kind, and another for capabilities that only daemons may see. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slotwise.classad import ExprTree
from slotwise.collector.offline import OfflineAds, Touched
from slotwise.collector.update_statistics import UpdateStatistics
from slotwise.errors import UsageError
from slotwise.model.windows import Window
from slotwise.table import AdTable, ApplyReport, PackKeys

#: Kinds under the other names that users and HTCondor use.
_ALIASES = {
    "slot": "Machine",
    "startd": "StartDaemon",
    "schedd": "Scheduler",
    "submitters": "Submitter",
    "master": "DaemonMaster",
}
#: The attribute that says when the collector last heard of an ad, in epoch seconds.
HEARD = "LastHeardFrom"
#: The kind of the ads of slots.
SLOTS = "Machine"
_RESET_FLAG_AT = 4
_RESET_FLAG = 1


class AdStore:
    """The newest ad of every daemon and slot."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, bool], AdTable] = {}
        self._names: dict[str, str] = {}
        #: Whether each ad says how often it was updated (COLLECTOR_DAEMON_STATS).
        self.counts = True
        #: The updates that came, for the collector's own ad.
        self.updates = UpdateStatistics(Window(), began=0.0)
        #: The ads of machines that are off; None: they are not followed.
        self.offline: OfflineAds | None = None

    def kinds(self) -> list[str]:
        """The kinds that have or had public ads, by name."""
        return sorted(kind for kind, private in self._tables if not private)

    def canonical(self, kind: str) -> str:
        """The kind as it was first spelled: case does not distinguish kinds."""
        kind = _ALIASES.get(kind.lower(), kind)
        return self._names.get(kind.lower(), kind)

    def table(self, kind: str, *, private: bool = False) -> AdTable:
        """The table of ``kind``, which is created if there is none yet."""
        kind = self.canonical(kind)
        found = self._tables.get((kind, private))
        if found is None:
            if not kind or kind.lower() == "any":
                raise UsageError(f"{kind!r} is not a kind of ad")
            self._names[kind.lower()] = kind
            found = self._tables[(kind, private)] = AdTable()
        return found

    def find(self, kind: str) -> AdTable | None:
        """The public ads of ``kind``, or None if there never was one."""
        return self._tables.get((self.canonical(kind), False))

    def has(self, kind: str, key: str) -> bool:
        """Whether there is an ad of this kind and key, public or private."""
        tables = (self._tables.get((self.canonical(kind), private)) for private in (False, True))
        return any(table is not None and key in table for table in tables)

    def of_slots(self, kind: str, *, private: bool = False) -> OfflineAds | None:
        """What tracks machines that are off, if the public ads of ``kind`` are those of slots."""
        return self.offline if not private and self.canonical(kind) == SLOTS else None

    def touched(
        self, kind: str, pack: PackKeys, *, private: bool = False, goes_offline: bool = False
    ) -> Touched | None:
        """Call this before :meth:`apply`, and give the result to :meth:`settle` afterwards."""
        offline = self.of_slots(kind, private=private)
        return None if offline is None else offline.touched(pack, goes_offline=goes_offline)

    def settle(self, what: Touched | None, now: float, *, goes_offline: bool = False) -> None:
        """Keep what a pack says of machines that are off; it is on disk when this returns.

        :raises OSError: it cannot be written.
        """
        if what is None or self.offline is None or not what.keys:
            return
        self.offline.follow(what, now, goes_offline=goes_offline)
        if goes_offline:
            self._drop_capabilities(SLOTS, what.keys)

    def apply(self, kind: str, pack: bytes, now: float, *, private: bool = False) -> ApplyReport:
        """Apply a pack of whole ads, deltas and removals that arrived at ``now``.

        A pack that would empty the table first (as one side of a mirror sends) only adds here: a sender speaks for
        its own ads, not for those of others.

        :raises SlotwiseError: it is not a pack.
        """
        if len(pack) > _RESET_FLAG_AT and pack[_RESET_FLAG_AT] & _RESET_FLAG:
            pack = b"".join((pack[:4], bytes([pack[4] & ~_RESET_FLAG]), pack[5:]))
        report = self.table(kind, private=private).apply(pack, now, stamp=HEARD, counts=self.counts and not private)
        if not private:
            self.updates.add(self.canonical(kind), report.inserted + report.updated, report.inserted, now)
        return report

    def invalidate(self, kind: str, keys: Sequence[str], now: float) -> list[str]:
        """Remove ads, public and private; returns the keys of the public ones."""
        removed: list[str] = []
        offline = self.of_slots(kind)
        if offline is not None:
            removed = self._invalidate_off(offline, keys, now)
        for private in (False, True):
            table = self._tables.get((self.canonical(kind), private))
            if table is None:
                continue
            gone = [key for key in keys if table.remove(key)]
            if not private:
                removed += gone
                if offline is not None:
                    offline.gone(gone, now)
        return removed

    def _invalidate_off(self, offline: OfflineAds, keys: Sequence[str], now: float) -> list[str]:
        """Remove absent ads; with EXPIRE_INVALIDATED_ADS others become absent instead."""
        named = [key for key in keys if key in offline.absent]
        for key in named:
            offline.absent.remove(key)
        offline.gone(named, now)
        if offline.rules.expire_invalidated:
            missed = offline.miss([key for key in keys if key not in named], now)
            self._drop_capabilities(SLOTS, missed)
            return [*named, *missed]
        return named

    def expire(
        self, now: float, lifetime_s: float, on_lost: Callable[[str, list[str]], None] = lambda kind, keys: None
    ) -> dict[str, int]:
        """Expire ads that were not renewed within their ClassAdLifetime (else ``lifetime_s``); returns counts per kind.

        ``on_lost`` is called with the keys of each kind. A capability lives as long as the public ad of its key:
        senders advertise it only when it changes.
        """
        gone: dict[str, int] = {}
        if self.offline is not None:
            missed = self.offline.miss(self.offline.stale(now, lifetime_s), now)
            self._drop_capabilities(SLOTS, missed)
            if missed:
                gone[SLOTS] = len(missed)
                on_lost(f"{SLOTS} (now absent)", missed)
            if forgotten := self.offline.expire_absent(now):
                on_lost(f"absent {SLOTS}", forgotten)
        for (kind, private), table in self._tables.items():
            if private:
                continue
            keys = table.expire(now, lifetime_s)
            if keys:
                gone[kind] = gone.get(kind, 0) + len(keys)
                on_lost(kind, keys)
                if self.offline is not None and kind == SLOTS:
                    self.offline.gone(keys, now)
                self._drop_capabilities(kind, keys)
        return gone

    def _drop_capabilities(self, kind: str, keys: Sequence[str]) -> None:
        table = self._tables.get((kind, True))
        if table is not None:
            for key in keys:
                table.remove(key)

    def selected(self, kind: str, constraint: ExprTree | None = None) -> list[AdTable]:
        """The tables that a query for ``kind`` reads: all for ``Any``, none for a kind that nobody has sent.

        Only queries for ``Absent`` see absent machines.
        """
        everything = not kind or kind.lower() == "any"
        missed = self.offline.absent if self.offline is not None and self.offline.asks_for_absent(constraint) else None
        if everything:
            found = [self._tables[(name, False)] for name in self.kinds()]
        else:
            one = self.find(kind)
            found = [] if one is None else [one]
        if missed is not None and (everything or self.canonical(kind) == SLOTS):
            found.append(missed)
        return found
