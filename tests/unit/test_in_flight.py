"""Matches that no startd has reported yet."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from hypothesis import given
from hypothesis import strategies as st
from slotwise.classad.values import Value, number
from slotwise.negotiator.amended_slots import amended
from slotwise.negotiator.in_flight import GIVE_UP_S, InFlight, Offered
from slotwise.table import AdTable
from slotwise.wire.gen.schedd_pb2 import MatchOutcome

from tests.support.negotiation.rows import made_match


def table(*slots: Mapping[str, Value]) -> AdTable:
    made = AdTable()
    for ad in slots:
        free: dict[str, Value] = {"State": "Unclaimed", "Activity": "Idle", "UpdateSequenceNumber": 1}
        made.upsert(str(ad["Name"]), free | dict(ad))
    return made


def text(of: AdTable) -> bytes:
    return of.long_text()


def offered(slot: str, match_id: int = 0, limits: str | None = None, **carve: float) -> Offered:
    return Offered(made_match(slot, carve=carve, limits=limits), match_id)


def seen(flight: InFlight, slots: AdTable, now: float) -> AbstractContextManager[None]:
    return amended(slots, flight.amendments(slots, now))


def test_a_matched_slot_looks_claimed_for_the_length_of_a_cycle() -> None:
    slots = table({"Name": "s1", "Cpus": 1})
    before = text(slots)
    flight = InFlight()
    flight.note(slots, [offered("s1")], now=0)
    with seen(flight, slots, 1):
        assert slots.value("s1", "State") == "Claimed" and slots.value("s1", "RemoteUser") == "ann@d"
    assert text(slots) == before


def test_a_carved_slot_has_less_and_stand_ins_carry_the_rest() -> None:
    slots = table({"Name": "p", "Cpus": 8, "Memory": 800, "SlotWeight": 8})
    before = text(slots)
    flight = InFlight()
    flight.note(slots, [offered("p", Cpus=2, Memory=100), offered("p", Cpus=1, Memory=100)], now=0)
    with seen(flight, slots, 1):
        assert slots.value("p", "Cpus") == 5 and slots.value("p", "Memory") == 600
        stand_ins = [key for key in slots.keys() if key != "p"]  # noqa: SIM118 - a table is not a dict
        assert sorted(number(slots.value(key, "SlotWeight")) for key in stand_ins) == [1.0, 2.0]
    assert text(slots) == before


def test_matches_hold_their_concurrency_limits_before_a_slot_tells_them() -> None:
    slots = table({"Name": "s1", "Cpus": 1}, {"Name": "p", "Cpus": 8})
    before = text(slots)
    flight = InFlight()
    flight.note(slots, [offered("s1", limits="dice:2"), offered("p", limits="dice:2", Cpus=1)], now=0)
    with seen(flight, slots, 1):
        held = [slots.value(key, "ConcurrencyLimits") for key in slots.keys() if key != "p"]  # noqa: SIM118
        assert held == ["dice:2", "dice:2"]
    assert text(slots) == before


def test_news_of_the_slot_end_it_and_so_does_time() -> None:
    slots = table({"Name": "s1", "Cpus": 1}, {"Name": "s2", "Cpus": 1}, {"Name": "s3", "Cpus": 1})
    flight = InFlight()
    flight.note(slots, [offered("s1"), offered("s2"), offered("s3")], now=0)
    slots.update("s1", {"UpdateSequenceNumber": 2, "State": "Claimed"})
    slots.remove("s3")
    flight.settle(slots, now=0.1)
    assert len(flight) == 1
    flight.settle(slots, now=GIVE_UP_S)
    assert len(flight) == 0


def over(match_id: int, count: int = 1) -> MatchOutcome:
    return MatchOutcome(match_id=match_id, what=MatchOutcome.OVER, count=count)


def test_a_match_hides_its_slot_until_its_access_point_says_what_became_of_it() -> None:
    slots = table({"Name": "s1", "Cpus": 1}, {"Name": "s2", "Cpus": 1})
    flight = InFlight()
    flight.hear([], ["ap"])
    flight.note(slots, [offered("s1", 1), offered("s2", 2)], now=0)
    slots.update("s1", {"UpdateSequenceNumber": 2})  # sent before the claim was asked for
    flight.settle(slots, now=1)
    assert len(flight) == 2
    flight.hear([over(1), over(99)], ["ap"])
    assert len(flight) == 1, "the slot of a match that came to nothing is free at once"
    flight.settle(slots, now=GIVE_UP_S)
    assert len(flight) == 1, "who promised to tell is waited for"
    slots.update("s2", {"UpdateSequenceNumber": 2, "State": "Claimed"})
    flight.settle(slots, now=GIVE_UP_S)
    assert len(flight) == 0


def test_pieces_of_a_partitionable_slot_are_told_apart_by_the_slots_claimed_through_them() -> None:
    slots = table({"Name": "p", "Cpus": 8, "Memory": 800, "SlotWeight": 8})
    flight = InFlight()
    flight.hear([], ["ap"])
    flight.note(slots, [offered("p", 7, Cpus=2)] * 3, now=0)
    claimed = MatchOutcome(match_id=7, what=MatchOutcome.CLAIMED, slot_names=["p_1", "p_2"])
    flight.hear([claimed, over(7)], ["ap"])
    assert len(flight) == 2
    slots.upsert("p_1", {"Name": "p_1", "State": "Claimed", "Cpus": 2})
    flight.settle(slots, now=1)
    assert len(flight) == 1
    flight.hear([over(7)], ["ap"])
    assert len(flight) == 0


def test_offline_and_unknown_slots_are_not_waited_for() -> None:
    flight = InFlight()
    flight.note(table({"Name": "s1"}), [Offered(made_match("s1", offline=True)), offered("nowhere")], now=0)
    assert len(flight) == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=12))
def test_amendments_leave_the_table_as_it_was(matches: list[tuple[int, int]]) -> None:
    ads: list[dict[str, Value]] = [{"Name": f"s{n}", "Cpus": 4, "Memory": 100} for n in range(4)]
    slots = table(*ads)
    before = text(slots)
    flight = InFlight()
    for at, (slot, cpus) in enumerate(matches):
        flight.note(slots, [offered(f"s{slot}", Cpus=cpus) if cpus else offered(f"s{slot}")], now=at)
        with seen(flight, slots, at):
            assert all(number(slots.value(f"s{n}", "Cpus"), -1) >= 0 for n in range(4))
        assert text(slots) == before
