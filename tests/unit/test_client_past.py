"""Which records of a fetched history are chosen, and how much of a long one is kept."""

from __future__ import annotations

import pytest
from slotwise.client import past
from slotwise.client.call import NewestPieces
from slotwise.errors import AdSyntaxError
from slotwise.wire.gen.daemon_pb2 import LogPiece

_TEXT = b"".join(
    b"ClusterId = %d\nProcId = 0\nExitCode = %d\n*** Offset = 0 ClusterId = %d\n" % (i, i % 2, i) for i in range(1, 6)
)


def _chosen(constraint: str = "", projection: tuple[str, ...] = (), limit: int = 0, since: str = "") -> list[object]:
    call = past.history("STARTD_HISTORY", constraint, projection, limit, since)
    pieces = call.gather()
    for start in range(0, len(_TEXT), 7):  # records are cut anywhere
        pieces.append(LogPiece(data=_TEXT[start : start + 7]))
    return [ad.get("ClusterId") for ad in call.result(pieces)]


def test_the_newest_come_first_up_to_a_job_a_cluster_or_a_condition() -> None:
    assert _chosen() == [5, 4, 3, 2, 1]
    assert _chosen("ExitCode == 1", limit=2) == [5, 3]
    assert _chosen(since="3") == _chosen(since="3.0") == _chosen(since="ClusterId < 4") == [5, 4]
    assert _chosen(since="3.1") == [5, 4, 3, 2, 1]
    assert _chosen(projection=("ExitCode",)) == [None] * 5


def test_what_is_not_an_expression_is_refused_before_anything_is_fetched() -> None:
    with pytest.raises(AdSyntaxError):
        past.history("STARTD_HISTORY", "((", (), 0, "")


def test_a_record_that_lost_its_beginning_is_left_out() -> None:
    kept = NewestPieces(len(_TEXT) // 2)
    for start in range(0, len(_TEXT), 7):
        kept.append(LogPiece(data=_TEXT[start : start + 7]))
    assert kept.is_cut
    assert sum(len(piece.data) for piece in kept) - len(_TEXT) // 2 in range(7)
    whole = [ad["ProcId"] for ad in past.chosen(kept, None, (), 0, None)]
    assert whole == [0, 0]
