"""`slotwise.client.EventLog`: events of a log, one after another, with waiting for those to come."""

from __future__ import annotations

import os
import pickle
import threading
from contextlib import closing
from pathlib import Path

import pytest
from slotwise.client import EventLog
from slotwise.errors import NotFoundError, SlotwiseError
from slotwise.model.job_event_reader import UnreadableEventError, event_ad, parse

from tests.support.waiting import LIMIT_S

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
            waiting.wait(LIMIT_S)
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


def test_only_a_regular_file_is_read_as_a_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening one waits for its other end
    for name in (str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(NotFoundError, match=f"cannot read the event log {name}: not a regular file"):
            EventLog(name)


@pytest.mark.parametrize("text", ["a line\n", "no end of a line"])
def test_an_entry_without_end_is_passed_over(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log"
    path.write_text(SUBMITTED + text * (3 << 20 >> 3))
    with EventLog(path) as log:
        assert log.next() is not None
        with pytest.raises(SlotwiseError, match=rf"log: the entry at byte {len(SUBMITTED)} is longer than 1 MiB"):
            log.next()
        assert log.next() is None
        with path.open("a") as stream:
            stream.write("\n...\n" + HELD)
        found = log.next()
        assert found is not None
        assert found[0].number == 12


@pytest.mark.parametrize(
    "head",
    [
        "001 (012.003.000) 2026-99-22 13:01:24 Job executing",
        "001 (012.003.000) 2026-11-22 13:00:00xyz Job executing",
        "001 (012.003.000) 0001-01-01 00:00:00 Job executing",
        "001 (012.003.000) 9999-12-31 23:59:59-12:00 Job executing",
        f"001 ({'1' * 5000}.003.000) 2026-11-22 13:01:24 Job executing",
    ],
)
def test_an_entry_of_no_possible_time_or_job_is_no_event(head: str) -> None:
    with pytest.raises(UnreadableEventError, match="not "):
        parse(head + "\n", 2026)


def test_the_29th_of_february_is_of_a_leap_year() -> None:
    assert parse("001 (012.003.000) 02/29 13:01:24 Job executing\n", 2026).time == "2024-02-29T13:01:24"


@pytest.mark.parametrize(
    "text",
    [
        f"012 (1.0.0) 2026-11-22 13:01:24 Job was held.\n\twhy\n\tCode {'1' * 5000} Subcode 0\n",
        f"005 (1.0.0) 2026-11-22 13:01:24 Job terminated.\n\t(1) Normal termination (return value {'1' * 5000})\n",
        f"006 (1.0.0) 2026-11-22 13:01:24 Image size of job updated: {'1' * 5000}\n\t{'1' * 5000}  -  X of job\n",
        "005 (1.0.0) 2026-11-22 13:01:24 Job terminated.\n\t²  -  Run Bytes Sent By Job\n",
        "037 (1.0.0) 2026-11-22 13:01:24 Paused\n\twhy\n\tPauseCode ²\n",
        "040 (1.0.0) 2026-11-22 13:01:24 Started transferring input files\n\tSeconds spent in queue: ²\n",
        f"005 (1.0.0) 2026-11-22 13:01:24 X\n\tPartitionable Resources : U R A\n\t  Cpus : {'1' * 5000} {'1' * 5000}\n",
    ],
)
def test_numbers_that_no_ad_can_hold_are_left_out(text: str) -> None:
    ad = event_ad(parse(text, 2026))
    assert not {"HoldReasonCode", "ReturnValue", "Size", "X", "SentBytes", "QueueingDelay", "Cpus"} & set(ad)


_TABLE = """005 (4.0.0) 2026-11-22 13:01:24 Job terminated.
    (1) Normal termination (return value 0)
        Usr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage
        Usr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage
        Usr 0 00:00:00, Sys 0 00:00:00  -  Total Remote Usage
        Usr 0 00:00:00, Sys 0 00:00:00  -  Total Local Usage
    0  -  Run Bytes Sent By Job
    0  -  Run Bytes Received By Job
    0  -  Total Bytes Sent By Job
    0  -  Total Bytes Received By Job
    Partitionable Resources :    Usage  Request Allocated Assigned
       Cpus                 :     0.25        1         1
       Disk (KB)            :       48  1048576   1048576
       GPUs                 :                           1 "GPU-a"
       Memory (MB)          :               128       256
       Licenses             :                 2
       TimeExecute (s)      :        1
"""
_NAMES = ("Usage", "Cpus", "Disk", "GPUs", "Memory", "Licenses")


def test_values_of_the_table_of_resources_are_found_by_their_places() -> None:
    """As JobEventLog of 25.14.1 reads this entry."""
    ad = event_ad(parse(_TABLE, 2026))
    found = {name: ad[name] for name in ad if name.endswith(_NAMES) and isinstance(ad[name], int | float)}
    assert found == {
        "CpusUsage": 0.25, "RequestCpus": 1, "Cpus": 1, "DiskUsage": 48, "RequestDisk": 1048576, "Disk": 1048576,
        "GPUs": 1, "RequestMemory": 128, "Memory": 256, "RequestLicenses": 2, "TimeExecuteUsage": 1,
    }  # fmt: skip
    assert ad["AssignedGPUs"] == "GPU-a"
