"""Programs that a daemon runs to their end, within a time and with bounded output.

Each runs in a session of its own. One whose time is over is killed with its process group. Of one that has ended by
itself, nothing goes on either when it came from a user or serves a job (:func:`run`); the administrator's commands
(:func:`run_command`) may leave something in the background: ``sendmail`` that delivers there, or ``(sleep 5; poweroff)
&``. A program that outlives what called it, or whose output is read line by line while it runs, is started by its
caller, which ends it by :func:`signal_group` or :func:`end_group`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

#: Bytes of a program's standard output and of its standard error that are kept, and bytes of one read.
MAX_OUTPUT, MAX_ERRORS, _READ = 4 * 1024 * 1024, 64 * 1024, 64 * 1024


class Ended(NamedTuple):
    """How a program ended."""

    #: Its exit status; below 0: the signal that ended it, also when that came from here.
    status: int
    #: The beginning of its standard output, and of its standard error.
    output: bytes
    errors: bytes
    #: It was killed because its time was over.
    timed_out: bool = False

    @property
    def said(self) -> str:
        """What it wrote to its standard error, or else to its standard output, without white space around it."""
        return (self.errors.strip() or self.output.strip()).decode(errors="replace")


async def run(
    words: Sequence[str],
    *,
    limit_s: float,
    given: bytes = b"",
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Run a program to its end, at most ``limit_s`` seconds, and end what it leaves running. A call that is cancelled
    kills it.

    :param given: its standard input.
    :raises OSError: when it cannot be started.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=pipe if given else asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    heard = bytearray(), bytearray()
    timed_out = False
    try:
        with _group_ends_with(process.pid):
            try:
                async with asyncio.timeout(limit_s):
                    await _converse(process, given, heard)
            except TimeoutError:
                timed_out = True
    finally:
        status = await process.wait()  # killed, if whoever called it was cancelled
    return Ended(status, bytes(heard[0]), bytes(heard[1]), timed_out)


async def run_command(
    words: Sequence[str],
    *,
    limit_s: float,
    given: bytes = b"",
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command of the administrator to its end, at most ``limit_s`` seconds; what it leaves in the background goes
    on. A call that is cancelled kills it.

    :param given: its standard input.
    :raises OSError: when it cannot be started.
    """
    with _files(given) as files:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=files.given,
            stdout=files.output,
            stderr=files.errors,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        timed_out = False
        try:
            async with asyncio.timeout(limit_s):
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            if process.returncode is None:
                signal_group(process.pid, signal.SIGKILL)
            status = await process.wait()
        return files.ended(status, timed_out)


def run_command_blocking(
    words: Sequence[str], *, limit_s: float, given: bytes = b"", env: Mapping[str, str] | None = None
) -> Ended:
    """As :func:`run_command`, outside an event loop.

    :raises OSError: when it cannot be started.
    """
    with _files(given) as files:
        process = subprocess.Popen(
            words, stdin=files.given, stdout=files.output, stderr=files.errors, env=env, start_new_session=True
        )
        timed_out = False
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            if process.returncode is None:
                signal_group(process.pid, signal.SIGKILL)
            status = process.wait()
        return files.ended(status, timed_out)


class _Files(NamedTuple):
    """Where a command reads and writes: files, which nobody has to wait for, as for a pipe that is held open in the
    background."""

    given: IO[bytes]
    output: IO[bytes]
    errors: IO[bytes]

    def ended(self, status: int, timed_out: bool) -> Ended:
        """What became of the command."""
        self.output.seek(0)
        self.errors.seek(0)
        return Ended(status, self.output.read(MAX_OUTPUT), self.errors.read(MAX_ERRORS), timed_out)


@contextlib.contextmanager
def _files(given: bytes) -> Iterator[_Files]:
    with tempfile.TemporaryFile() as standing, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        standing.write(given)
        standing.seek(0)
        yield _Files(standing, output, errors)


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the process group that ``pid`` leads, if there is one and it may be signalled."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def end_group(process: asyncio.subprocess.Process, gentle_s: float) -> None:
    """End a program that leads a group, and what is left of the group: SIGTERM, after ``gentle_s`` seconds SIGKILL."""
    signal_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(gentle_s):
            await process.wait()
    signal_group(process.pid, signal.SIGKILL)
    await process.wait()


def watch_exit(pid: int, on_exit: Callable[[], None]) -> int | None:
    """Call ``on_exit`` when process ``pid`` ends; returns a descriptor for :func:`unwatch`, None if it has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    asyncio.get_running_loop().add_reader(fd, on_exit)
    return fd


def unwatch(fd: int) -> None:
    """End a watch."""
    asyncio.get_running_loop().remove_reader(fd)
    os.close(fd)


@contextlib.contextmanager
def _group_ends_with(pid: int) -> Iterator[None]:
    """Kill what a program has started when it ends itself, at the latest behind this block."""
    watching: list[int] = []

    def end() -> None:
        while watching:
            unwatch(watching.pop())
        signal_group(pid, signal.SIGKILL)

    watch = watch_exit(pid, end)
    if watch is None:
        end()
    else:
        watching.append(watch)
    try:
        yield
    finally:
        end()


async def _converse(process: asyncio.subprocess.Process, given: bytes, heard: tuple[bytearray, bytearray]) -> None:
    """Give a program its input, and take what it writes; what is too much is read and discarded."""
    await asyncio.gather(
        _give(process, given),
        _listen(process.stdout, heard[0], MAX_OUTPUT),
        _listen(process.stderr, heard[1], MAX_ERRORS),
    )
    await process.wait()


async def _give(process: asyncio.subprocess.Process, given: bytes) -> None:
    if process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read all, or anything
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()


async def _listen(stream: asyncio.StreamReader | None, heard: bytearray, limit: int) -> None:
    while stream is not None and (data := await stream.read(_READ)):
        heard += data[: limit - len(heard)]
