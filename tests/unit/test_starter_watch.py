"""What the starter does as time goes by, and for runs whose shadow is not there yet."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from slotwise.classad import ClassAd
from slotwise.execution.exit_status import (
    OUT_OF_DISK_SUBCODE,
    OUT_OF_RESOURCES,
    STARTER_ERROR,
    End,
    How,
    Kill,
    MemoryRule,
    held,
)
from slotwise.execution.job_view import read_job, read_slot
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.starter.host import watch
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.usage import Disk
from slotwise.starter.messages import Accepted, Ended, SlotFree
from slotwise.starter.run import actions, events
from slotwise.starter.run.lifecycle import step
from slotwise.starter.run.run import Run
from slotwise.starter.run.states import Phase, RunState
from slotwise.starter.transfer.common_inputs import CommonInputs

from tests.support.set_clock import SetClock

NOTHING: dict[str, object] = {}
JOB = read_job(NOTHING.get, "ann@here")


class Disks:
    """Measures as slowly as ``answer`` allows."""

    def __init__(self) -> None:
        self.volumes = SimpleNamespace(pooled=False)
        self.measured = 0
        self.answer: asyncio.Future[Disk] = asyncio.get_running_loop().create_future()
        self.verdict: End | None = None

    async def measure(self, run: Any) -> Disk:
        """What the test says, when it says so."""
        self.measured += 1
        return await self.answer

    def over_limit(self, run: Any) -> End | None:
        """As the test says."""
        return self.verdict


def host_of(tmp_path: Path) -> Any:
    settings = SimpleNamespace(
        initial_update_s=8,
        update_s=300,
        startd_update_s=60,
        poll_s=5,
        enforce_disk=True,
        hooks=SimpleNamespace(knobs={}),
    )
    posted: list[Any] = []
    return SimpleNamespace(
        clock=SetClock(), machine=SimpleNamespace(settings=settings), disks=Disks(), runs={}, posted=posted,
        lease=tmp_path / "lease", common=CommonInputs(tmp_path),
        startd=SimpleNamespace(listening=True, report=lambda run_id, report: posted.append(report)),
    )  # fmt: skip


def run_of(host: Any, tmp_path: Path, lease_s: float = 0.0) -> Run:
    directory = RunDirectory(tmp_path / "dir_1_1", tmp_path / "control")
    run = Run(host, Assignment("1.0#1", read_slot(NOTHING.get, "slot1"), ClassAd({}), directory, lease_s=lease_s))
    host.runs[run.run_id] = run
    return run


async def ticks() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_disk_is_looked_at_on_time_when_the_clock_is_set_back(tmp_path: Path) -> None:
    host = host_of(tmp_path)
    run = run_of(host, tmp_path)
    run.shadow.accept()
    run.job.started_at = host.clock.now()
    run.state = RunState(Phase.RUNNING, pid=0)
    watch.look_at(host, run, host.clock.monotonic())
    host.clock.set_by = -7200.0
    host.clock.advance(6)
    watch.look_at(host, run, host.clock.monotonic())
    await ticks()
    assert host.disks.measured == 1
    host.disks.verdict = held("full", OUT_OF_RESOURCES, OUT_OF_DISK_SUBCODE)
    host.disks.answer.set_result(Disk(9, 1))
    await ticks()
    assert run.state.end == host.disks.verdict


async def test_a_slow_measurement_is_not_begun_twice_and_holds_nobody_up(tmp_path: Path) -> None:
    host = host_of(tmp_path)
    slow = run_of(host, tmp_path)
    slow.shadow.accept()
    slow.job.started_at, slow.state = host.clock.now(), RunState(Phase.RUNNING, pid=0)
    for _ in range(3):
        host.clock.advance(20)
        watch.look_at(host, slow, host.clock.monotonic())
        await ticks()
    assert host.disks.measured == 1
    host.disks.answer.set_result(Disk(9, 1))
    await ticks()
    assert slow.scratch.used == Disk(9, 1) and not slow.schedule.measuring


async def test_a_run_whose_shadow_never_came_is_given_up_when_its_lease_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    host = host_of(tmp_path)
    run = run_of(host, tmp_path, lease_s=100.0)
    host.clock.advance(99)
    watch.look_at(host, run, host.clock.monotonic())
    assert not run.state.unwanted
    host.clock.advance(2)
    host.dispose, host.forget = _nothing_left, host.runs.clear
    watch.look_at(host, run, host.clock.monotonic())
    assert run.state.unwanted and "no contact with the shadow" in caplog.text


async def test_failed_attempts_to_reconnect_do_not_renew_the_lease(tmp_path: Path) -> None:
    host = host_of(tmp_path)
    run = run_of(host, tmp_path, lease_s=100.0)
    host.dispose, host.forget = _nothing_left, host.runs.clear
    for _ in range(11):
        run.link_lost()
        host.clock.advance(10)
        watch.look_at(host, run, host.clock.monotonic())
    assert run.state.unwanted


async def _nothing_left(run: Any) -> list[str]:
    return []


async def test_a_run_that_was_told_to_go_before_its_shadow_knew_of_it_tells_its_end(tmp_path: Path) -> None:
    host = host_of(tmp_path)
    run = run_of(host, tmp_path)
    run.on(events.KillRequested(Kill(fast=True, reason="the owner is back", code=1011)))
    said: list[Any] = []
    link: Any = SimpleNamespace(report=lambda run_id, report: said.append(report))
    run.shadow.link = link
    run.hear(Accepted(job_ad=b"", user="ann@here"))
    (ended,) = [report for report in said if isinstance(report, Ended)]
    assert (ended.reason, ended.reason_code) == ("the owner is back", 1011)


def test_a_job_that_is_suspended_before_it_has_begun_stands_still_as_soon_as_it_has() -> None:
    state = RunState(Phase.INPUT)
    for event in (events.SuspendRequested(resume=False), events.InputsDone()):
        state, done = step(state, event)
        assert not any(isinstance(action, actions.Pause) for action in done)
    assert actions.Pause(resume=False) in step(state, events.Started(7))[1]
    state, _ = step(state, events.SuspendRequested(resume=True))
    assert actions.Pause(resume=False) not in step(state, events.Started(7))[1]


@pytest.mark.parametrize("phase", [Phase.INPUT, Phase.RUNNING, Phase.OUTPUT])
def test_a_run_that_the_startd_has_forgotten_tells_its_shadow(phase: Phase) -> None:
    result = KeeperResult("signaled", code=9, ended_by="hard")
    end = End(How.EXITED) if phase is Phase.OUTPUT else None
    state, done = step(RunState(phase, pid=7, end=end, outputs="all"), events.ClaimGone())
    if phase is Phase.RUNNING:
        assert done == [actions.StopHard()]
        state, done = step(state, events.KeeperEnded(result, MemoryRule(), JOB))
    elif phase is Phase.OUTPUT:  # what it has done is not lost
        state, done = step(state, events.OutputsSent())
    assert actions.SendEnd() in done and not any(isinstance(action, actions.ReportGone) for action in done)
    assert state.end is not None and state.end.how is (How.EXITED if phase is Phase.OUTPUT else How.EVICTED)


async def test_an_event_that_cannot_happen_is_logged_and_ends_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = host_of(tmp_path)
    run = run_of(host, tmp_path)
    run.on(events.OutputsSent())
    assert "OutputsSent cannot happen to a run in the phase offered" in caplog.text
    assert run.state.phase is Phase.ENDED and run.state.end is not None
    assert (run.state.end.how, run.state.end.reason_code) == (How.EVICTED, STARTER_ERROR)
    assert any(isinstance(report, SlotFree) for report in host.posted)
