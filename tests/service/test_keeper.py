"""A real keeper, and what reaches a job that has not begun to execute."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from slotwise.execution import launcher
from slotwise.execution.keeper_spec import CgroupPlan, Identity, KeeperSpec, read_result
from slotwise.execution.launcher import Launcher

from tests.support.waiting import until


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that any account may enter."""
    found = Path(tempfile.mkdtemp(prefix="slotwise-", dir="/var/tmp"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


@pytest.fixture
async def keepers(place: Path) -> AsyncIterator[Launcher]:
    found = Launcher(place / "notices", lambda _name, _what: None)
    await found.start()
    yield found
    await found.stop()


async def test_a_soft_kill_between_fork_and_exec_is_not_lost(keepers: Launcher, place: Path) -> None:
    """The job's process waits before it has reset its signals: the file that it joins its cgroup by is a named pipe."""
    control, group = place / "control", place / "group"
    control.mkdir()
    group.mkdir()
    os.mkfifo(group / "cgroup.procs")
    spec = KeeperSpec(
        name="x", exe="/bin/sleep", args=("sleep", "600"), env={}, cwd="/",
        identity=Identity(uid=65534, gid=65534) if os.geteuid() == 0 else Identity(),
        cgroup=CgroupPlan(version=1, join=(str(group),)),
    )  # fmt: skip
    (control / "spec").write_bytes(spec.encode())
    await keepers.spawn(control)
    await until(lambda: launcher.command(control, "soft 15 300"), "the keeper listens")
    launcher.command(control, "sample")
    await until(lambda: (control / "usage").exists(), "the keeper has taken both commands")
    reader = os.open(group / "cgroup.procs", os.O_RDONLY)
    try:
        await until(lambda: read_result(control) is not None, "the job has ended, long before it is killed")
    finally:
        launcher.command(control, "hard")
        os.close(reader)
    result = read_result(control)
    assert result is not None and (result.how, result.code, result.ended_by) == ("signaled", 15, "soft")
