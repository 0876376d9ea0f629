"""Event logs hold each planned entry once, whatever moment a former process ended at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.model import job_events as events
from slotwise.model.job_events import Frame
from slotwise.schedd.userlog import writer
from slotwise.schedd.userlog.planned_text import PlannedText
from slotwise.schedd.userlog.writer import LogSizes, append, missing_text, settle


def entry(number: int) -> str:
    return events.aborted(Frame(number, 0, "2026-01-01 00:00:00"), f"reason {number}")


def plans(path: Path, groups: list[list[int]], offset: int = 0) -> list[PlannedText]:
    return [
        PlannedText(seq, str(path), "root", offset, "".join(entry(n) for n in group))
        for seq, group in enumerate(groups, 1)
    ]


@given(
    groups=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=4),
    cut=st.integers(0, 2000),
    before=st.booleans(),
)
def test_a_log_cut_anywhere_is_completed(groups: list[list[int]], cut: int, before: bool) -> None:
    old = entry(9) if before else ""
    whole = "".join(entry(n) for group in groups for n in group)
    written = old + whole[: min(cut, len(whole))]
    texts = plans(Path("/log"), groups, len(old))
    tail = written[len(old) :]
    assert old + tail + missing_text(tail, texts) == old + whole


def test_entries_of_others_between_ours_stay(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(entry(1) + entry(7))
    done, failures = settle(plans(log, [[1], [2]]), LogSizes())
    assert (done, failures) == ([1, 2], [])
    assert log.read_text() == entry(1) + entry(7) + entry(2)


def test_what_lies_before_the_offset_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(entry(1))
    settle(plans(log, [[1]], offset=len(entry(1))), LogSizes())
    assert log.read_text() == entry(1) * 2


def test_append_reports_logs_that_cannot_be_written(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "no" / "such" / "log"
    texts = [PlannedText(1, str(good), "root", 0, entry(1)), PlannedText(2, str(bad), "root", 0, entry(2))]
    sizes = LogSizes()
    done, failures = append(texts, sizes)
    assert done == [1]
    assert [failure.seqs for failure in failures] == [(2,)]
    assert str(bad) in failures[0].reason
    assert sizes.offset(str(good)) == len(entry(1))


def test_a_log_without_end_is_searched_from_its_end(tmp_path: Path) -> None:
    """Its user may make it as long as a file can be: the schedd read it whole after a crash."""
    log = tmp_path / "log"
    log.write_text(entry(1))
    os.truncate(log, 1 << 40)
    done, failures = settle(plans(log, [[2]]), LogSizes())
    assert (done, failures) == ([1], [])
    with log.open("rb") as stream:
        stream.seek(1 << 40)
        assert stream.read().decode() == "\n" + entry(2)
    assert settle(plans(log, [[2]]), LogSizes()) == ([1], [])
    assert log.stat().st_size == (1 << 40) + 1 + len(entry(2))  # once


def test_entries_that_others_have_written_behind_do_not_hide_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_SEARCHED", 10 * len(entry(7)))
    log = tmp_path / "log"
    for before, behind in ((1000, 9), (0, 0), (3, 10)):
        log.write_text(entry(8) * before + entry(1) + entry(7) * behind)
        text = log.read_text()
        settle(plans(log, [[1]]), LogSizes())
        assert log.read_text() == text


def test_an_entry_that_is_no_utf_8_is_found_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    strange = PlannedText(1, str(log), "root", 0, entry(1).replace("reason", "r\udce9ason"))
    append([strange], LogSizes())
    written = log.read_bytes()
    assert b"r\xe9ason" in written
    settle([strange], LogSizes())
    assert log.read_bytes() == written
