"""How a question to a table is cut into slices, for costs of all kinds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.classad import UNDEFINED, ClassAd, ExprTree
from slotwise.table import AdTable, Allowance, ads
from slotwise.table.ads import _SLICE_ROWS, _SLICE_S, _Pace

ROWS = 1_000_000


def slices(fixed_s: float, each_s: float) -> list[float]:
    """The times of all slices of a million rows, when each takes ``fixed_s`` and ``each_s`` for each row."""
    pace, first, size, found = _Pace(), 0, _SLICE_ROWS, []
    while first < ROWS:
        rows = min(size, ROWS - first)
        took = fixed_s + each_s * rows
        found.append(took)
        first, size = first + rows, max(pace.rows_after(rows, took), _SLICE_ROWS, ROWS // 256)
    return found


def test_what_is_spent_on_every_slice_is_not_spent_hundreds_of_times() -> None:
    times = slices(fixed_s=0.1, each_s=1e-7)
    assert len(times) < 20 and sum(times) < 2.0


def test_costly_rows_come_in_slices_of_the_time_that_is_meant() -> None:
    times = slices(fixed_s=0.0, each_s=1e-6)
    assert max(times) <= 2 * _SLICE_S and len(times) < 150


@given(st.floats(0, 0.2), st.floats(1e-9, 1e-5))
def test_no_slice_takes_longer_than_a_few_times_what_none_can_take_less_than(fixed_s: float, each_s: float) -> None:
    least = max(_SLICE_S, fixed_s + each_s * max(_SLICE_ROWS, ROWS // 256))
    assert max(slices(fixed_s, each_s)) <= 17 * least


@pytest.mark.parametrize("took", [0.0, 1e-9, 1e9])
def test_odd_times_give_a_number_of_rows(took: float) -> None:
    pace = _Pace()
    assert [pace.rows_after(250, took) >= 0, pace.rows_after(500, 0.0) >= 0, pace.rows_after(500, took) >= 0] == [
        True
    ] * 3


@pytest.mark.parametrize(
    "constraint",
    [
        "Number > 5000",
        "Number % 7 == 0",
        "Number is undefined",
        "Number + Few > 9000",
        'Text == "t77"',
        "isError(Number)",
    ],
)
def test_slices_find_what_one_question_finds_where_each_ad_has_a_value_of_its_own(constraint: str) -> None:
    table = AdTable()
    for number in range(9000):
        ad: dict[str, Any] = {"Number": number, "Text": f"t{number}", "Few": number % 3}
        if number % 100 == 0:
            ad["Number"] = ExprTree("Few / 0" if number % 200 else "Few + 6000")
        if number % 101 == 0:
            del ad["Number"]
        table.upsert(str(number), ad)
    found = [key for keys in table.keys_in_slices(constraint) for key in keys]
    assert found == table.query_keys(constraint) and found
    assert sum(table.counts_in_slices(constraint)) == len(found)


def huge(rows: int = 300_000) -> AdTable:
    """A cluster of so many jobs."""
    table = AdTable()
    cluster = ClassAd({"ClusterId": 4, "Owner": "al", "JobStatus": 1, "Twice": ExprTree("ProcId * 2")})
    table.insert_from_template(cluster, [f"4.{proc}" for proc in range(rows)], columns={"ProcId": list(range(rows))})
    return table


@pytest.mark.parametrize(
    ("constraint", "found", "each"),
    [
        ("ProcId == 277777", ["4.277777"], 0),
        ('ClusterId == 4 && 299998 < ProcId && Owner == "al"', ["4.299999"], 0),
        ("ProcId == 300000 || ProcId == 12", ["4.12"], 0),
        ("Twice == 555554", ["4.277777"], 8),
        ('regexp("^4.14999", strcat(ClusterId, ".", ProcId))', [f"4.{n}" for n in (14999, *range(149990, 150000))], 12),
    ],
)
def test_a_question_about_a_huge_cluster_is_work_in_proportion_to_its_jobs(
    monkeypatch: pytest.MonkeyPatch, constraint: str, found: list[str], each: int
) -> None:
    table, used = huge(), []

    class Counted(Allowance):
        def __exit__(self, *how: Any) -> None:
            super().__exit__(*how)
            used.append(self.used)

    monkeypatch.setattr(ads, "Allowance", Counted)
    assert [key for keys in table.keys_in_slices(constraint) for key in keys] == found
    # Slices are cut by time. One that ends within a chunk of 1,024 rows may look at its rows there one by one.
    assert sum(used) <= each * 300_000 + 1024 * len(used)


def test_an_excerpt_has_the_ads_of_its_keys_in_their_order() -> None:
    table = huge(5000)
    table.update("4.7", {"Extra": 1})
    some = table.excerpt(["4.4000", "4.7", "gone", "4.12"])
    assert some.keys() == ["4.4000", "4.7", "4.12"] and some.get("4.7") == table.get("4.7")
    assert some.query_keys("Twice > 20 && Extra is undefined") == ["4.4000", "4.12"]
    assert table.values_of(["4.12", "4.7", "gone"], ["Twice", "extra"]) == [
        [24, 14, UNDEFINED],
        [UNDEFINED, 1, UNDEFINED],
    ]
