"""The claim ids of slots: how often they serve, and when they end."""

from __future__ import annotations

from slotwise.startd.host.outbox import Granted, Refused
from slotwise.startd.slot import events as ev

from tests.support.startd_point import point


def test_a_capability_carves_many_times_and_a_claim_id_only_once() -> None:
    p = point()
    capability = p["slot1"].ids.current
    first = p.claim()
    assert isinstance(p.request_id(capability), Granted)
    assert isinstance(p.request_id(first), Refused)
    static = point(NUM_SLOTS="2")
    used = static["slot1"].ids.current
    static.claim("slot1")
    assert static["slot1"].ids.current != used
    assert static.request_id(used).code == 1035
    assert static.request_id("nonsense").code == 1034


def test_an_id_that_was_used_gives_way_to_another_and_ends_some_time_later() -> None:
    p = point(MATCH_TIMEOUT="120")
    capability = p["slot1"].ids.current
    first = p.claim()
    p.it.claim_ids.settle(p.now)
    fresh = p["slot1"].ids.current
    assert fresh != capability
    p.now += 119
    p.it.claim_ids.settle(p.now)
    assert isinstance(p.request_id(capability), Granted), "another match of the same cycle"
    assert p["slot1"].ids.current == fresh, "only the present id's use makes another"
    p.it.claims.apply(first, 0, ev.Released(), p.now)
    p.now += 1
    assert p.request_id(capability).code == 1035, "what was given back is not for those who were matched before"
    p.it.claim_ids.settle(p.now)
    assert p.request_id(capability).code == 1034
    assert isinstance(p.request_id(fresh), Granted)
    p.it.validate()


def test_ids_are_replaced_once_a_second_at_most() -> None:
    p = point()
    p.claim()
    p.it.claim_ids.settle(p.now)
    second = p["slot1"].ids.current
    p.claim()
    p.it.claim_ids.settle(p.now + 0.9)
    assert p["slot1"].ids.current == second
    p.it.claim_ids.settle(p.now + 1)
    assert p["slot1"].ids.current != second


def test_former_ids_are_void_when_the_machine_drains() -> None:
    p = point()
    capability = p["slot1"].ids.current
    p.claim()
    p.it.claim_ids.settle(p.now)
    p.it.drain.begin(schedule=0, reason="", on_completion="", check="", start="", now=p.now)
    assert p.request_id(capability).code == 1034


def test_leftovers_are_the_slot_that_is_left() -> None:
    p = point()
    capability = p["slot1"].ids.current
    granted = p.request(want_leftovers=True)
    assert isinstance(granted, Granted)
    assert (granted.leftover_slot, granted.leftover_claim_id) == ("slot1@host", p["slot1"].ids.current)
    assert granted.leftover_claim_id != capability
