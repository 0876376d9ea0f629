"""`slotwise.client.EventLog`: events of a log, one after another, with waiting for those to come."""

from __future__ import annotations

import pickle
import threading
from contextlib import closing
from pathlib import Path

import pytest
from slotwise.client import EventLog
from slotwise.errors import NotFoundError, SlotwiseError

SUBMITTED = "000 (012.003.000) 2026-11-22 13:01:24 Job submitted from host: <192.0.2.1:9618>\n...\n"
HELD = (
    "012 (012.003.000) 2026-11-22 13:01:30 Job was held.\n\tvia condor_hold (by user alice)\n\tCode 1 Subcode 0\n...\n"
)


def test_events_come_in_order_with_their_attributes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(SUBMITTED + HELD)
    with EventLog(path) as log:
        found = [(entry.number, entry.cluster, entry.proc, ad["MyType"]) for entry, ad in log.events()]
    assert found == [(0, 12, 3, "SubmitEvent"), (12, 12, 3, "JobHeldEvent")]


def test_an_entry_counts_once_its_three_dots_are_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(SUBMITTED + HELD[:-4])
    with EventLog(path) as log:
        assert [entry.number for entry, _ in log.events()] == [0]
        with path.open("a") as stream:
            stream.write("...\n")
        found = log.next()
        assert found is not None
        assert found[1]["HoldReason"] == "via condor_hold (by user alice)"
        assert log.next() is None


def test_it_waits_for_an_event_that_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(SUBMITTED)
    with EventLog(path) as log:
        assert log.next() is not None
        waiting = threading.Event()

        def write() -> None:
            waiting.wait(30)
            with path.open("a") as stream:
                stream.write(HELD)

        writer = threading.Thread(target=write)
        writer.start()
        waiting.set()
        found = log.next(wait_s=60)
        writer.join()
        assert found is not None
        assert found[0].number == 12


def test_a_pickled_log_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(SUBMITTED + HELD)
    with EventLog(path) as log:
        log.next()
        again: EventLog = pickle.loads(pickle.dumps(log))
        with closing(again):
            assert [entry.number for entry, _ in again.events()] == [12]


def test_what_is_not_an_event_is_reported_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("something else\n...\n" + HELD)
    with EventLog(path) as log:
        with pytest.raises(SlotwiseError, match="not an event: 'something else'"):
            log.next()
        found = log.next()
        assert found is not None
        assert found[0].number == 12


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"cannot read the event log .*nowhere: No such file"):
        EventLog(tmp_path / "nowhere")
