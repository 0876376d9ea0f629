"""Matches that the startds have not reported yet.

Between an offer and the slot's next ad, the mirror still shows the slot as it was. A cycle that comes meanwhile must
not give it away again, and must charge it to its submitter. So for the length of a cycle the slot table is *overlaid*:
a matched static slot looks claimed, a partitionable slot has less left and a stand-in row carries what was carved.

An access point tells what became of its matches whenever it is asked for requests: a match that came to nothing stops
hiding its slot at once, and one that was claimed hides it until the claimed slot is in the mirror. Matches of an access
point that does not tell are judged by time and by newer ads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slotwise.table import AdTable
from slotwise.wire.gen import schedd_pb2

#: After this time without news the match has come to nothing.
GIVE_UP_S = 5.0
#: The same when the access point tells what becomes of its matches: then only a loss explains silence.
LOST_S = 30.0
#: With such an access point, news that do not show the match are believed after this time.
_NEWS_S = 2.0
#: How long news that do not show the match yet are taken to be older than it. A startd tells changes within a fifth
#: of a second; giving a slot away twice costs a refused claim, waiting too long costs idle machines.
_SETTLE_S = 0.5


@dataclass
class _Match:
    slot: str
    submitter: str
    made_at: float
    sequence: Any
    rank: float
    #: Amounts by resource taken from a partitionable slot, empty for a slot given whole.
    carve: Mapping[str, float]
    id: int = 0
    #: Concurrency limits it holds, as the slot's ad will tell them.
    limits: str = ""
    #: The slot that was claimed through it, once that is known.
    claimed: str = ""
    #: Its access point tells what becomes of it.
    told: bool = False
    #: What is left of the partitionable slot once this and earlier matches are carved.
    expected: dict[str, float] = field(default_factory=dict)


class InFlight:
    """The matches made and not yet seen in slot ads."""

    def __init__(self) -> None:
        self._by_slot: dict[str, list[_Match]] = {}
        self._undo: list[tuple[str, dict[str, Any] | None, list[str]]] = []
        self._tellers: set[str] = set()

    def __len__(self) -> int:
        return sum(len(matches) for matches in self._by_slot.values())

    def note(self, table: AdTable, rows: list[dict[str, Any]], now: float) -> None:
        """Remember the matches of a cycle. ``table`` is the mirror without overlay."""
        for row in rows:
            slot = row["slot"]
            if slot not in table or row.get("offline") or row.get("claimable") is False:
                continue
            if table.value(slot, "WantAdRevaluate") is True:
                continue  # it takes several
            carve = row.get("carve") or {}
            match = _Match(
                slot,
                row["submitter"],
                now,
                _sequence(table, slot),
                float(row.get("rank") or 0.0),
                carve,
                limits=str(row.get("limits") or ""),
                id=row.get("match_id", 0),
                told=bool(row.get("match_id")) and row.get("schedd", "") in self._tellers,
            )
            before = self._by_slot.setdefault(slot, [])
            if carve:
                for name in carve:
                    left = before[-1].expected.get(name) if before else None
                    if left is None:
                        left = _number(table, slot, name)
                    match.expected[name] = left - float(carve[name])
            before.append(match)

    def hear(self, fates: Iterable[schedd_pb2.MatchFate], tellers: Iterable[str]) -> None:
        """Take in what became of matches, and which access points tell that."""
        self._tellers.update(tellers)
        by_id: dict[int, list[_Match]] = {}
        for match in (m for matches in self._by_slot.values() for m in matches if m.id):
            by_id.setdefault(match.id, []).append(match)
        for fate in fates:
            alike = by_id.get(fate.match_id, [])
            if fate.what == schedd_pb2.MatchFate.CLAIMED:
                free = [m for m in alike if not m.claimed]
                for match, name in zip(free, fate.slot_names, strict=False):
                    match.claimed = name
            else:
                # Those not claimed first: claims that were given back were told as claimed before.
                alike.sort(key=lambda m: bool(m.claimed))
                by_id[fate.match_id] = alike[fate.count :]
                for match in alike[: fate.count]:
                    self._drop(match)

    def _drop(self, match: _Match) -> None:
        left = [m for m in self._by_slot[match.slot] if m is not match]
        if left:
            self._by_slot[match.slot] = left
        else:
            del self._by_slot[match.slot]

    def settle(self, table: AdTable, now: float) -> None:
        """Drop matches that the mirror shows by now, and those given up."""
        for slot in list(self._by_slot):
            kept = [m for m in self._by_slot[slot] if not _settled(m, table, now)]
            if kept:
                self._by_slot[slot] = kept
            else:
                del self._by_slot[slot]

    def next_end(self, table: AdTable) -> float | None:
        """When the next match stops hiding its slot without further news; None without matches."""
        return min(
            (match.made_at + _patience(match, table) for slot, matches in self._by_slot.items() for match in matches),
            default=None,
        )

    def overlay(self, table: AdTable, now: float) -> None:
        """Make the table look as if all matches were reported; :meth:`restore` takes that back."""
        assert not self._undo
        self.settle(table, now)
        for slot, matches in self._by_slot.items():
            whole = [m for m in matches if not m.carve]
            if whole:
                self._look_claimed(table, slot, whole[-1])
            carved = [m for m in matches if m.carve]
            if carved:
                self._carve(table, slot, carved)

    def _look_claimed(self, table: AdTable, slot: str, match: _Match) -> None:
        look = {
            "State": "Claimed",
            "Activity": "Idle",
            "RemoteUser": match.submitter,
            "RemoteOwner": match.submitter,
            "AccountingGroup": match.submitter,
            "CurrentRank": match.rank,
            **_limits(match),
        }
        self._change(table, slot, look)

    def _carve(self, table: AdTable, slot: str, matches: list[_Match]) -> None:
        left = {}
        for name, expected in matches[-1].expected.items():
            left[name] = max(0.0, min(expected, _number(table, slot, name)))
        weight = _number(table, slot, "SlotWeight") or _number(table, slot, "Cpus")
        cpus = _number(table, slot, "Cpus")
        self._change(table, slot, {name: _plain(amount) for name, amount in left.items()})
        for number, match in enumerate(matches):
            key = f"{slot}#match{number}"
            taken = float(match.carve.get("Cpus", match.carve.get("cpus", 1.0)))
            ad = {
                "MyType": "Machine",
                "Name": key,
                "State": "Claimed",
                "Activity": "Idle",
                "DynamicSlot": True,
                "RemoteUser": match.submitter,
                "RemoteOwner": match.submitter,
                "AccountingGroup": match.submitter,
                "Cpus": _plain(taken),
                "SlotWeight": weight * taken / cpus if cpus else taken,
                "CurrentRank": match.rank,
                "Requirements": False,
                "Start": False,
                **_limits(match),
            }
            table.upsert(key, ad)
            self._undo.append((key, None, []))

    def _change(self, table: AdTable, slot: str, look: dict[str, Any]) -> None:
        ad = table.get(slot)
        assert ad is not None
        former = {name: ad.lookup(name) for name in look if name in ad}
        self._undo.append((slot, former, [name for name in look if name not in ad]))
        table.update(slot, look)

    def restore(self, table: AdTable) -> None:
        """Take the overlay back."""
        for key, former, added in reversed(self._undo):
            if former is None:
                table.remove(key)
            else:
                table.update(key, former, added)
        self._undo.clear()


def _patience(match: _Match, table: AdTable) -> float:
    """How long a match hides its slot if nothing more is heard, seconds."""
    news = _sequence(table, match.slot) != match.sequence
    if match.told:
        return _NEWS_S if news else LOST_S
    return _SETTLE_S if news else GIVE_UP_S


def _settled(match: _Match, table: AdTable, now: float) -> bool:
    if match.slot not in table or now - match.made_at >= _patience(match, table):
        return True
    if match.claimed in table and str(table.value(match.claimed, "State")) in ("Claimed", "Preempting"):
        return True
    if _sequence(table, match.slot) == match.sequence:
        return False
    if not match.carve:
        return not match.told or str(table.value(match.slot, "State")) in ("Claimed", "Preempting")
    # News of a partitionable slot may still be from before this match was carved.
    return all(_number(table, match.slot, name) <= left + 1e-9 for name, left in match.expected.items())


def _sequence(table: AdTable, slot: str) -> Any:
    """What differs between an ad and a newer one of the same slot: LastHeardFrom alone has a grain of a second."""
    return tuple(
        str(table.value(slot, name))
        for name in ("UpdateSequenceNumber", "State", "Activity", "EnteredCurrentState", "Cpus", "RemoteUser")
    )


def _limits(match: _Match) -> dict[str, str]:
    return {"ConcurrencyLimits": match.limits} if match.limits else {}


def _number(table: AdTable, slot: str, name: str) -> float:
    value = table.value(slot, name)
    return float(value) if isinstance(value, int | float) else 0.0


def _plain(amount: float) -> int | float:
    return int(amount) if amount == int(amount) else amount
