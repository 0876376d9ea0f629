"""Starts pools, and commands, from a process that has imported the daemons already.

An interpreter that has imported what a pool needs costs a third of a second of a core, each start of a pool has three,
and a whole run starts hundreds of pools. A process beside that of pytest has imported it all: each start and stop is
a fork of it that runs the command as its own interpreter would, and so is each command that a pool's command server
leaves to a process of its own. Only the start of the interpreter is left out, which the tests of `up` itself, of
upgrades and of installed packages have.
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

    def run(
        self, words: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float, place: Place | None
    ) -> subprocess.CompletedProcess[str]:
        """What ``slotwise`` with ``words`` does."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with mine, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            request = {"words": list(words), "env": dict(env), "cwd": str(cwd), "place": place and asdict(place)}
            with theirs:
                descriptors = [out.fileno(), errors.fileno(), theirs.fileno()]
                socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
            pid = self._answer(mine, None)["pid"]
            try:
                status = self._answer(mine, timeout)["status"]
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._answer(mine, None)
                raise subprocess.TimeoutExpired(["slotwise", *words], timeout) from None
            texts = []
            for stream in (out, errors):
                stream.seek(0)
                texts.append(stream.read().decode(errors="surrogateescape"))
            return subprocess.CompletedProcess(["slotwise", *words], status, *texts)

    def _answer(self, channel: socket.socket, timeout: float | None) -> dict[str, int]:
        channel.settimeout(timeout)
        data = channel.recv(1 << 16)
        if not data:
            raise AssertionError(f"the nursery of pools ended with {self._process.wait()}")
        answer: dict[str, int] = json.loads(data)
        return answer


_own: list[Nursery] = []
_lock = threading.Lock()


def run(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float, place: Place | None = None
) -> subprocess.CompletedProcess[str]:
    """What ``slotwise`` with ``words`` does, on a host where one is named, in the nursery of this pytest."""
    with _lock:
        if not _own:
            _own.append(Nursery())
    return _own[0].run(words, env, cwd, timeout, place)


if __name__ == "__main__":
    main()
