"""Another user of the host plants control directories of a pool that never was: the starter leaves them alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.errors import HostError
from slotwise.execution.control_dir import control_root, orphaned

from tests.support.accounts import HostUser, host_users
from tests.support.starter_bench import is_alive, starter_bench

pytestmark = pytest.mark.host
SHARED = Path("/dev/shm")


@pytest.fixture(scope="module")
def mallory() -> Iterator[HostUser]:
    with host_users("mallory") as (user,):
        yield user


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of root's."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def planted(mallory: HostUser, victim: subprocess.Popen[bytes], tmp_path: Path) -> Iterator[Path]:
    """A control directory of mallory's that names root's process as a job's, and root's file as a result."""
    root = SHARED / f"slotwise-{os.geteuid()}-mallory{os.getpid()}"
    target = tmp_path / "precious"
    target.write_text("kept")
    mallory.run(
        f"""mkdir -m 0755 {root} {root}/dir_1_1 {root}/group
        printf %s /no/such/execute > {root}/execute
        echo {victim.pid} > {root}/group/cgroup.procs
        printf 'name=dir_1_1\\0cg.version=1\\0cg.make={root}/group\\0cg.freezer={root}/group\\0' > {root}/dir_1_1/spec
        ln -s '{target}' {root}/dir_1_1/result.new
        ln -s '{tmp_path}/made' {root}/dir_1_1/keeper.lock
        """
    )
    yield root
    shutil.rmtree(root, ignore_errors=True)


async def test_a_starter_of_roots_kills_and_writes_nothing_that_a_planted_directory_names(
    planted: Path, victim: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    async with starter_bench():
        assert is_alive(victim.pid), "root's process was killed"
        assert (tmp_path / "precious").read_text() == "kept"
        assert not (tmp_path / "made").exists()
        assert (planted / "dir_1_1").is_dir()


def test_a_planted_directory_is_not_an_orphan(planted: Path, tmp_path: Path) -> None:
    beside = SHARED / f"slotwise-{os.geteuid()}-test{os.getpid()}"
    beside.mkdir()
    try:
        assert orphaned(beside) == []
        # The same directory, were it ours, would be one.
        for path in (planted, *planted.rglob("*")):
            os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)
        assert orphaned(beside) == [planted]
    finally:
        beside.rmdir()


def test_a_fifo_for_the_name_of_execute_stops_nobody(mallory: HostUser, tmp_path: Path) -> None:
    beside = SHARED / f"slotwise-{os.geteuid()}-test{os.getpid()}"
    beside.mkdir()
    fifo = SHARED / f"slotwise-{os.geteuid()}-fifo{os.getpid()}"
    fifo.mkdir()
    try:
        os.mkfifo(fifo / "execute")
        assert orphaned(beside) == []
    finally:
        shutil.rmtree(beside)
        shutil.rmtree(fifo)


@pytest.mark.parametrize("trap", ["directory", "link"])
def test_a_place_that_another_user_took_first_is_not_used(trap: str, mallory: HostUser, tmp_path: Path) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o1777)
    for directory in (tmp_path, *tmp_path.parents):
        with contextlib.suppress(PermissionError):
            directory.chmod(directory.stat().st_mode | 0o011)
    secret = tmp_path / "roots"
    secret.mkdir(mode=0o700)
    name = place / f"slotwise-{os.geteuid()}"
    mallory.run(f"mkdir -m 0777 {name}" if trap == "directory" else f"ln -s {secret} {name}")
    with pytest.raises(HostError, match="not a directory that only user 0 may write"):
        control_root(tmp_path / "execute", str(place))
    assert secret.stat().st_mode & 0o777 == 0o700, "a directory that a link names was opened to others"
