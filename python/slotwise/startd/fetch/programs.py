"""Runs the programs of hooks so that what they say outlives the startd. The edge: processes and files.

A call has files in the startd's spool: ``.in`` (its standard input), ``.out``, ``.err``, ``.pid`` and ``.status``. A
small shell stands between startd and hook: it bounds what is written, and leaves the hook's exit status behind. A
startd that was killed meanwhile thus learns what the hook has said, and whether it came to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from slotwise.daemon import children
from slotwise.daemon.privileges import as_daemon_account
from slotwise.daemon.spawn import program
from slotwise.startd.fetch.work import LONGEST

#: How often a running hook is checked (seconds).
_LOOK_S = 0.05
#: How long what a hook has left running may keep its output open once it has ended itself; and how long a hook that is
#: told to end may take.
_LINGER_S, _PATIENCE_S = 2.0, 3.0
#: How long the shell may take to write its process id.
_BORN_S = 2.0
_MOST_ERRORS = 4096

#: $1: the files' common name. One byte more than may be is kept, so that too much is noticed.
_SHELL = f"""base=$1; shift
echo $$ >"$base.pid"
{{ {{ "$@" <"$base.in" 3>&-; echo $? >"$base.status"; }} 2>&3 | head -c {LONGEST + 1} >"$base.out"; }} 3>&1 >/dev/null |
tail -c {_MOST_ERRORS} >"$base.err"
"""

_SUFFIXES = ("in", "out", "err", "pid", "status")

_log = logging.getLogger(__name__)


class Outcome(Struct, frozen=True):
    """The outcome of a call. ``status``: the exit status, below 0 a signal; None: it did not exit."""

    status: int | None
    output: bytes = b""
    errors: str = ""
    timed_out: bool = False

    @property
    def killed(self) -> bool:
        """Somebody else has killed it."""
        return not self.timed_out and (self.status is None or self.status < 0)


class Programs:
    """The calls of one startd; all of it for the event loop's thread."""

    def __init__(self, place: Path, env: Mapping[str, str]) -> None:
        self._place, self._env = place, env

    def open(self, known: Sequence[str]) -> None:
        """Make the directory; what belongs to no known call is removed."""
        self._place.mkdir(mode=0o700, exist_ok=True)
        for path in self._place.iterdir():
            if path.stem not in known:
                path.unlink(missing_ok=True)

    def _base(self, call_id: str) -> Path:
        return self._place / call_id

    def forget(self, call_id: str) -> None:
        """Remove a call's files."""
        for suffix in _SUFFIXES:
            with contextlib.suppress(OSError):
                (self._place / f"{call_id}.{suffix}").unlink(missing_ok=True)

    async def run(self, call_id: str, words: Sequence[str], given: bytes, limit_s: float) -> Outcome:
        """Run a hook to its end, at most ``limit_s`` seconds; what it leaves running is killed.

        :raises OSError: when it cannot be started.
        """
        self.forget(call_id)
        descriptor = os.open(self._base(f"{call_id}.in"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(given)
        shell = program(["sh", "-c", _SHELL, "slotwise-hook", str(self._base(call_id)), *words])
        account = as_daemon_account()
        process = await asyncio.create_subprocess_exec(
            *(program(account) if account else []),
            *shell,
            cwd="/",
            env=dict(self._env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        return await self._to_the_end(call_id, process.pid, limit_s, process)

    async def find(self, call_id: str, limit_s: float) -> Outcome | None:
        """The outcome of a hook that a previous startd has started; None when it never began."""
        pid = self._pid(call_id)
        deadline = asyncio.get_running_loop().time() + _BORN_S
        while pid is None and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_LOOK_S)
            pid = self._pid(call_id)
        if pid is None:
            return None
        return await self._to_the_end(call_id, pid, limit_s, None)

    def _pid(self, call_id: str) -> int | None:
        try:
            return int(self._base(f"{call_id}.pid").read_text())
        except (OSError, ValueError):
            return None

    async def _to_the_end(
        self, call_id: str, pid: int, limit_s: float, child: asyncio.subprocess.Process | None
    ) -> Outcome:
        clock = asyncio.get_running_loop().time
        began, ended_at, timed_out = clock(), None, False
        try:
            while self._lives(call_id, pid, child):
                if ended_at is None and self._status(call_id) is not None:
                    ended_at = clock()
                if ended_at is not None and clock() - ended_at >= _LINGER_S:
                    break
                if clock() - began >= limit_s:
                    timed_out = True
                    break
                await asyncio.sleep(_LOOK_S)
        finally:
            await asyncio.shield(self._end(call_id, pid, child, gently=timed_out))
        status = self._status(call_id)
        return Outcome(
            status, self._read("out", call_id), self._read("err", call_id).decode(errors="replace"), timed_out
        )

    def _lives(self, call_id: str, pid: int, child: asyncio.subprocess.Process | None) -> bool:
        """Whether the shell is alive: its process id may be another's by now."""
        if child is not None:
            return child.returncode is None
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return os.fsencode(self._base(call_id)) in words

    async def _end(self, call_id: str, pid: int, child: asyncio.subprocess.Process | None, *, gently: bool) -> None:
        clock = asyncio.get_running_loop().time
        if gently and self._lives(call_id, pid, child):
            children.signal_group(pid, signal.SIGTERM)
            deadline = clock() + _PATIENCE_S
            while self._lives(call_id, pid, child) and clock() < deadline:
                await asyncio.sleep(_LOOK_S)
        if child is not None or self._lives(call_id, pid, child):
            children.signal_group(pid, signal.SIGKILL)
        if child is not None:
            await child.wait()

    def _status(self, call_id: str) -> int | None:
        """What the shell says: above 128 a signal ended the hook."""
        try:
            status = int(self._base(f"{call_id}.status").read_text())
        except (OSError, ValueError):
            return None
        return 128 - status if status > 128 else status

    def _read(self, suffix: str, call_id: str) -> bytes:
        try:
            with open(self._base(f"{call_id}.{suffix}"), "rb") as stream:
                return stream.read(LONGEST + 1)
        except OSError:
            return b""
