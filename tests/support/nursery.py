"""Starts pools from a process that has imported the daemons already.

An interpreter that has imported what a pool needs costs a third of a second of a core, each start of a pool has three,
and a whole run starts hundreds of pools. A process beside that of pytest has imported it all: each start and stop is
a fork of it that runs the command as its own interpreter would: only the start of the interpreter is left out, which
the tests of `up` itself, of upgrades and of installed packages have.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch
from slotwise.daemon import process
from slotwise.daemon.registry import DAEMONS
from slotwise.master import startup

_CHANNEL = "SLOTWISE_TESTS_NURSERY"


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


def main() -> None:
    """Serve one process of pytest until it closes its end."""
    channel = socket.socket(fileno=int(os.environ.pop(_CHANNEL)))
    for module in ("slotwise.cli.host.personal_pool", "slotwise.master.shutdown", "slotwise.daemon.runtime"):
        importlib.import_module(module)
    for module in DAEMONS.values():
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    vars(startup)["subprocess"] = Forked
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, 1 << 20, 2)
        if not data:
            return
        request = json.loads(data)
        pid = os.fork()
        if not pid:
            become(request["words"], request["env"], request["cwd"], (descriptors[0], descriptors[1]))
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(json.dumps({"pid": pid}).encode())
        _, status = os.waitpid(pid, 0)
        channel.send(json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode())


class Nursery:
    """The end of the process of pytest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
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
        self, words: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """What ``slotwise`` with ``words`` does."""
        with self._lock, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            request = {"words": list(words), "env": dict(env), "cwd": str(cwd)}
            socket.send_fds(self._channel, [json.dumps(request).encode()], [out.fileno(), errors.fileno()])
            pid = self._answer(None)["pid"]
            try:
                status = self._answer(timeout)["status"]
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._answer(None)
                raise subprocess.TimeoutExpired(["slotwise", *words], timeout) from None
            texts = []
            for stream in (out, errors):
                stream.seek(0)
                texts.append(stream.read().decode(errors="surrogateescape"))
            return subprocess.CompletedProcess(["slotwise", *words], status, *texts)

    def _answer(self, timeout: float | None) -> dict[str, int]:
        self._channel.settimeout(timeout)
        data = self._channel.recv(1 << 16)
        if not data:
            raise AssertionError(f"the nursery of pools ended with {self._process.wait()}")
        answer: dict[str, int] = json.loads(data)
        return answer


_own: list[Nursery] = []


def run(words: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """What ``slotwise`` with ``words`` does, run by the nursery of this process of pytest."""
    if not _own:
        _own.append(Nursery())
    return _own[0].run(words, env, cwd, timeout)


if __name__ == "__main__":
    main()
