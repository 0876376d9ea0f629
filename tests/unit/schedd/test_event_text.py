"""Every event the access point writes is read back by HTCondor's reader, with its facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import htcondor2
import pytest
from slotwise.model import job_events as events
from slotwise.model.job_events import DateForm, Frame, Usage

AT = 1_790_000_000.25
FRAME = Frame(12, 3, events.stamp(AT))
USAGE = Usage(
    user_s=90061.9,
    system_s=2,
    total_user_s=100000,
    sent=10,
    received=20,
    total_sent=30,
    total_received=40,
    resources={
        "Cpus": (0.25, 1, 1, ""),
        "Memory": (12, 128, 128, ""),
        "Disk": (None, 1024, 20480, ""),
        "Gpus": (None, 1, 1, "GPU-1"),
    },
)

WRITTEN: list[tuple[int, str, dict[str, Any]]] = [
    (0, events.submitted(FRAME, "127.0.0.1:9618", "note"), {"SubmitHost": "<127.0.0.1:9618>", "LogNotes": "note"}),
    (
        1,
        events.executing(FRAME, "127.0.0.1:1", "slot1_1@ep", {"Cpus": "1", "CondorScratchDir": '"/x"'}),
        {"ExecuteHost": "<127.0.0.1:1>", "SlotName": "slot1_1@ep"},
    ),
    (2, events.executable_error(FRAME), {"ExecuteErrorType": 0}),
    (4, events.evicted(FRAME, usage=USAGE, reason="gone", code=1004, subcode=2), {"ReceivedBytes": 20.0}),
    (4, events.evicted(FRAME, usage=USAGE, reason="again", requeued=(True, 1)), {"TerminatedAndRequeued": True}),
    (
        5,
        events.terminated(FRAME, normal=True, code=7, usage=USAGE),
        {
            "TerminatedNormally": True,
            "ReturnValue": 7,
            "TotalSentBytes": 30.0,
            "RunRemoteUsage": "Usr 1 01:01:01, Sys 0 00:00:02",
        },
    ),
    (
        5,
        events.terminated(FRAME, normal=False, code=9, usage=Usage(), core="core.1"),
        {"TerminatedNormally": False, "TerminatedBySignal": 9, "CoreFile": "core.1"},
    ),
    (6, events.image_size(FRAME, 1000, 2, 3, -1), {"Size": 1000, "MemoryUsage": 2, "ResidentSetSize": 3}),
    (7, events.shadow_exception(FRAME, "it\nbroke"), {"Message": "it broke"}),
    (9, events.aborted(FRAME, "via rm"), {"Reason": "via rm"}),
    (10, events.suspended(FRAME, 2), {"NumberOfPIDs": 2}),
    (11, events.unsuspended(FRAME), {}),
    (12, events.held(FRAME, "why", 34, 102), {"HoldReason": "why", "HoldReasonCode": 34, "HoldReasonSubCode": 102}),
    (13, events.released(FRAME, "now"), {"Reason": "now"}),
    (
        21,
        events.remote_error(FRAME, "slot1@ep", "Failed to execute 'x'\n001 (1.0.0)", 6, 2),
        {
            "ExecuteHost": "slot1@ep",
            "ErrorMsg": "Failed to execute 'x' 001 (1.0.0)",
            "HoldReasonCode": 6,
            "HoldReasonSubCode": 2,
        },
    ),
    (22, events.disconnected(FRAME, "lost it", "slot1@ep", "127.0.0.1:1"), {"StartdName": "slot1@ep"}),
    (23, events.reconnected(FRAME, "slot1@ep", "127.0.0.1:1", "127.0.0.1:2"), {"StartdName": "slot1@ep"}),
    (24, events.reconnect_failed(FRAME, "lease", "slot1@ep"), {"Reason": "lease"}),
    (33, events.attribute_changed(FRAME, "JobPrio", "0", "5"), {"Attribute": "JobPrio", "Value": "5"}),
    (40, events.transfer(FRAME, "input_started", "127.0.0.1:1"), {"Type": 2}),
]


@pytest.mark.parametrize(("number", "text", "facts"), WRITTEN, ids=[f"{n}-{i}" for i, (n, *_) in enumerate(WRITTEN)])
def test_the_reference_reads_it(number: int, text: str, facts: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    (event,) = htcondor2.JobEventLog(str(log)).events(stop_after=0)
    assert (int(event.type), event.cluster, event.proc) == (number, 12, 3)
    assert {name: event.get(name) for name in facts} == facts


def test_one_log_of_all_of_them_is_read_in_order(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(text for _, text, _ in WRITTEN))
    found = [int(event.type) for event in htcondor2.JobEventLog(str(log)).events(stop_after=0)]
    assert found == [number for number, *_ in WRITTEN]


@pytest.mark.parametrize("options", ["", "LEGACY", "UTC", "ISO_DATE,SUB_SECOND", "UTC SUB_SECOND"])
def test_every_date_form_is_read(options: str, tmp_path: Path) -> None:
    frame = Frame(1, 0, events.stamp(AT, DateForm.parse(options)))
    log = tmp_path / "log"
    log.write_text(events.submitted(frame, "127.0.0.1:1"))
    (event,) = htcondor2.JobEventLog(str(log)).events(stop_after=0)
    assert (event.cluster, int(event.type)) == (1, 0)


def test_numbers_in_the_resources_table_end_where_the_points_are() -> None:
    lines = events.resources_table(USAGE.resources).splitlines()
    assert lines[0] == "\tPartitionable Resources :    Usage  Request Allocated Assigned"
    assert lines[1] == "\t   Cpus                 :     0.25        1         1 "
    assert lines[3] == '\t   Gpus (Average)       :                 1         1 "GPU-1"'
    assert lines[4] == "\t   Memory (MB)          :    12         128       128 "


def test_a_job_that_is_requeued_has_no_table_of_resources() -> None:
    assert "Partitionable Resources" in events.evicted(FRAME, usage=USAGE, reason="gone", code=1004)
    assert "Partitionable Resources" not in events.evicted(FRAME, usage=USAGE, reason="again", requeued=(True, 1))


def test_entries_are_split_at_three_dots() -> None:
    text = events.aborted(FRAME, "a") + events.aborted(FRAME, "b") + "000 (cut"
    assert list(events.split_entries(text)) == [events.aborted(FRAME, "a"), events.aborted(FRAME, "b")]
