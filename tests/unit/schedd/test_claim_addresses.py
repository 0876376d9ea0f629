"""Where claims are held on slots of a startd that may come back at another address."""

from __future__ import annotations

from slotwise.schedd.claims.records import Claim, ClaimTable


def held(table: ClaimTable, number: int, startd: str, slot_name: str) -> Claim:
    claim = Claim(f"claim {number}", startd, slot_name, "alice@here", 60, b"")
    table.add(claim)
    return claim


def test_a_startd_is_found_by_any_of_its_slots_for_as_long_as_one_is_held() -> None:
    table = ClaimTable()
    first, second = held(table, 1, "tcp:a:1", "slot1_1@a"), held(table, 2, "tcp:a:1", "slot1_2@a")
    held(table, 3, "tcp:b:1", "slot1@b")
    assert table.addresses_of("slot1@a") == ["tcp:a:1"]
    assert table.addresses_of("slot1@c") == table.addresses_of("slot1") == []
    table.drop(first)
    assert table.addresses_of("slot9@a") == ["tcp:a:1"]
    table.drop(second)
    assert table.addresses_of("slot1@a") == [] and table.addresses_of("slot1@b") == ["tcp:b:1"]


def test_a_startd_that_has_moved_is_found_at_its_new_address_alone() -> None:
    table = ClaimTable()
    moved = held(table, 1, "tcp:a:1", "slot1@a")
    held(table, 2, "tcp:a:2", "slot2@a")
    assert table.addresses_of("slot1@a") == ["tcp:a:1", "tcp:a:2"]
    table.moved("tcp:a:1", "tcp:a:2")
    assert table.addresses_of("slot1@a") == ["tcp:a:2"] and moved.startd == "tcp:a:2"
    assert len(table.at("tcp:a:2")) == 2 and table.at("tcp:a:1") == []


def test_slots_without_a_startd_in_their_names_are_of_none() -> None:
    table = ClaimTable()
    claim = held(table, 1, "tcp:a:1", "slot1")
    assert table.addresses_of("slot1") == []
    table.drop(claim)
    assert table.at("tcp:a:1") == []
