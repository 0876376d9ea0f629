"""Matches that the startds have not reported yet.

Between an offer and the slot's next ad, the mirror still shows the slot as it was. A cycle that comes meanwhile must
not give it away again, and must charge it to its submitter. So for the length of a cycle the slot table is *amended*:
a matched static slot looks claimed, a partitionable slot has less left and a stand-in row carries what was carved.

An access point reports what became of its matches whenever it is asked for requests: a match that came to nothing stops
hiding its slot at once, and one that was claimed hides it until the claimed slot is in the mirror. Matches of an access
point that does not report are judged by time and by newer ads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from slotwise.classad.values import Value
from slotwise.matchmaking.rows import Match
from slotwise.negotiator.amended_slots import Amendment
from slotwise.table import AdTable
from slotwise.wire.gen import schedd_pb2

#: After this time without news the match has come to nothing.
GIVE_UP_S = 5.0
#: The same when the access point reports what becomes of its matches: then only a loss explains silence.
LOST_S = 30.0
#: With such an access point, news that do not show the match are believed after this time.
_NEWS_S = 2.0
#: How long news that do not show the match yet count as older than it. A startd advertises changes within a fifth
#: of a second; giving a slot away twice costs a refused claim, waiting too long costs idle machines.
_SETTLE_S = 0.5


#: What tells an ad from a newer one of the same slot.
_Sequence = tuple[str, ...]


class Offered(Struct, frozen=True):
    """A match as it is offered to its access point."""

    match: Match
    #: Number by which the access point reports what became of it; 0 for one that makes no claim.
    id: int = 0


class _Match(Struct):
    slot: str
    submitter: str
    made_at: float
    sequence: _Sequence
    rank: float
    #: Amounts by resource taken from a partitionable slot, empty for a slot given whole.
    carve: Mapping[str, float]
    id: int = 0
    #: The concurrency limits that it holds, as the slot's ad will have them.
    limits: str = ""
    #: The slot that was claimed through it, once that is known.
    claimed: str = ""
    #: Whether its access point reports what becomes of it.
    told: bool = False
    #: What is left of the partitionable slot once this and earlier matches are carved.
    expected: dict[str, float] = field(default_factory=dict)


class InFlight:
    """The matches that slot ads do not show yet."""

    def __init__(self) -> None:
        self._by_slot: dict[str, list[_Match]] = {}
        self._reporting: set[str] = set()

    def __len__(self) -> int:
        return sum(len(matches) for matches in self._by_slot.values())

    def note(self, table: AdTable, offered: Iterable[Offered], now: float) -> None:
        """Remember the matches of a cycle. ``table`` is the mirror as the collector has it."""
        for one in offered:
            row = one.match
            if row.slot not in table or row.offline or not row.claimable:
                continue
            if table.value(row.slot, "WantAdRevaluate") is True:
                continue  # it takes several
            carve = row.carve
            match = _Match(
                row.slot,
                row.submitter,
                now,
                _sequence(table, row.slot),
                row.rank,
                carve,
                limits=row.limits or "",
                id=one.id,
                told=bool(one.id) and row.schedd in self._reporting,
            )
            before = self._by_slot.setdefault(row.slot, [])
            for name, amount in carve.items():
                left = before[-1].expected.get(name) if before else None
                if left is None:
                    left = _number(table, row.slot, name)
                match.expected[name] = left - amount
            before.append(match)

    def hear(self, outcomes: Iterable[schedd_pb2.MatchOutcome], reporting: Iterable[str]) -> None:
        """Take in what became of matches, and which access points report it."""
        self._reporting.update(reporting)
        by_id: dict[int, list[_Match]] = {}
        for match in (m for matches in self._by_slot.values() for m in matches if m.id):
            by_id.setdefault(match.id, []).append(match)
        for outcome in outcomes:
            alike = by_id.get(outcome.match_id, [])
            if outcome.what == schedd_pb2.MatchOutcome.CLAIMED:
                free = [m for m in alike if not m.claimed]
                for match, name in zip(free, outcome.slot_names, strict=False):
                    match.claimed = name
            else:
                # Those not claimed come first: a claim that was returned was reported as claimed before.
                alike.sort(key=lambda m: bool(m.claimed))
                by_id[outcome.match_id] = alike[outcome.count :]
                for match in alike[: outcome.count]:
                    self._drop(match)

    def _drop(self, match: _Match) -> None:
        left = [m for m in self._by_slot[match.slot] if m is not match]
        if left:
            self._by_slot[match.slot] = left
        else:
            del self._by_slot[match.slot]

    def settle(self, table: AdTable, now: float) -> None:
        """Drop the matches that the mirror shows by now, and those that were given up."""
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

    def amendments(self, table: AdTable, now: float) -> Iterator[Amendment]:
        """The changes that make ``table`` look as if all matches were reported."""
        self.settle(table, now)
        for slot, matches in self._by_slot.items():
            whole = [m for m in matches if not m.carve]
            if whole:
                yield _claimed(slot, whole[-1])
            carved = [m for m in matches if m.carve]
            if carved:
                yield from _carved(table, slot, carved)


def _claimed(slot: str, match: _Match) -> Amendment:
    return Amendment(slot, {"State": "Claimed", "Activity": "Idle", **_holder(match)})


def _carved(table: AdTable, slot: str, matches: list[_Match]) -> Iterator[Amendment]:
    """What is left of a partitionable slot, and a stand-in for each dynamic slot."""
    left = {
        name: max(0.0, min(expected, _number(table, slot, name))) for name, expected in matches[-1].expected.items()
    }
    cpus = _number(table, slot, "Cpus")
    weight = _number(table, slot, "SlotWeight") or cpus
    yield Amendment(slot, {name: _plain(amount) for name, amount in left.items()})
    for number, match in enumerate(matches):
        key = f"{slot}#match{number}"
        taken = float(match.carve.get("Cpus", match.carve.get("cpus", 1.0)))
        ad: dict[str, Value] = {
            "MyType": "Machine",
            "Name": key,
            "State": "Claimed",
            "Activity": "Idle",
            "DynamicSlot": True,
            "Cpus": _plain(taken),
            "SlotWeight": weight * taken / cpus if cpus else taken,
            "Requirements": False,
            "Start": False,
            **_holder(match),
        }
        yield Amendment(key, ad)


def _holder(match: _Match) -> dict[str, Value]:
    """The attributes of a claimed slot that describe its claim."""
    return {
        "RemoteUser": match.submitter,
        "RemoteOwner": match.submitter,
        "AccountingGroup": match.submitter,
        "CurrentRank": match.rank,
        **({"ConcurrencyLimits": match.limits} if match.limits else {}),
    }


def _patience(match: _Match, table: AdTable) -> float:
    """How long a match hides its slot without further news, in seconds."""
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


def _sequence(table: AdTable, slot: str) -> _Sequence:
    """What tells an ad from a newer one of the same slot: LastHeardFrom alone is only exact to the second."""
    return tuple(
        str(table.value(slot, name))
        for name in ("UpdateSequenceNumber", "State", "Activity", "EnteredCurrentState", "Cpus", "RemoteUser")
    )


def _number(table: AdTable, slot: str, name: str) -> float:
    value = table.value(slot, name)
    return float(value) if isinstance(value, int | float) else 0.0


def _plain(amount: float) -> int | float:
    return int(amount) if amount == int(amount) else amount
