"""Texts that wait for event logs that cannot be written: their order, when they are tried again, and for how long."""

from __future__ import annotations

import errno

import pytest
from slotwise.schedd.userlog.backlog import ABANDONED_S, Backlog
from slotwise.schedd.userlog.planned_text import PlannedText
from slotwise.schedd.userlog.writer import LogFailure, jobs_told_of

A, B = ("/a", "alice"), ("/b", "alice")


def text(seq: int, log: tuple[str, str] = A) -> PlannedText:
    return PlannedText(seq, *log, 0, f"text {seq}\n")


def numbers(texts: list[PlannedText]) -> list[int]:
    return [each.seq for each in texts]


def test_texts_of_a_log_that_fails_wait_behind_each_other_and_others_do_not() -> None:
    backlog = Backlog()
    backlog.failed(A, [text(1), text(2)], 0.0)
    assert numbers(backlog.put_behind([text(3), text(4, B), text(5)], 0.5)) == [4]
    assert backlog.due(0.9) == []
    assert numbers(backlog.due(1.0)) == [1, 2, 3, 5]
    assert len(backlog) == 4
    assert backlog.written(A) and not backlog.written(B)
    assert numbers(backlog.put_behind([text(6)], 2.0)) == [6]


def test_the_pauses_grow_up_to_a_minute() -> None:
    backlog, now, pauses = Backlog(), 0.0, []
    for _ in range(9):
        backlog.failed(A, [text(1)], now)
        at = backlog.next_at()
        assert at is not None
        pauses.append(at - now)
        now = at
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_new_text_has_its_log_tried_within_a_second() -> None:
    backlog = Backlog()
    for _ in range(9):
        backlog.failed(A, [text(1)], 0.0)
    backlog.put_behind([text(2)], 5.0)
    assert backlog.next_at() == 6.0
    backlog.put_behind([text(3)], 5.5)
    assert backlog.next_at() == 6.0, "many new texts do not put it off"


def test_nothing_is_given_up_that_a_job_in_the_queue_waits_for() -> None:
    backlog = Backlog()
    backlog.failed(A, [text(1)], 0.0)
    assert backlog.give_up(A, 100 * ABANDONED_S, is_awaited=True) == []
    assert backlog.give_up(A, ABANDONED_S - 1, is_awaited=False) == []
    assert numbers(backlog.give_up(A, ABANDONED_S, is_awaited=False)) == [1]
    assert backlog.next_at() is None


def test_an_administrator_bounds_the_wait() -> None:
    backlog = Backlog()
    backlog.patience_s = 60.0
    backlog.failed(A, [text(1)], 10.0)
    backlog.failed(A, [text(1)], 50.0)
    assert backlog.give_up(A, 69.0, is_awaited=True) == []
    assert numbers(backlog.give_up(A, 70.0, is_awaited=True)) == [1]


@pytest.mark.parametrize(
    ("number", "lasting"),
    [
        *((number, True) for number in (errno.ENOENT, errno.EACCES, errno.ENXIO)),
        *(
            (number, False)
            for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ESTALE, 0)
        ),
    ],
)
def test_a_path_that_is_wrong_holds_jobs_and_a_disk_that_is_full_does_not(number: int, lasting: bool) -> None:
    assert LogFailure("/a", "alice", number, "", ()).is_lasting is lasting


def test_the_jobs_of_a_text() -> None:
    entries = "000 (012.000.000) 2026-01-01 00:00:00 Job submitted\n...\n005 (1234567.021.000) x\n\tbut 5...\n...\n"
    assert jobs_told_of(entries + "006 (012.000.000) x\n...\n") == ["12.0", "1234567.21"]
