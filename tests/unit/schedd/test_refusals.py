"""Slots that refuse the same jobs again and again."""

from __future__ import annotations

from slotwise.classad import ClassAd
from slotwise.schedd.claims.matching.refusals import Refusals

NO_MATCH, CLAIM_NOT_FOUND = 1027, 1034
WHY = "the machine's Requirements do not accept the job"


def test_a_slot_is_left_out_from_the_second_refusal_in_a_row_on_for_longer_each_time() -> None:
    refusals = Refusals()
    assert refusals.note([7, "1.0"], "slot1@a", WHY, NO_MATCH, 100.0) is None
    assert refusals.left_out([7], 100.0) == []
    waits = []
    now = 100.0
    for _ in range(9):
        until = refusals.note([7, "1.0"], "slot1@a", WHY, NO_MATCH, now)
        assert until is not None
        waits.append(until - now)
        assert refusals.left_out([7], now) == refusals.left_out(["1.0"], now) == ["slot1@a"]
        now = until
        assert refusals.left_out([7], now) == []
    assert waits == [20, 40, 80, 160, 320, 640, 1200, 1200, 1200]


def test_another_reason_another_slot_and_other_jobs_count_by_themselves() -> None:
    refusals = Refusals()
    for slot, reason, kind in [("slot1@a", WHY, 7), ("slot1@b", WHY, 7), ("slot1@a", "other", 7), ("slot1@a", WHY, 8)]:
        assert refusals.note([kind], slot, reason, NO_MATCH, 0.0) is None
    assert refusals.left_out([7, 8], 1.0) == []


def test_a_job_that_starts_there_after_all_clears_the_slot() -> None:
    refusals = Refusals()
    refusals.note([7], "slot1@a", WHY, NO_MATCH, 0.0)
    refusals.accepted([7], "slot1@a")
    assert refusals.note([7], "slot1@a", WHY, NO_MATCH, 0.0) is None and len(refusals) == 1


def test_a_claim_that_was_over_says_nothing_of_the_slot_and_the_delay_may_be_turned_off() -> None:
    refusals = Refusals()
    for _ in range(3):
        assert refusals.note([7], "slot1@a", "no such claim", CLAIM_NOT_FOUND, 0.0) is None
    refusals.delay_s = 0.0
    for _ in range(3):
        assert refusals.note([7], "slot1@a", WHY, NO_MATCH, 0.0) is None


def test_requests_leave_out_the_fifty_slots_that_refused_last() -> None:
    refusals = Refusals()
    names = [f"slot{number}@a" for number in range(60)]
    for number, name in enumerate(names):
        for _ in range(2):
            refusals.note([7], name, WHY, NO_MATCH, number / 10)
    request = ClassAd("[Requirements = TARGET.Memory > 10 || true]")
    refusals.constrain(request, [7], 6.0)
    takes = [name for name in names if request.eval("Requirements", ClassAd({"Name": name, "Memory": 1})) is True]
    assert takes == names[:10]
    untouched = ClassAd("[Requirements = true]")
    refusals.constrain(untouched, [8], 6.0)
    assert str(untouched.lookup("Requirements")) == "true"


def test_what_is_remembered_is_bounded_and_goes_with_autoclusters() -> None:
    refusals = Refusals()
    for number in range(12_000):
        refusals.note([number], "slot1@a", WHY, NO_MATCH, 0.0)
    assert len(refusals) == 10_000
    refusals.note(["1.0"], "slot1@a", WHY, NO_MATCH, 0.0)
    refusals.forget_autoclusters()
    assert len(refusals) == 1
    refusals.clear()
    assert len(refusals) == 0
