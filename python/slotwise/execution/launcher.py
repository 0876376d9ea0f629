"""Starts keepers and communicates with them: the zygote's socket, the notice FIFO, the commands FIFO, the lock.

A keeper is forked from the **zygote**, a process with one thread that has loaded the native module and nothing else.
When the zygote dies, keepers go on and a new one is made. A second one may have loaded a program of the package: a run
of that program goes on in a fork of it, with the rights and limits of any other run, and shares its code's memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import slotwise
from slotwise import _native
from slotwise.daemon.spawn import as_started
from slotwise.errors import HostError

_log = logging.getLogger(__name__)

#: What the zygote runs: the native module and nothing of the package.
_ZYGOTE = """
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
loader = ExtensionFileLoader("_native", sys.argv[1])
spec = spec_from_file_location("_native", sys.argv[1], loader=loader)
module = module_from_spec(spec)
loader.exec_module(module)
module.keeper_zygote(int(sys.argv[2]))
"""

#: What a warm zygote runs: a function of the package, with the descriptor.
_WARM = """
import sys
from importlib import import_module
sys.path.insert(0, sys.argv[1])
module, function = sys.argv[2].split(":")
getattr(import_module(module), function)(int(sys.argv[-1]))
"""
#: Bytes in which a fork shows its command line, and its environment.
_SHOWN = 8192
#: A warm zygote that has forked nothing for so long ends.
_IDLE_S = 600.0

Notice = Callable[[str, str], None]


class _Zygote:
    """A zygote: its process, its socket, and those who wait for its answers. ``words``: what it is started with, before
    the number of its descriptor; ``environment``: what it has beside PATH."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._words = words
        self._environment = {"PATH": "/usr/bin:/bin", **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._backlog: deque[bytes] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether an answer of it is due."""
        return bool(self._waiting)

    def make(self) -> None:
        """Start it, unless it is there."""
        if self._socket is not None:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._process = subprocess.Popen(
            [*as_started(), *self._words, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            cwd="/",
            env=self._environment,
        )
        theirs.close()
        self._socket = ours
        asyncio.get_running_loop().add_reader(ours.fileno(), self._read_answers)

    def fork(self, control: Path) -> asyncio.Future[int]:
        """Have it fork a keeper."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.make()
        self._waiting.append(answer)
        self._backlog.append(os.fsencode(control))
        self._send()
        return answer

    def drop(self) -> None:
        """End it; keepers go on."""
        if self._socket is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket.fileno())
            loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._process is not None:
            # It ends by itself when its socket closes.
            try:
                self._process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _send(self) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        while self._backlog:
            try:
                self._socket.send(self._backlog[0])
            except BlockingIOError:
                loop.add_writer(self._socket.fileno(), self._send)
                return
            except OSError:
                return  # the reader sees the end of the zygote and deals with it
            self._backlog.popleft()
        loop.remove_writer(self._socket.fileno())

    def _read_answers(self) -> None:
        while self._socket is not None:
            try:
                packet = self._socket.recv(64)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._ended()
                return
            answer = self._waiting.popleft()
            pid = int(packet)
            if answer.done():
                continue
            if pid:
                answer.set_result(pid)
            else:
                answer.set_exception(HostError("the host cannot make another process", errno=errno.EAGAIN))

    def _ended(self) -> None:
        _log.warning("the zygote exited; the next job starts a new one")
        self.drop()
        self._backlog.clear()
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(HostError("the process that forks keepers has ended"))


class Launcher:
    """Forks keepers, and passes on their notices: ``on_notice(run directory name, text)``.

    :param loaded: ``module:function`` of what a second, *warm* zygote has loaded, for the specs that are ``warm``. It
        is started for the first of them and ends when there was none for a while; their jobs share its memory.
    """

    def __init__(self, notices: Path, on_notice: Notice, loaded: str = "") -> None:
        self._notices = notices
        self._on_notice = on_notice
        self._fifo = -1
        self._rest = b""
        self._zygote = _Zygote([sys.executable, "-I", "-S", "-c", _ZYGOTE, str(_native.__file__)])
        self._warm: _Zygote | None = None
        if loaded:
            package = str(Path(slotwise.__file__).parent.parent)
            # Room for the command line and the environment that its forks show.
            room = " " * _SHOWN
            words = [sys.executable, "-X", "utf8", "-I", "-c", _WARM, package, loaded, room]
            self._warm = _Zygote(words, {"ROOM": room})
        self._idle: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Make the notice FIFO and the zygote."""
        with contextlib.suppress(FileExistsError):
            os.mkfifo(self._notices, 0o600)
        # Open both ways: it then never reads as ended when the last keeper closes it.
        self._fifo = os.open(self._notices, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        asyncio.get_running_loop().add_reader(self._fifo, self._read_notices)
        self._zygote.make()

    async def stop(self) -> None:
        """End the zygotes; keepers go on."""
        loop = asyncio.get_running_loop()
        if self._fifo >= 0:
            loop.remove_reader(self._fifo)
            os.close(self._fifo)
            self._fifo = -1
        self._zygote.drop()
        if self._idle is not None:
            self._idle.cancel()
        if self._warm is not None:
            self._warm.drop()

    def spawn(self, control: Path, *, warm: bool = False) -> asyncio.Future[int]:
        """Fork a keeper for ``control``; the answer is its process id. ``warm``: as its spec is.

        :raises HostError: (from the future) when the host cannot make a process.
        """
        if not warm or self._warm is None:
            return self._zygote.fork(control)
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(_IDLE_S, self._cool)
        return self._warm.fork(control)

    def _cool(self) -> None:
        assert self._warm is not None
        if not self._warm.is_busy:
            self._warm.drop()

    def _read_notices(self) -> None:
        try:
            data = os.read(self._fifo, 65536)
        except BlockingIOError:
            return
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            name, _, what = line.decode(errors="replace").partition(" ")
            self._on_notice(name, what)


def command(control: Path, text: str) -> bool:
    """Give the keeper of ``control`` a command; False when no keeper listens."""
    try:
        fifo = os.open(control / "commands", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.write(fifo, f"{text}\n".encode()) > 0
    except OSError:
        return False
    finally:
        os.close(fifo)


def holder(control: Path) -> int | None:
    """Process id of the keeper that lives for ``control``; None when none does."""
    found: int | None = _native.keeper_holder(control)
    return found


def sweep(control: Path, patience_s: float = 5.0) -> tuple[str, list[str]]:
    """What became of the run, ending its family if its keeper is dead; see crate ``keeper``. Blocks."""
    found: tuple[str, list[str]] = _native.keeper_sweep(control, patience_s)
    return found


#: A directory (content None) or file: path, mode, owner (user, group) or None, content.
Entry = tuple[str, int, tuple[int, int] | None, bytes | None]


def write_files(entries: list[Entry]) -> None:
    """Make directories and files in order, in one call of native code.

    :raises OSError: the first that the file system refuses, with its name.
    """
    _native.keeper_lay_out(entries)


def remove_tree(path: Path) -> list[str]:
    """Remove a tree; returns what could not be removed, in words. Blocks, without the interpreter lock."""
    problems: list[str] = _native.keeper_remove_tree(path)
    return problems


def measure_tree(path: Path) -> tuple[int, int]:
    """KiB taken by a tree of any depth, and its files; what vanishes meanwhile is skipped. Blocks, without the lock."""
    blocks, files = _native.keeper_measure_tree(path)
    return (blocks + 1) // 2, files


def clear_group(version: int, group: Path, patience_s: float = 5.0) -> bool:
    """End all processes of a cgroup and remove it; True when it is gone. Blocks."""
    gone: bool = _native.keeper_clear_group(version, group, patience_s)
    return gone
