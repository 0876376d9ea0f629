"""What the verdict on a run of faults calls wrong."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from tests.faults.verdict import Seen, judge

WELL = Seen(
    acknowledged={"1.0", "1.1"},
    ledger=["start 1.0", "start 1.1", "end 1.0", "start 1.1", "end 1.1"],  # 1.1 was begun twice, one after the other
    events={"1.0": Counter({"000": 1, "001": 1, "005": 1}), "1.1": Counter({"000": 1, "001": 2, "004": 1, "005": 1})},
    history=[("1.0", 4), ("1.1", 4)],
    queue=set(),
    outputs={"1.0", "1.1"},
)


def test_all_is_well() -> None:
    verdict = judge(WELL)
    assert not verdict and next(line.split() for line in verdict.lines()) == ["lost", "0"]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"history": [("1.0", 4)]}, {"lost": ("1.1",)}),
        ({"history": [("1.0", 4)], "queue": {"1.1"}}, {"stuck": ("1.1",)}),
        ({"ledger": [*WELL.ledger, "twice 1.0"]}, {"overlapped": ("1.0",)}),
        ({"history": [("1.0", 4), ("1.1", 4), ("1.1", 4)]}, {"doubled": ("1.1",)}),
        ({"events": {**WELL.events, "1.0": Counter({"000": 1, "005": 2})}}, {"doubled": ("1.0",)}),
        ({"events": {"1.0": WELL.events["1.0"]}}, {"unlogged": ("1.1",)}),
        ({"events": {**WELL.events, "1.1": Counter({"000": 1})}}, {"unlogged": ("1.1",)}),
        ({"outputs": {"1.1"}}, {"hollow": ("1.0",)}),
        ({"ledger": ["start 1.0", "start 1.1", "end 1.1"]}, {"hollow": ("1.0",)}),
        # A job that was removed has neither to end nor to leave outputs.
        ({"history": [("1.0", 4), ("1.1", 3)], "outputs": {"1.0"}}, {}),
    ],
)
def test_each_kind_of_wrong(changes: dict[str, object], wrong: dict[str, tuple[str, ...]]) -> None:
    verdict = judge(replace(WELL, **changes))
    assert {name: found for name in verdict.__struct_fields__ if (found := getattr(verdict, name))} == wrong
    assert bool(verdict) == bool(wrong)
