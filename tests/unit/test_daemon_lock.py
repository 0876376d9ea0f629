"""The lock that says which process is a pool's daemon."""

import os
import signal
from pathlib import Path

import pytest
from slotwise.daemon import process
from slotwise.daemon.lock import DaemonLock, holder
from slotwise.errors import HostError
from slotwise.home import PoolHome


@pytest.fixture
def home(tmp_path: Path) -> PoolHome:
    made = PoolHome(tmp_path / "pool")
    made.create()
    return made


def _in_child(home: PoolHome, name: str) -> tuple[int, int]:
    """A child that holds the lock until it is killed; returns its pid and a pipe that says when it has it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        DaemonLock(home, name)
        if os.fork() == 0:  # a grandchild must not count as the holder
            os.write(writing, b"x")
            signal.pause()
        signal.pause()
        os._exit(0)
    os.read(reading, 1)
    return pid, reading


def test_nobody_holds_a_lock_that_was_never_taken(home: PoolHome) -> None:
    assert holder(home, "schedd") is None


def test_the_holder_is_found_refuses_others_and_loses_it_with_its_life(home: PoolHome) -> None:
    pid, _ = _in_child(home, "schedd")
    try:
        assert holder(home, "schedd") == pid
        with pytest.raises(HostError, match="another schedd runs"):
            DaemonLock(home, "schedd")
        assert process.alive(pid)
        os.kill(pid, signal.SIGKILL)
        assert process.wait_gone(pid, 5)
        # The grandchild forked from the holder lives on; POSIX locks do not pass to it.
        assert holder(home, "schedd") is None
        again = DaemonLock(home, "schedd")
        again.release()
        again.release()
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_exits_are_told_in_words() -> None:
    assert process.describe_exit(0x100) == "exit status 1"
    assert process.describe_exit(9) == "signal SIGKILL"
