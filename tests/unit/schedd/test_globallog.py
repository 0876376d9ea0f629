"""The access point's own event log."""

from __future__ import annotations

import os
from pathlib import Path

import htcondor2
import pytest
from slotwise.model import job_events as events
from slotwise.model.job_events import Frame
from slotwise.schedd.userlog.global_log import GlobalLog, GlobalLogSettings


def test_full_files_are_rotated_and_each_has_a_header(tmp_path: Path) -> None:
    path = tmp_path / "EventLog"
    log = GlobalLog(GlobalLogSettings(str(path), size_most=300, rotations=2))
    entry = events.aborted(Frame(1, 0, "2026-01-01 00:00:00"), "x" * 100)
    for _ in range(6):
        log.append(entry, 1_790_000_000)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["EventLog", "EventLog.1", "EventLog.2"]
    found = [int(event.type) for event in htcondor2.JobEventLog(str(path)).events(stop_after=0)]
    assert found[0] == 8
    assert set(found[1:]) == {9}


@pytest.mark.parametrize("flushes", [True, False])
def test_it_is_flushed_where_that_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushes: bool) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fdatasync", flushed.append)
    log = GlobalLog(GlobalLogSettings(str(tmp_path / "events"), flushes=flushes))
    log.append("one\n", 1)
    log.append("two\n", 2)
    assert len(flushed) == 2 * flushes
