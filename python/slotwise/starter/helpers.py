"""Programs beside a job: hooks and file transfer plugins. They run as the job's user and end with their run.

Each has an entry in its environment that names its run's control directory. By that it is found with all that it has
started: when the run is told to go, when it is over, and by the next starter when this one was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.daemon.offspring import as_account, program
from slotwise.starter.keeper_spec import Identity

if TYPE_CHECKING:
    from slotwise.starter.run import Run

_ENTRY = "_SLOTWISE_HELPER"
#: How long a killed program may take to be gone, seconds.
_PATIENCE_S = 5.0
#: Most bytes of a program's output that are heard, and bytes of one read.
_MOST_SAID, _READ = 4 * 1024 * 1024, 64 * 1024


def _as_user(identity: Identity) -> list[str]:
    """Words before a command that make it run as the job's user."""
    if identity.uid is None:
        return []
    gid = identity.uid if identity.gid is None else identity.gid
    return as_account(identity.uid, gid, identity.groups)


async def call(
    words: list[str], control: Path, *, cwd: str, env: Mapping[str, str], limit_s: float, given: bytes = b""
) -> tuple[int, str]:
    """Run a program to its end, at most ``limit_s`` seconds; its exit status (below 0: a signal) and its output.

    :param control: the control directory that it is found by.
    :param given: its standard input.
    :raises OSError: when it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE if given else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=cwd,
        env={**env, _ENTRY: str(control)},
        start_new_session=True,
    )
    said = b""
    try:
        said = await asyncio.wait_for(_conversation(process, given), limit_s)
    except TimeoutError:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return await process.wait(), said.decode(errors="replace")


async def _conversation(process: asyncio.subprocess.Process, given: bytes) -> bytes:
    """Give a program its input, and take what it says: at most so much, and the rest is not listened to."""
    _, said = await asyncio.gather(_give(process, given), _listen(process))
    await process.wait()
    return said


async def _give(process: asyncio.subprocess.Process, given: bytes) -> None:
    if process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read all, or anything
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()


async def _listen(process: asyncio.subprocess.Process) -> bytes:
    said = bytearray()
    while process.stdout is not None and (data := await process.stdout.read(_READ)):
        said += data[: _MOST_SAID - len(said)]
    return bytes(said)


async def call_for(
    run: Run, words: list[str], *, env: Mapping[str, str], limit_s: float, given: bytes = b""
) -> tuple[int, str]:
    """As :func:`call`, for a run: as its user, in its scratch directory.

    :raises OSError: when it cannot be started.
    """
    command = [*_as_user(run.identity), *program(words)]
    run.helpers += 1
    try:
        return await call(
            command,
            run.directory.control,
            cwd=str(run.directory.scratch),
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "_CONDOR_SCRATCH_DIR": str(run.directory.scratch), **env},
            limit_s=limit_s,
            given=given,
        )
    finally:
        run.helpers -= 1


def end(control: Path) -> None:
    """End the programs of one run. Blocks."""
    _end(lambda place: place == os.fsencode(control))


def end_all(root: Path) -> None:
    """End the programs of all runs whose control directories are below ``root``, and of a starter there. Blocks."""
    start = os.fsencode(root)
    _end(lambda place: place == start or place.startswith(start + b"/"))


def _end(is_ours: Callable[[bytes], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while (found := _bearing(is_ours)) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _bearing(is_ours: Callable[[bytes], bool]) -> list[int]:
    name = f"{_ENTRY}=".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            entries = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # gone, or somebody else's
        if any(one.startswith(name) and is_ours(one[len(name) :]) for one in entries):
            found.append(int(process.name))
    return found
