"""`slotwise startd replay`: what a startd recorded, taken again, with a table of what came of it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch
from slotwise.daemon.step_file import StepFile
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.replay import Recorder

from tests.support.command import Result
from tests.support.startd_point import point


def slotwise(*words: str) -> Result:
    """Run a command."""
    out, err = io.StringIO(), io.StringIO()
    status = dispatch(list(words), Invocation(Path("/"), {}, io.StringIO(), out, err))
    return Result(status, out.getvalue(), err.getvalue())


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The steps of a job that was suspended, and whose machine was then drained."""
    path = tmp_path / "startd-stimuli.jsonl"
    p = point(MaxJobRetirementTime="600", NUM_SLOTS="2")
    p.it.transitions.step = Recorder(StepFile(path, 10**6).append).step
    p.run("slot2")
    p.apply("slot2", ev.SuspendCommanded(), 10)
    p.apply("slot2", ev.ContinueCommanded(), 10)
    p.apply("slot2", ev.VacateCommanded(fast=False), 10)
    p.gone()
    return path


def test_every_step_with_its_numbered_transitions(recorded: Path) -> None:
    done = slotwise("startd", "replay", str(recorded))
    assert done.status == 0
    rows = [line.split()[2:7] for line in done.out.splitlines()[1:-1]]
    assert rows == [
        ["slot2", "ClaimRequested", "Unclaimed/Idle", "5", "Claimed/Idle"],
        ["slot2", "Activated", "Claimed/Idle", "11", "Claimed/Busy"],
        ["slot2", "SuspendCommanded", "Claimed/Busy", "14", "Claimed/Suspended"],
        ["slot2", "ContinueCommanded", "Claimed/Suspended", "15", "Claimed/Busy"],
        ["slot2", "VacateCommanded", "Claimed/Busy", "13", "18"],
        ["slot2", "RunGone", "Preempting/Vacating", "25", "1"],
    ]
    assert done.out.splitlines()[-1] == "6 steps of 1 slots: all end as recorded"


def test_a_step_that_ends_otherwise_is_shown(recorded: Path) -> None:
    lines = recorded.read_text().splitlines()
    changed = json.loads(lines[1])
    changed["facts"][0]["start"] = False
    recorded.write_text("\n".join([lines[0], json.dumps(changed)]) + "\n")
    done = slotwise("startd", "replay", "-different", "-json", str(recorded))
    assert done.status == 1
    (row,) = json.loads(done.out)
    assert (row["Stimulus"], row["After"], row["Recorded"], row["Same"]) == (
        "Activated", "Claimed/Idle", "Claimed/Busy", False,
    )  # fmt: skip
    assert row["Actions"] == ["ActivationRefused"]


def test_what_is_no_recording_is_refused_with_its_place(tmp_path: Path, recorded: Path) -> None:
    recorded.write_text(recorded.read_text() + '{"at": 3}\n')
    refused = slotwise("startd", "replay", str(recorded))
    assert refused.status != 0 and "jsonl:7: not a step" in refused.err
    assert "cannot be read" in slotwise("startd", "replay", str(tmp_path / "none")).err
    for words in ([], ["replay"], ["dance"]):
        assert slotwise("startd", *words).status != 0
    assert slotwise("startd", "-help").status == 0
