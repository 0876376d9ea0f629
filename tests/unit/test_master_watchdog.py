"""When a silent daemon counts as hung, and how it is ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from slotwise.clock import ManualClock
from slotwise.daemon import process
from slotwise.master.watchdog import HangTimeout, end_hung, until_silent

from tests.support.configured import configured
from tests.support.waiting import LIMIT_S


def test_a_daemons_own_timeout_counts_before_the_common_one() -> None:
    knobs = configured(NOT_RESPONDING_TIMEOUT="60", SCHEDD_NOT_RESPONDING_TIMEOUT="6", NOT_RESPONDING_WANT_CORE="true")
    assert HangTimeout.of_config(knobs, "schedd") == HangTimeout(6.0, True)
    assert HangTimeout.of_config(knobs, "startd") == HangTimeout(60.0, True)
    assert HangTimeout.of_config(configured(), "startd") == HangTimeout(3600.0, False)
    assert HangTimeout.of_config(configured(NOT_RESPONDING_TIMEOUT="0"), "startd").timeout_s == 1.0


async def test_one_answer_ends_a_silence() -> None:
    """Silence must be longer than the timeout without a break: answers in between start the count again."""
    clock = ManualClock()
    answers = [False, True] * 5
    asked = 0

    async def asks(_limit_s: float) -> bool:
        nonlocal asked
        asked += 1
        clock.advance(0.012)
        return answers.pop(0) if answers else False

    silent_s = await until_silent(asks, lambda: HangTimeout(0.03), clock)
    assert silent_s == pytest.approx(0.036, abs=1e-4)
    assert asked == 13  # none of the short silences sufficed


SPIN = """
import faulthandler, signal, sys
faulthandler.enable()
faulthandler.register(signal.SIGUSR2)
def turns_for_ever():
    print("spins", flush=True)
    while True:
        pass
turns_for_ever()
"""


@pytest.mark.parametrize("want_core", [False, True])
async def test_a_hung_daemon_leaves_its_stacks_before_it_is_killed(tmp_path: Path, want_core: bool) -> None:
    errors = tmp_path / "daemon.out"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE, stderr=stderr, cwd=tmp_path) as hung,
    ):
        assert hung.stdout is not None and hung.stdout.readline() == b"spins\n"
        await end_hung("spinner", hung.pid, 5.0, want_core=want_core)
        assert hung.wait(LIMIT_S) == (-signal.SIGABRT if want_core else -signal.SIGKILL)
    assert "turns_for_ever" in errors.read_text()


async def test_a_stopped_daemon_is_killed_without_a_word(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) as stopped:
        assert stopped.stdout is not None and stopped.stdout.readline() == b"spins\n"
        process.send(stopped.pid, signal.SIGSTOP)
        await end_hung("sleeper", stopped.pid, 5.0, want_core=True)
        assert stopped.wait(LIMIT_S) == -signal.SIGKILL
