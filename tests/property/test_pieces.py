"""What is cut into pieces says the same when it is put together: packs of ads, and the matches of a cycle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.errors import UsageError
from slotwise.table import AdTable, PackBuilder, split_pack, survey_pack, unpack_ops
from slotwise.wire.gen.schedd_pb2 import MatchBatch
from slotwise.wire.match_pieces import MatchPieces, cut

KEYS = st.sampled_from(["slot1", "slot2", "slot3"])
ADS = st.dictionaries(st.sampled_from("ABCa"), st.one_of(st.integers(-9, 99), st.text(max_size=40)), max_size=4)
STEPS = st.lists(st.tuples(st.sampled_from(["upsert", "update", "remove"]), KEYS, ADS), max_size=40)


@given(STEPS, st.booleans(), st.integers(1, 400))
def test_pieces_of_a_pack_applied_one_after_the_other(steps: list[Any], reset: bool, most: int) -> None:
    builder = PackBuilder(reset=reset)
    for what, key, ad in steps:
        if what == "remove":
            builder.remove(key)
        else:
            getattr(builder, what)(key, {name.upper(): value for name, value in ad.items()})
    whole = builder.finish()
    pieces = split_pack(whole, most)
    assert [op for piece in pieces for op in unpack_ops(piece)] == unpack_ops(whole)
    assert sum(survey_pack(piece)[0] for piece in pieces) == survey_pack(whole)[0]
    tables = []
    for packs in ([whole], pieces):
        table = AdTable()
        table.upsert("old", {"X": 1})
        for pack in packs:
            table.apply(pack)
        tables.append({key: table.get(key) for key in table.keys()})  # noqa: SIM118 - a table is not a dict
    assert tables[0] == tables[1]


@st.composite
def batches(draw: st.DrawFn) -> MatchBatch:
    batch = MatchBatch(cycle=7, negotiator_name="n", excess_lasts_s=60)
    for _ in range(draw(st.integers(0, 4))):
        group = batch.submitters.add(submitter=draw(st.sampled_from(["ann@x", "bob@x"])))
        for _ in range(draw(st.integers(0, 6))):
            group.matches.add(
                slot_name=draw(KEYS), slot_ad=bytes(draw(st.integers(0, 3000))), match_id=draw(st.just(3))
            )
        for _ in range(draw(st.integers(0, 3))):
            group.rejections.add(autocluster_id=draw(st.integers(0, 9)), reason="no match found", count=1)
    for _ in range(draw(st.integers(0, 2))):
        names = [f"slot{number}@host" for number in range(draw(st.sampled_from([0, 1, 2500])))]
        batch.excess.add(submitter="ann@x", slot_names=names, weights=[1.0] * len(names), keep=2.0, reason="r")
    return batch


@given(batches(), st.integers(1, 20_000))
def test_pieces_of_matches(batch: MatchBatch, most: int) -> None:
    joining, joined = MatchPieces(), list[Any]()
    pieces = [MatchBatch.FromString(piece.SerializeToString()) for piece in cut(batch, most)]
    for piece in pieces:
        assert not joined, "nothing is taken before all is there"
        if (whole := joining.take(piece)) is not None:
            joined.append(whole)
    (whole,) = joined
    whole.piece, whole.more_follows = 0, False
    assert whole == batch
    # A match counts for 512 bytes more than its texts, a slot's name for 16 more; other things for less.
    things = len(batch.submitters) + sum(len(g.matches) + len(g.rejections) for g in batch.submitters)
    names = sum(len(excess.slot_names) for excess in batch.excess)
    if batch.ByteSize() + 512 * (things + len(batch.excess)) + 16 * names < most:
        assert len(pieces) == 1


def test_pieces_that_do_not_follow_are_refused() -> None:
    def piece(number: int, cycle: int = 1, name: str = "n") -> MatchBatch:
        return MatchBatch(cycle=cycle, negotiator_name=name, piece=number, more_follows=True)

    joining = MatchPieces()
    for lost in (piece(1), piece(2, cycle=2), piece(1, name="other")):
        joining.take(piece(0))
        if lost == piece(1):
            joining.take(piece(1))
            lost = piece(1)
        with pytest.raises(UsageError, match="follows no piece"):
            joining.take(lost)
