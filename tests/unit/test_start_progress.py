"""A daemon that has much to load has as long as it works on it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from slotwise.clock import ManualClock
from slotwise.daemon import start_progress
from slotwise.daemon.process import cpu_ticks
from slotwise.daemon.start_progress import StartProgress, all_doing, doing, work_of
from slotwise.errors import PeerUnavailableError
from slotwise.home import PoolHome
from slotwise.master import supervisor
from slotwise.master.limits import Limits
from slotwise.master.supervisor import DaemonSupervisor


@pytest.fixture
def home(tmp_path: Path) -> PoolHome:
    made = PoolHome(tmp_path / "pool")
    made.create()
    return made


def test_what_is_noted_is_read_until_the_start_is_over(home: PoolHome) -> None:
    assert doing(home, "schedd") == "" and all_doing(home) == {}
    progress = StartProgress(home, "schedd")
    progress.note("reads its job queue", done=1000, of=1_000_000)
    assert all_doing(home) == {"schedd": "reads its job queue, 1,000 of 1,000,000"}
    progress.note("reads its job queue", done=2000, of=1_000_000)
    assert "1,000 of" in doing(home, "schedd"), "the next step follows too closely"
    progress.note("reads its job queue", done=1_000_000, of=1_000_000)
    assert "1,000,000 of" in doing(home, "schedd"), "the last one is always written"
    start_progress.end(home, "schedd")
    assert doing(home, "schedd") == ""


def test_what_a_dead_process_has_left_does_not_count(home: PoolHome) -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as gone:
        gone.wait()
    (home.run / "schedd.starting").write_text(f'{{"pid": {gone.pid}, "doing": "reads"}}')
    (home.run / "startd.starting").write_text("[]")
    assert all_doing(home) == {}


def test_processor_time_counts_only_with_a_note(home: PoolHome) -> None:
    me = os.getpid()
    assert work_of(home, "schedd", me) == ("", 0)
    StartProgress(home, "schedd").note("reads its job queue")
    text, before = work_of(home, "schedd", me)
    assert text == "reads its job queue"
    while cpu_ticks(me) == before:
        pass
    assert work_of(home, "schedd", me) != (text, before)


class Slow(DaemonSupervisor):
    """A daemon that never answers, and works on what it says for a while."""

    steps = 0

    async def _keep(self) -> None:
        await asyncio.Event().wait()

    def _work(self) -> tuple[str, int]:
        assert isinstance(self.clock, ManualClock)
        self.clock.advance(20.0)
        self.steps += 1
        return ("reads its job queue", min(self.steps, 10))


async def test_a_start_ends_only_when_the_work_stands_still(home: PoolHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_LOOK_S", 0.001)

    class Nobody:
        async def start(self, name: str) -> int:
            raise AssertionError(name)

        async def exit_of(self, pid: int) -> int | None:
            return None

    slow = Slow("schedd", home, ManualClock(), Nobody(), lambda _target: (), Limits(start_s=30.0))
    slow.begin()
    with pytest.raises(PeerUnavailableError, match="does not go on with this: reads its job queue") as caught:
        await slow.until_answers()
    assert slow.steps >= 11 and "SLOTWISE_START_TIMEOUT" in str(caught.value)
    assert slow._task is not None
    slow._task.cancel()
