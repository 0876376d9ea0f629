"""Which request makes room for another when many wait for an administrator."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import Struct
from msgspec.structs import replace
from slotwise.collector.waiting_room import MOST, MOST_OF_ADDRESS, SILENT_S, TURN_S, as_listed, making_room
from slotwise.errors import BusyError


class Request(Struct, frozen=True):
    network: str
    asked_at: float = 0.0
    heard_at: float = 0.0
    is_decided: bool = False


def of_network(network: str, count: int, heard_at: float = 0.0) -> dict[str, Request]:
    return {f"{network}-{n}": Request(network, n, heard_at) for n in range(count)}


def test_an_address_has_its_places_and_only_a_silent_request_of_its_own_makes_room() -> None:
    waiting = of_network("a", MOST_OF_ADDRESS, heard_at=100.0)
    assert making_room(waiting, "b", 100.0) is None
    with pytest.raises(BusyError, match="from this address"):
        making_room(waiting, "a", 100.0 + SILENT_S - 1)
    waiting["a-7"] = replace(waiting["a-7"], heard_at=99.0)
    waiting["b-0"] = Request("b", heard_at=0.0)
    assert making_room(waiting, "a", 100.0 + SILENT_S) == "a-7"


def test_whoever_goes_on_asking_keeps_others_of_the_address_out_for_a_turn_alone() -> None:
    now = TURN_S + 3.0
    waiting = of_network("a", MOST_OF_ADDRESS, heard_at=now)
    with pytest.raises(BusyError, match="from this address"):
        making_room(waiting, "a", TURN_S - 1)
    assert making_room(waiting, "a", now) == "a-0"
    waiting["a-0"] = replace(waiting["a-0"], is_decided=True)
    assert making_room(waiting, "a", now) == "a-1"


def test_what_is_decided_makes_no_room_but_takes_it() -> None:
    waiting = {name: replace(each, is_decided=True) for name, each in of_network("a", MOST_OF_ADDRESS).items()}
    with pytest.raises(BusyError):
        making_room(waiting, "a", 1000.0)


def test_whoever_holds_the_most_places_gives_one_up_when_all_are_taken() -> None:
    waiting: dict[str, Request] = {}
    for n in range(MOST // MOST_OF_ADDRESS):
        waiting |= of_network(f"flood{n}", MOST_OF_ADDRESS, heard_at=100.0)
    newcomers = 200
    for n in range(newcomers):
        displaced = making_room(waiting, f"host{n}", 100.0)
        assert displaced is not None and displaced.startswith("flood")
        del waiting[displaced]
        waiting[f"host{n}"] = Request(f"host{n}", heard_at=100.0)
    counts = Counter(each.network for each in waiting.values())
    assert len(waiting) == MOST and sum(counts[f"host{n}"] for n in range(newcomers)) == newcomers


def test_when_all_have_one_place_each_only_a_silent_one_makes_room() -> None:
    waiting = {f"{n}": Request(f"host{n}", heard_at=100.0 + n) for n in range(MOST)}
    with pytest.raises(BusyError, match="too many"):
        making_room(waiting, "late", 100.0 + SILENT_S - 1)
    assert making_room(waiting, "late", 100.0 + SILENT_S) == "0"


def test_a_flood_stands_last_in_the_list() -> None:
    waiting = of_network("flood", 20) | {"mine": Request("b", asked_at=500.0)}
    assert as_listed(waiting.values())[0].network == "b"
