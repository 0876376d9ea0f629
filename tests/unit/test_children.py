"""Programs that daemons run to their end: bounds of time and output, and what becomes of what they leave running."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from slotwise.daemon import children

from tests.support.waiting import until

#: Leaves a process in the background that holds its output open, and notes its number.
LEAVES = "sleep 300 & echo $! > {place}; echo out; echo err >&2"


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_program_is_given_its_input_and_heard() -> None:
    ended = await children.run(["sh", "-c", "cat; echo err >&2; exit 3"], limit_s=60, given=b"in\n")
    assert ended == (3, b"in\n", b"err\n", False)
    assert ended.said == "err"


async def test_an_input_need_not_be_read() -> None:
    ended = await children.run(["true"], limit_s=60, given=b"x" * 1_000_000)
    assert ended.status == 0


async def test_output_is_bounded() -> None:
    words = [sys.executable, "-c", "import sys; sys.stdout.write('x' * 9_000_000); sys.stderr.write('y' * 900_000)"]
    for ended in (await children.run(words, limit_s=60), await children.run_command(words, limit_s=60)):
        assert (ended.status, len(ended.output), len(ended.errors)) == (0, children.MAX_OUTPUT, children.MAX_ERRORS)


async def test_what_a_program_leaves_running_ends_with_it(tmp_path: Path) -> None:
    ended = await children.run(["sh", "-c", LEAVES.format(place=tmp_path / "pid")], limit_s=60)
    assert ended == (0, b"out\n", b"err\n", False)
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not lives(pid))


@pytest.mark.parametrize("blocking", [False, True])
async def test_what_a_command_leaves_in_the_background_goes_on(tmp_path: Path, blocking: bool) -> None:
    words = ["sh", "-c", LEAVES.format(place=tmp_path / "pid")]
    if blocking:
        ended = await asyncio.to_thread(children.run_command_blocking, words, limit_s=60)
    else:
        ended = await children.run_command(words, limit_s=60)
    assert ended == (0, b"out\n", b"err\n", False)
    pid = int((tmp_path / "pid").read_text())
    assert lives(pid)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("how", ["run", "run_command", "run_command_blocking"])
async def test_a_program_whose_time_is_over_is_killed_with_all_that_it_has_started(tmp_path: Path, how: str) -> None:
    words = ["sh", "-c", f"trap '' TERM; {LEAVES.format(place=tmp_path / 'pid')}; sleep 300"]
    if how == "run_command_blocking":
        ended = await asyncio.to_thread(children.run_command_blocking, words, limit_s=1)
    else:
        ended = await getattr(children, how)(words, limit_s=1)
    assert ended == (-signal.SIGKILL, b"out\n", b"err\n", True)
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not lives(pid))


@pytest.mark.parametrize("how", [children.run, children.run_command])
async def test_a_call_that_is_cancelled_kills_the_program(tmp_path: Path, how: Any) -> None:
    place = tmp_path / "pid"
    task = asyncio.create_task(
        how(["sh", "-c", f"echo $$ > {place}.new; mv {place}.new {place}; sleep 300"], limit_s=60)
    )
    while not place.exists():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not lives(int(place.read_text()))


async def test_a_program_that_is_not_there() -> None:
    for how in (children.run, children.run_command):
        with pytest.raises(FileNotFoundError):
            await how(["/no/such/program"], limit_s=60)
    with pytest.raises(FileNotFoundError):
        children.run_command_blocking(["/no/such/program"], limit_s=60)


async def test_a_group_that_does_not_end_when_it_is_asked_to_is_killed() -> None:
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        "trap '' TERM; echo; while :; do sleep 1; done",
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    await children.end_group(process, 0.1)
    assert process.returncode == -signal.SIGKILL
