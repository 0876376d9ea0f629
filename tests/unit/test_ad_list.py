"""Answers of queries as tables and frames."""

from __future__ import annotations

import sys

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.client.ad_list import AdList
from slotwise.errors import UsageError

ADS = AdList([
    ClassAd({"ProcId": 0, "Cmd": "<b>&", "Rank": 1.5, "Ok": True, "Whole": ExprTree("ProcId + 1")}),
    ClassAd({"PROCID": 1, "Mixed": "text", "Missing": ExprTree("nowhere"), "List": ExprTree("{1, 2}")}),
    ClassAd({"ProcId": 2, "Mixed": 7}),
])  # fmt: skip


def test_a_column_stands_for_each_attribute_of_any_ad() -> None:
    names = ["ProcId", "Cmd", "Rank", "Ok", "Whole", "Mixed", "Missing", "List"]
    assert ADS.attributes() == names
    first, second, third = ADS.rows()
    assert first == dict.fromkeys(names) | {"ProcId": 0, "Cmd": "<b>&", "Rank": 1.5, "Ok": True, "Whole": 1}
    assert second == dict.fromkeys(names) | {"ProcId": 1, "Mixed": "text", "List": "{ 1,2 }"}
    assert third["Mixed"] == 7 and isinstance(first["Ok"], bool)


def test_a_frame_of_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = ADS.to_polars()
    assert frame["ProcId"].to_list() == [0, 1, 2] and frame["ProcId"].dtype == polars.Int64
    assert frame["Mixed"].to_list() == [None, "text", "7"]
    assert frame["Ok"].to_list() == [True, None, None]
    assert AdList().to_polars().shape == (0, 0)


def test_pandas_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        ADS.to_pandas()


def test_a_notebook_shows_a_table_whose_texts_are_escaped() -> None:
    html = ADS._repr_html_()
    assert "&lt;b&gt;&amp;" in html and "<b>" not in html and html.startswith("<table>")
    many = AdList([ClassAd({f"A{n}": n for n in range(20)})] * 30)
    assert "30 ads; not shown: 10 more ads, 8 more attributes" in many._repr_html_()
