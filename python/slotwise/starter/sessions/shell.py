"""A shell, or a program, beside a running job, and the two streams between it and its visitor.

Either side may have sent at most a window of bytes that the other has not used up: who is slow slows the other down.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import shlex
import signal
import struct
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

from msgspec import Struct

from slotwise.daemon import children
from slotwise.starter.messages import BytesTaken, OpenShell, Terminal, VisitData, VisitMessage
from slotwise.starter.runtimes.runtime import Entrance
from slotwise.starter.sessions import launch

_WINDOW = 256 * 1024
_PIECE = 32 * 1024
_SHELLS = ("bash", "sh")
_PATH = "/usr/local/bin:/usr/bin:/bin"
#: How often a child is looked at, seconds; and how long it may go on after it was hung up on, or hold its output.
_LOOK_S = 0.05
_PATIENCE_S = 1.0


class _Source(Struct):
    """Something that the program prints to."""

    fd: int
    error: bool
    open: bool = True


class Shell:
    """One program with its terminal or pipes. All methods are for the event loop's thread."""

    def __init__(self, say: Callable[[VisitMessage], None]) -> None:
        self._say = say
        self._process: Popen[bytes] | None = None
        self._sources: list[_Source] = []
        self._input = -1
        self._waiting = bytearray()
        self._input_ends = False
        self._unused = 0
        self._paused = False
        self._terminal = False

    def open(self, control: Path, entrance: Entrance, request: OpenShell) -> None:
        """Start it in the job's view; ``control`` is the control directory of the run.

        :raises OSError: when the host has no process or terminal left.
        """
        self._terminal = request.terminal is not None
        theirs = self._make_terminal() if self._terminal else self._make_pipes()
        if request.terminal is not None:
            self.resize(request.terminal)
        words = _words(control, entrance, request)
        env = {"PATH": _PATH} if entrance.words else {}
        try:
            self._process = Popen(
                words, stdin=theirs[0], stdout=theirs[1], stderr=theirs[2], cwd="/", env=env, start_new_session=True
            )
        except OSError:
            self._close()
            raise
        finally:
            for fd in set(theirs):
                os.close(fd)
        self._say(BytesTaken(0))  # the visitor may begin to speak
        self._resume()

    def _make_terminal(self) -> tuple[int, int, int]:
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        self._input = ours
        self._sources = [_Source(ours, error=False)]
        return theirs, theirs, theirs

    def _make_pipes(self) -> tuple[int, int, int]:
        (their_in, self._input), (out, their_out), (err, their_err) = (os.pipe2(os.O_CLOEXEC) for _ in range(3))
        for fd in (self._input, out, err):
            os.set_blocking(fd, False)
        self._sources = [_Source(out, error=False), _Source(err, error=True)]
        return their_in, their_out, their_err

    # ---- from the visitor

    def write(self, data: VisitData) -> None:
        """What was typed; the last of it closes a pipe."""
        self._waiting += data.data
        self._input_ends = self._input_ends or data.last
        self._feed()

    def taken(self, count: int) -> None:
        """The visitor has used up bytes."""
        self._unused = max(0, self._unused - count)
        if self._paused and self._unused < _WINDOW:
            self._resume()

    def resize(self, terminal: Terminal) -> None:
        """The visitor's window has another size."""
        if self._terminal and self._input >= 0:
            size = struct.pack("HHHH", min(terminal.rows, 9999), min(terminal.columns, 9999), 0, 0)
            fcntl.ioctl(self._input, termios.TIOCSWINSZ, size)

    def hang_up(self) -> None:
        """The visitor has left: end what he started."""
        self._signal(signal.SIGHUP)
        self._close()
        asyncio.get_running_loop().call_later(_PATIENCE_S, self._signal, signal.SIGKILL)

    # ---- to the visitor

    async def wait(self) -> int:
        """The exit status, when the program has ended and all that it printed is on its way."""
        assert self._process is not None
        while self._process.poll() is None:
            await asyncio.sleep(_LOOK_S)
        for _ in range(int(_PATIENCE_S / _LOOK_S)):
            # What it left running in the background may keep the terminal for ever; a slow visitor is waited for.
            while self._paused and any(source.open for source in self._sources):
                await asyncio.sleep(_LOOK_S)
            if not any(source.open for source in self._sources):
                break
            await asyncio.sleep(_LOOK_S)
        self._close()
        code = self._process.returncode
        return code if code >= 0 else 128 - code

    # ---- files

    def _feed(self) -> None:
        loop = asyncio.get_running_loop()
        if self._input < 0:
            return
        written = 0
        try:
            while self._waiting:
                count = os.write(self._input, self._waiting[:_PIECE])
                del self._waiting[:count]
                written += count
        except BlockingIOError:
            loop.add_writer(self._input, self._feed)
        except OSError:
            self._waiting.clear()
        if written:
            self._say(BytesTaken(written))
        if not self._waiting:
            loop.remove_writer(self._input)
            if self._input_ends and not self._terminal:
                os.close(self._input)
                self._input = -1

    def _resume(self) -> None:
        self._paused = False
        for source in self._sources:
            if source.open:
                asyncio.get_running_loop().add_reader(source.fd, self._read, source)

    def _pause(self) -> None:
        self._paused = True
        for source in self._sources:
            asyncio.get_running_loop().remove_reader(source.fd)

    def _read(self, source: _Source) -> None:
        try:
            data = os.read(source.fd, _PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a terminal whose last user left answers with an error
        if not data:
            asyncio.get_running_loop().remove_reader(source.fd)
            source.open = False
            return
        self._unused += len(data)
        self._say(VisitData(data, error=source.error))
        if self._unused >= _WINDOW:
            self._pause()

    def _close(self) -> None:
        loop = asyncio.get_running_loop()
        ours = {source.fd for source in self._sources} | {self._input}
        for fd in ours - {-1}:
            loop.remove_reader(fd)
            loop.remove_writer(fd)
            os.close(fd)
        self._input = -1
        self._sources = []

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            children.signal_group(self._process.pid, number)


def _words(control: Path, entrance: Entrance, request: OpenShell) -> list[str]:
    """The program to start: one that joins the job's namespaces, or the runtime's own way in."""
    terminal, shells = request.terminal, request.shells or _SHELLS
    if entrance.words:
        enter = entrance.terminal_words if terminal is not None else entrance.words
        if request.command:
            return [*enter, "/bin/sh", "-c", " ".join(request.command)]
        tries = " || ".join(
            f"{{ command -v {shlex.quote(name)} >/dev/null && exec {shlex.quote(name)}; }}" for name in shells
        )
        return [*enter, "/bin/sh", "-c", tries]
    return [
        *(sys.executable, "-I", "-S", str(Path(launch.__file__))),
        *(str(control / launch.SPEC), str(entrance.pid), str(int(terminal is not None))),
        *(terminal.kind if terminal is not None else "", ":".join(shells)),
        *(str(int(entrance.own_environment)), entrance.cwd),
        *request.command,
    ]
