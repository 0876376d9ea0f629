"""What access points are told of claims beyond their submitters' shares."""

from __future__ import annotations

from slotwise.matchmaking.rows import ClaimsToReturn
from slotwise.negotiator.excess import ExcessNotices
from slotwise.table import AdTable
from slotwise.wire.gen.schedd_pb2 import MatchBatch

BLANK = MatchBatch(cycle=7, negotiator_name="n")


def row(schedd: str = "ap", weight: float = 1.0) -> ClaimsToReturn:
    return ClaimsToReturn("ann@d", schedd, ["s1", "s2", "s3"], [1.0] * 3, weight)


def told(notices: ExcessNotices, *rows: ClaimsToReturn) -> dict[str, MatchBatch]:
    batches: dict[str, MatchBatch] = {}
    notices.add_to(batches, rows, 60.0, BLANK)
    return batches


def test_an_access_point_is_told_which_claims_and_what_it_may_keep() -> None:
    batches = told(ExcessNotices(), row(weight=2.0), row("other"))
    assert sorted(batches) == ["ap", "other"]
    (excess,) = batches["ap"].excess
    assert (excess.submitter, list(excess.slot_names), excess.keep) == ("ann@d", ["s1", "s2", "s3"], 1.0)
    assert (batches["ap"].cycle, batches["ap"].excess_lasts_s) == (7, 180)


def test_who_was_told_something_is_told_once_that_it_is_over() -> None:
    notices = ExcessNotices()
    told(notices, row())
    batches = told(notices)
    assert list(batches) == ["ap"] and not batches["ap"].excess
    assert told(notices) == {}


def test_what_is_said_goes_with_the_matches_of_the_cycle() -> None:
    notices, batches = ExcessNotices(), {"ap": MatchBatch(cycle=7)}
    batches["ap"].submitters.add(submitter="ben@d")
    notices.add_to(batches, [row()], 60.0, BLANK)
    assert len(batches["ap"].submitters) == len(batches["ap"].excess) == 1


def test_a_slot_that_is_free_or_gone_has_come_back() -> None:
    notices, slots = ExcessNotices(), AdTable()
    for name in ("s1", "s2", "s3", "other"):
        slots.upsert(name, {"Name": name, "State": "Claimed"})
    told(notices, row())
    assert not notices.came_back(slots)
    slots.remove("other")
    slots.update("s3", {"State": "Preempting"})
    assert not notices.came_back(slots)
    slots.remove("s3")
    assert notices.came_back(slots)
    assert not notices.came_back(slots)
    slots.update("s1", {"State": "Unclaimed"})
    assert notices.came_back(slots)
