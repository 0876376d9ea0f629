"""A daemon that fails ends, whatever it had begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import LIMIT_S, block_until

_FAILS = """
import asyncio
from slotwise.daemon import runtime

async def stays():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def fails(*_):
    asyncio.create_task(stays(), name="a run that was taken over")
    await asyncio.sleep(0)
    raise OSError(28, "No space left on device")

runtime._run, runtime._LEAVE_S = fails, 0.2
runtime.main("rooster", {})
"""


def test_a_failed_start_does_not_wait_for_tasks_that_do_not_end() -> None:
    done = subprocess.run([sys.executable, "-c", _FAILS], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode != 0
    assert "_cancel_all_tasks" in done.stderr, "the stacks say what it waited for"


_HANGS = """
import asyncio, os, sys, types
from slotwise.daemon import runtime

class Hangs:
    async def reconfig(self, config):
        return []

    async def stop(self, mode):
        print("stop", mode, flush=True)
        await asyncio.Event().wait()

async def start(context):
    asyncio.get_running_loop().call_soon(print, "up")
    return Hangs()

sys.modules["hangs"] = types.ModuleType("hangs")
sys.modules["hangs"].start = start
runtime.DAEMONS = {**runtime.DAEMONS, "rooster": "hangs"}
sys.stdout.reconfigure(line_buffering=True)
runtime.main("rooster", dict(os.environ))
"""


def test_an_orderly_end_that_hangs_becomes_fast_and_then_ends_the_process(tmp_path: Path) -> None:
    config = tmp_path / "condor_config"
    config.write_text("SHUTDOWN_GRACEFUL_TIMEOUT = 0.5\nSHUTDOWN_FAST_TIMEOUT = 0.5\n")
    home = tmp_path / "home"
    env = {**os.environ, "SLOTWISE_HOME": str(home), "CONDOR_CONFIG": str(config)}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _HANGS], env=env, stdout=pipe, stderr=pipe, text=True) as daemon:
        assert daemon.stdout is not None
        assert next(line for line in daemon.stdout).strip() == "up"
        block_until(lambda: takes(daemon.pid, signal.SIGTERM), "it takes signals")
        daemon.terminate()
        said, stacks = daemon.communicate(timeout=LIMIT_S)
    assert said.split("\n")[:2] == ["stop graceful", "stop fast"]
    assert "the graceful stop has taken 0.5 s: stopping fast" in log_of(home)
    assert daemon.returncode not in (0, None) and "Timeout" in stacks, "the stacks say what it waited for"
    again = subprocess.Popen([sys.executable, "-c", _HANGS], env=env, stdout=pipe, stderr=pipe, text=True)
    with again:
        assert again.stdout is not None
        assert next(line for line in again.stdout).strip() == "up", "its lock is free"
        again.kill()


def takes(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler of the signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << (number - 1))


def log_of(home: Path) -> str:
    path = home / "log" / "RoosterLog"
    return path.read_text() if path.exists() else ""
