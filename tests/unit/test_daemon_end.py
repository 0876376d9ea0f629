"""A daemon that fails ends, whatever it had begun."""

from __future__ import annotations

import subprocess
import sys

from tests.support.waiting import LIMIT_S

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
