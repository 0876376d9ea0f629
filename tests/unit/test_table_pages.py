"""Pages of a table in an order: by values of every kind, in both directions, whatever the slices."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import UsageError
from slotwise.table import AdTable, Order

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=70),
)


def jobs(values: list[Any]) -> AdTable:
    table = AdTable()
    for place, value in enumerate(values):
        ad: dict[str, Any] = {"ClusterId": place % 7, "ProcId": place}
        if value is not None:
            ad["V"] = value
        table.upsert(f"{place % 7}.{place}", ClassAd(ad))
    return table


def firsts(table: AdTable, order: Order, limit: int, constraint: str = "") -> list[tuple[bytes, str]]:
    found = [one for some in table.firsts_in_slices(order, limit, constraint or None) for one in some]
    return sorted(found)[:limit]


def pages(table: AdTable, by: str, size: int, *, descending: bool = False) -> list[str]:
    keys: list[str] = []
    after = ""
    while page := firsts(table, Order.of(by, after, descending=descending), size):
        keys += [key for _, key in page]
        after = page[-1][0].hex()
    return keys


def rank(value: Any, *, descending: bool) -> tuple[Any, ...]:
    """The order as the documents say it: numbers, texts without regard to case, the rest."""
    turn = -1 if descending else 1
    if isinstance(value, str):
        letters = value.encode()[:64].decode(errors="surrogateescape").encode(errors="surrogateescape").lower()
        return (1, [turn * byte for byte in letters] + ([math.inf] if descending else []))
    return (2,) if value is None else (0, turn * float(value))


@given(st.lists(VALUES, max_size=40), st.integers(1, 9), st.booleans())
@settings(max_examples=150, deadline=None)
def test_pages_have_every_ad_once_in_the_order_of_its_values(values: list[Any], size: int, descending: bool) -> None:
    found = pages(jobs(values), "V", size, descending=descending)
    wanted = sorted(range(len(values)), key=lambda n: (rank(values[n], descending=descending), n % 7, n))
    assert found == [f"{n % 7}.{n}" for n in wanted]


def test_ids_are_in_the_order_of_their_numbers_and_other_keys_behind_them() -> None:
    table = AdTable()
    for key in ("10.0", "9.10", "9.9", "slot1@b", "2.0", "a.b"):
        table.upsert(key, ClassAd({"A": 1}))
    assert pages(table, "", 2) == ["2.0", "9.9", "9.10", "10.0", "a.b", "slot1@b"]
    assert pages(table, "", 2, descending=True) == ["10.0", "9.10", "9.9", "2.0", "slot1@b", "a.b"]


def test_expressions_are_in_the_order_of_what_they_give_and_conditions_hold() -> None:
    table = AdTable()
    for number in range(1000):
        table.upsert(f"1.{number}", ClassAd({"ProcId": number, "V": ExprTree("-ProcId"), "Odd": number % 2 == 1}))
    assert [key for _, key in firsts(table, Order("V"), 2)] == ["1.999", "1.998"]
    assert [key for _, key in firsts(table, Order("V", descending=True), 2, "Odd")] == ["1.1", "1.3"]


def test_a_page_goes_on_behind_a_job_that_has_left() -> None:
    table = jobs([5, 6, 7])
    ((place, key),) = firsts(table, Order("V"), 1)
    table.remove(key)
    assert [key for _, key in firsts(table, Order("V", after=place), 5)] == ["1.1", "2.2"]


@pytest.mark.parametrize(("by", "after"), [("1 + 1", ""), ("V; x", ""), ("", "xyz"), ("V", "0")])
def test_an_order_is_an_attribute_and_a_place_what_a_page_said(by: str, after: str) -> None:
    with pytest.raises(UsageError, match=r"not the name of an attribute|not where a page ended"):
        Order.of(by, after, descending=False)
