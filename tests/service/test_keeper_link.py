"""A real keeper, followed as starter and schedd follow theirs."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path

import pytest
from slotwise.execution import launcher
from slotwise.execution.keeper_link import KeeperLink
from slotwise.execution.keeper_spec import Identity, KeeperResult, KeeperSpec
from slotwise.execution.launcher import Launcher

from tests.support.waiting import until


class Listener:
    """A run that writes down what it hears of its keeper."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.results: list[KeeperResult] = []
        self.tasks: list[asyncio.Task[None]] = []

    def job_started(self, pid: int) -> None:
        self.heard.append("started")

    def job_suspended(self, *, resumed: bool) -> None:
        self.heard.append("continued" if resumed else "suspended")

    def keeper_ended(self, result: KeeperResult) -> None:
        self.results.append(result)

    def give_up(self, error: BaseException) -> None:
        raise error

    def begin(self, work: Coroutine[object, object, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))


class Kept:
    """A job under a keeper, and a link to it."""

    def __init__(self, place: Path) -> None:
        self.control = place / "control"
        self.control.mkdir()
        self.listener = Listener()
        self.link = KeeperLink("1.0#1", self.control, self.listener)
        self.launcher = Launcher(place / "notices", lambda name, what: self.link.notice(what))

    async def start(self) -> int:
        spec = KeeperSpec(
            name="x", exe="/bin/sleep", args=("sleep", "600"), env={}, cwd="/",
            identity=Identity(uid=65534, gid=65534) if os.geteuid() == 0 else Identity(),
            notify=str(self.control.parent / "notices"),
        )  # fmt: skip
        (self.control / "spec").write_bytes(spec.encode())
        await self.launcher.start()
        pid = await self.launcher.spawn(self.control)
        await until(lambda: "started" in self.listener.heard, "the job executes")
        return pid

    def result(self) -> KeeperResult:
        (found,) = self.listener.results
        return found


@pytest.fixture
async def kept() -> AsyncIterator[Kept]:
    place = Path(tempfile.mkdtemp(prefix="slotwise-", dir="/var/tmp"))
    made = Kept(place)
    yield made
    launcher.command(made.control, "hard")
    await until(lambda: launcher.holder(made.control) is None, "the keeper is gone")
    await made.launcher.stop()
    shutil.rmtree(place)


async def test_commands_are_carried_out_and_reported(kept: Kept) -> None:
    await kept.start()
    assert kept.link.suspend()
    await until(lambda: "suspended" in kept.listener.heard, "the job is suspended")
    assert kept.link.adopt().suspended
    assert kept.link.suspend(resume=True)
    await until(lambda: "continued" in kept.listener.heard, "the job goes on")
    assert kept.link.ask_to_exit(signal.SIGUSR1, 300)
    await until(lambda: bool(kept.listener.results), "the result is taken")
    assert (kept.result().how, kept.result().code, kept.result().ended_by) == ("signaled", signal.SIGUSR1, "soft")
    assert not kept.link.kill(), "nobody listens any more"


async def test_a_keeper_that_is_killed_yields_a_result_all_the_same(kept: Kept) -> None:
    pid = await kept.start()
    kept.link.watch(pid)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: bool(kept.listener.results), "its family is killed and its result taken")
    assert kept.result().how == "lost"


async def test_a_keeper_that_lives_though_another_one_is_gone_is_followed(kept: Kept) -> None:
    """Of two that were forked for one run, the second ends at the lock of the first."""
    pid = await kept.start()
    await kept.link.find_out()
    assert not kept.listener.results
    os.kill(pid, signal.SIGKILL)
    await until(lambda: bool(kept.listener.results), "the end of the one that lived is seen")


async def test_a_closed_link_takes_no_result(kept: Kept) -> None:
    pid = await kept.start()
    kept.link.watch(pid)
    kept.link.close()
    assert kept.link.kill()
    await until(lambda: (kept.control / "result").exists(), "the job has ended")
    kept.link.take_result()
    assert not kept.listener.results and kept.link.result is None
