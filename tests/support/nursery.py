"""Starts pools, single daemons and commands from a process that has imported the daemons already.

An interpreter that has imported what a pool needs costs a third of a second of a core and more, each start of a pool
has three, and a whole run starts hundreds of pools and of single starters. A process beside that of pytest has imported
it all: each start and stop is a fork of it that runs the command as its own interpreter would, and so is each command
that a pool's command server leaves to a process of its own, and each starter without a pool. Only the start of the
interpreter is left out, which the tests of `up` itself, of upgrades and of installed packages have.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import asdict
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch
from slotwise.daemon import process
from slotwise.daemon.registry import DAEMONS
from slotwise.master import startup

_CHANNEL = "SLOTWISE_TESTS_NURSERY"
#: Of the commands that a pool's command server does not serve, those that tests ask most.
_COMMANDS = (
    "slotwise.cli.host.personal_pool", "slotwise.cli.host.config", "slotwise.cli.host.token", "slotwise.cli.jobs.wait",
    "slotwise.cli.pool.negotiator", "slotwise.cli.pool.ping",
)  # fmt: skip
_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWNET = 0x20000, 0x4000000, 0x40000000
_MS_BIND, _MS_REC, _MS_SLAVE, _MNT_DETACH = 0x1000, 0x4000, 0x80000, 2
_libc = ctypes.CDLL(None, use_errno=True)


class Forked:
    """Stands in for :class:`subprocess.Popen` where our own interpreter would be started: the same by a fork."""

    TimeoutExpired = subprocess.TimeoutExpired
    DEVNULL = subprocess.DEVNULL

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdin: int,
        stdout: Any,
        stderr: Any,
        start_new_session: bool,
        pass_fds: Sequence[int],
    ) -> None:
        assert list(words[1:3]) == ["-m", "slotwise"] and stdin == subprocess.DEVNULL and start_new_session
        self.args = words
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            os.setsid()
            process.set_title(f"slotwise {' '.join(words[3:5])}")
            become(words[3:], env, cwd, (stdout.fileno(), stderr.fileno()), pass_fds)

    #: What a module calls that has imported ``subprocess``.
    @classmethod
    def Popen(cls, *args: Any, **options: Any) -> Forked:
        """Start it."""
        return cls(*args, **options)

    def wait(self, timeout: float) -> int:
        """Its exit status."""
        if not process.wait_gone(self.pid, timeout):
            raise subprocess.TimeoutExpired(self.args, timeout)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def become(
    words: Sequence[str], env: Mapping[str, str], cwd: str, outputs: tuple[int, int], keep: Sequence[int] = ()
) -> None:
    """Run ``slotwise`` with ``words`` as the rest of this process, which was forked for it."""
    status = 70
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, own in ((nothing, 0), (outputs[0], 1), (outputs[1], 2)):
            os.dup2(descriptor, own)
        low = 3
        for kept in [*sorted(keep), os.sysconf("SC_OPEN_MAX")]:
            os.closerange(low, kept)
            low = kept + 1
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["slotwise", *words]
        status = dispatch(list(words), Invocation.of_process())
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        process.leave(status)


class Place(Struct, frozen=True):
    """A host that is a network namespace.

    :param namespace: its name for ``ip netns``.
    :param hosts: what is /etc/hosts there.
    :param hostname: what it calls itself.
    """

    namespace: str
    hosts: str
    hostname: str

    def enter(self) -> None:
        """Be there from now on, as after ``ip netns exec``, with the host's own /etc/hosts and name."""
        with open(f"/run/netns/{self.namespace}", "rb") as namespace:
            _must(_libc.setns(namespace.fileno(), _CLONE_NEWNET))
        _must(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWUTS))
        _must(_libc.mount(b"", b"/", None, _MS_SLAVE | _MS_REC, None))
        _must(_libc.umount2(b"/sys", _MNT_DETACH))
        _must(_libc.mount(self.namespace.encode(), b"/sys", b"sysfs", 0, None))
        _must(_libc.mount(self.hosts.encode(), b"/etc/hosts", None, _MS_BIND, None))
        socket.sethostname(self.hostname)


def _must(answer: int) -> None:
    if answer:
        raise OSError(ctypes.get_errno(), "cannot enter a network namespace")


def main() -> None:
    """Serve one process of pytest until it closes its end."""
    channel = socket.socket(fileno=int(os.environ.pop(_CHANNEL)))
    for module in (*_COMMANDS, "slotwise.master.shutdown", "slotwise.daemon.runtime", *DAEMONS.values()):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    vars(startup)["subprocess"] = Forked
    with selectors.DefaultSelector() as ready:
        ready.register(channel, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is not channel:
                    ready.unregister(key.fileobj)
                    _tell_end(*key.data)
                elif (born := _bear(channel)) is None:
                    return
                else:
                    ready.register(born[1], selectors.EVENT_READ, born)


def _bear(channel: socket.socket) -> tuple[int, int, socket.socket] | None:
    """Start what the next call wants: its pid, a descriptor of the process and where its end is told; None: no more."""
    data, descriptors, _, _ = socket.recv_fds(channel, 1 << 20, 3)
    if not data:
        return None
    out, errors, answers = descriptors
    request = json.loads(data)
    pid = os.fork()
    if not pid:
        if request["place"]:
            convert(request["place"], Place).enter()
        for group in request["groups"]:
            (Path(group) / "cgroup.procs").write_text("0")
        if request["words"][0] == "daemon":
            process.set_title(f"slotwise daemon {request['words'][1]}")
        become(request["words"], request["env"], request["cwd"], (out, errors))
    os.close(out)
    os.close(errors)
    caller = socket.socket(fileno=answers)
    caller.send(json.dumps({"pid": pid}).encode())
    return pid, os.pidfd_open(pid), caller


def _tell_end(pid: int, handle: int, caller: socket.socket) -> None:
    os.close(handle)
    _, status = os.waitpid(pid, 0)
    with caller, contextlib.suppress(OSError):
        caller.send(json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode())


class Nursery:
    """The end of the process of pytest; its threads may call at the same time."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        quiet = subprocess.DEVNULL
        with theirs:
            self._process = subprocess.Popen(
                # Daemons write their titles over the words of this command.
                [sys.executable, "-m", "tests.support.nursery", "--room-for-the-title-of-a-daemon"],
                env=dict(os.environ) | {_CHANNEL: str(theirs.fileno())},
                cwd=Path(__file__).parents[2],
                pass_fds=[theirs.fileno()],
                stdin=quiet,
                stdout=quiet,
            )

    def begin(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        outputs: tuple[int, int],
        place: Place | None = None,
        groups: Sequence[Path] = (),
    ) -> Born:
        """A process that does ``slotwise`` with ``words``.

        :param outputs: descriptors of its standard output and error.
        :param groups: cgroups that it begins in.
        """
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {
            "words": list(words),
            "env": dict(env),
            "cwd": str(cwd),
            "place": place and asdict(place),
            "groups": [str(group) for group in groups],
        }
        with theirs:
            socket.send_fds(self._channel, [json.dumps(request).encode()], [*outputs, theirs.fileno()])
        return Born(words, mine)

    def run(
        self, words: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float, place: Place | None
    ) -> subprocess.CompletedProcess[str]:
        """What ``slotwise`` with ``words`` does."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            born = self.begin(words, env, cwd, (out.fileno(), errors.fileno()), place)
            try:
                status = born.wait(timeout)
            except subprocess.TimeoutExpired:
                born.kill()
                born.wait()
                raise
            texts = []
            for stream in (out, errors):
                stream.seek(0)
                texts.append(stream.read().decode(errors="surrogateescape"))
            return subprocess.CompletedProcess(["slotwise", *words], status, *texts)


class Born:
    """A process that a nursery has begun, with what :class:`subprocess.Popen` has; several threads may ask."""

    def __init__(self, words: Sequence[str], channel: socket.socket) -> None:
        self.args = ["slotwise", *words]
        self.returncode: int | None = None
        self._channel = channel
        self._turn = threading.Lock()
        self.pid = self._told(channel.recv(1 << 16))["pid"]

    def _told(self, data: bytes) -> dict[str, int]:
        if not data:
            raise AssertionError("the nursery of pools has ended")
        answer: dict[str, int] = json.loads(data)
        return answer

    def poll(self) -> int | None:
        """Its exit status, once it has ended."""
        with self._turn:
            if self.returncode is None:
                with contextlib.suppress(BlockingIOError):
                    self.returncode = self._told(self._channel.recv(1 << 16, socket.MSG_DONTWAIT))["status"]
                    self._channel.close()
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status.

        :raises subprocess.TimeoutExpired: it goes on for longer than this.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            # Closed by another thread, it has told the end.
            with contextlib.suppress(ValueError), selectors.DefaultSelector() as ready:
                ready.register(self._channel, selectors.EVENT_READ)
                ready.select(left_s)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


_own: list[Nursery] = []
_lock = threading.Lock()


def _nursery() -> Nursery:
    with _lock:
        if not _own:
            _own.append(Nursery())
    return _own[0]


def run(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float, place: Place | None = None
) -> subprocess.CompletedProcess[str]:
    """What ``slotwise`` with ``words`` does, on a host where one is named, in the nursery of this pytest."""
    return _nursery().run(words, env, cwd, timeout, place)


def begin(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, outputs: tuple[int, int], groups: Sequence[Path] = ()
) -> Born:
    """A process of the nursery of this pytest that does ``slotwise`` with ``words``, see :meth:`Nursery.begin`."""
    return _nursery().begin(words, env, cwd, outputs, groups=groups)


if __name__ == "__main__":
    main()
