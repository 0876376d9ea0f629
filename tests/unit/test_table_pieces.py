"""Answers come in pieces of a bounded size, however large the ads are."""

from __future__ import annotations

import json

import pytest
from slotwise.classad import ClassAd
from slotwise.table import AdTable, Form, unpack_ads, unpack_ops

_PIECE, _LARGE = 1 << 20, 400_000


def keys_in(piece: bytes, form: Form) -> list[int]:
    if form == "json":
        return [ad["N"] for ad in json.loads(b"[" + piece + b"]")]
    if form == "long":
        return [int(line[4:]) for line in piece.splitlines() if line.startswith(b"N = ")]
    if form == "keyed":
        return [int(str(key)) for _, key, _, _ in unpack_ops(piece)]
    return [int(str(ad["N"])) for ad in unpack_ads(piece)]


@pytest.mark.parametrize("form", ["pack", "keyed", "long", "json"])
def test_a_piece_ends_with_the_ad_that_fills_it(form: Form) -> None:
    """Small ads first: what the ones before were like says nothing of the next."""
    table = AdTable()
    for n in range(60):
        large = n >= 30
        table.upsert(str(n), ClassAd({"N": n, "Text": f"{n}" * (_LARGE // len(str(n)) if large else 1)}))
    pieces = list(table.query_chunks(form=form, chunk_rows=50))
    assert [n for piece in pieces for n in keys_in(piece, form)] == list(range(60))
    assert max(map(len, pieces)) < _PIECE + _LARGE + 1000
    assert len(pieces) >= 10


def test_ads_that_go_away_meanwhile_are_left_out_and_no_other() -> None:
    table = AdTable()
    for n in range(20):
        table.upsert(str(n), ClassAd({"N": n, "Text": str(n) * (_LARGE // len(str(n)))}))
    chunks = table.query_chunks(form="json", chunk_rows=20)
    found = keys_in(next(chunks), "json")
    for gone in (4, 5, 11, 19):
        table.remove(str(gone))
    found += [n for piece in chunks for n in keys_in(piece, "json")]
    assert found == [n for n in range(20) if n not in (4, 5, 11, 19)]
