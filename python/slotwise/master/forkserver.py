"""The spawner: a small process that has imported what daemons need, and forks them.

A fork costs milliseconds where an interpreter with gRPC costs a tenth of a second and some 40 MB of private memory; and
gRPC must not be forked once it runs, so the process that forks is not the master itself. Requests and reports are JSON
datagrams on a socket pair:

=====================  ==================================================
master to spawner      ``{"hello": true}``, ``{"start": name, "environment": {...}}``, ``{"bye": true}``
spawner to master      ``{"started": name, "pid": n}``, ``{"exited": pid, "status": wait status}``
=====================  ==================================================

When a master that said hello dies without a goodbye, the spawner forks a new one, which adopts the live daemons.
A master that never said hello could not start, and another try would end the same way. Under a service manager the
spawner waits first: systemd restarts the master that it knows, and two masters would be in each other's way.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import json
import os
import select
import signal
import socket
import stat
import sys
import time
import traceback
from collections.abc import Mapping
from types import MappingProxyType

from slotwise.config import home_of
from slotwise.daemon import lock, process, service_manager
from slotwise.daemon.registry import DAEMONS
from slotwise.errors import HostError, SlotwiseError
from slotwise.home import PoolHome
from slotwise.master.policy import START_ORDER

#: Environment variables of a single start, which must not reach the daemons.
READY_FD = "SLOTWISE_READY_FD"
SPAWNER_FD = "SLOTWISE_SPAWNER_FD"
#: Bytes that a request may have, and are received at once.
LONGEST_REQUEST = 65536
_LARGEST_OUT = 1_000_000
_MASTER_RESTART_S = (0.0, 0.5, 2.0, 10.0)
#: How long a service manager may take to start a new master, on a busy host, until the spawner makes one. It may be
#: unable to: with cgroup version 2 systemd cannot start a process in a unit whose cgroup has jobs' cgroups below it.
_SERVICE_MANAGER_S = 90.0


def fork_spawner(env: Mapping[str, str], config_file: str | None) -> tuple[socket.socket, int]:
    """Fork the spawner from this process, which must not have used gRPC yet; returns the master's end and its pid."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    gc.collect()
    gc.freeze()  # shared pages stay shared: the garbage collector does not write into them
    sys.stdout.flush()
    sys.stderr.flush()
    supervised = service_manager.supervises(env)  # asked in the process that the service manager started
    pid = os.fork()
    if pid:
        theirs.close()
        return ours, pid
    ours.close()
    _preload()
    _leave(_run_spawner, theirs, dict(env), config_file, not supervised)
    raise AssertionError("not reached")


def _preload() -> None:
    """Import what the daemons will import, so that forked daemons share those pages."""
    importlib.import_module("slotwise.daemon.runtime")
    for name in START_ORDER:
        with contextlib.suppress(Exception):  # a daemon that cannot be imported says so in its own log when started
            importlib.import_module(DAEMONS[name])
    gc.collect()
    gc.freeze()


def _leave(function: object, *args: object) -> None:
    """Run ``function`` as the whole of this forked process, and exit without the parent's exit handlers."""
    code = 70
    try:
        code = function(*args)  # type: ignore[operator]
    except SlotwiseError as error:
        code = 1
        sys.stderr.write(f"ERROR: {error}\n")
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        process.leave(code)


def _run_spawner(channel: socket.socket, env: dict[str, str], config_file: str | None, revives: bool) -> int:
    home = home_of(env)
    for name in (READY_FD, SPAWNER_FD):
        descriptor = env.pop(name, None)
        if name == READY_FD and descriptor:
            os.close(int(descriptor))
    env.pop(service_manager.NOTIFY_SOCKET, None)
    os.setsid()
    process.set_title("slotwise daemon spawner")
    home.create()
    held = lock.DaemonLock(home, "spawner")
    process.adopt_orphans()
    try:
        return Spawner(home, env, config_file, channel, revives=revives).run()
    finally:
        held.release()


class Spawner:
    """The loop of the spawner process."""

    def __init__(
        self,
        home: PoolHome,
        env: dict[str, str],
        config_file: str | None,
        channel: socket.socket,
        *,
        revives: bool = True,
    ) -> None:
        self._home = home
        self._revives = revives
        self._env = env
        self._config_file = config_file
        self._channel: socket.socket | None = channel
        self._master: int | None = None
        self._master_deaths = 0
        self._said_hello = False
        self._said_goodbye = False

    def run(self) -> int:
        """Serve the master until it says goodbye."""
        wake_read, wake_write = os.pipe()
        for descriptor in (wake_read, wake_write):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._wake = (wake_read, wake_write)
        while not self._said_goodbye:
            if self._channel is None and not self._revive_master():
                return 0
            assert self._channel is not None
            watched: list[socket.socket | int] = [self._channel, wake_read]
            ready, _, _ = select.select(watched, [], [])
            if wake_read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake_read, 4096)
            self._reap()
            if self._channel in ready:
                self._take_request()
        return 0

    def _take_request(self) -> None:
        assert self._channel is not None
        try:
            data = self._channel.recv(LONGEST_REQUEST)
        except OSError:
            data = b""
        if not data:
            self._channel.close()
            self._channel = None
            return
        request = json.loads(data)
        self._said_hello = self._said_hello or bool(request.get("hello"))
        if request.get("bye"):
            self._said_goodbye = True
        elif name := request.get("start"):
            own = {str(key): str(value) for key, value in request.get("environment", {}).items()}
            self._report({"started": name, "pid": self._fork_daemon(str(name), own=own)})

    def _report(self, message: dict[str, object]) -> None:
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.send(json.dumps(message).encode())

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._master:
                self._master = None
            else:
                self._report({"exited": pid, "status": status})

    def _fork_daemon(
        self, name: str, channel: socket.socket | None = None, *, own: Mapping[str, str] = MappingProxyType({})
    ) -> int:
        pid = os.fork()
        if pid == 0:
            if self._channel is not None:
                self._channel.close()
            for descriptor in self._wake:
                os.close(descriptor)
            os.environ.update(own)  # what libraries read, such as TZ
            _leave(_become, name, self._home, {**self._env, **own}, self._config_file, channel)
        return pid

    def _revive_master(self) -> bool:
        """Fork a master in place of one that died; false if a service manager does."""
        if not self._revives and self._has_new_master():
            return False
        if self._master is not None:  # it closed its channel but is still exiting
            process.wait_gone(self._master, 30)
            self._reap()
        time.sleep(_MASTER_RESTART_S[min(self._master_deaths, len(_MASTER_RESTART_S) - 1)])
        self._master_deaths += 1
        if not self._said_hello or lock.holder(self._home, "master") is not None:
            return False
        self._said_hello = False
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = ours
        self._master = self._fork_daemon("master", theirs)
        theirs.close()
        return True

    def _has_new_master(self) -> bool:
        """Whether the service manager starts a new master in time."""
        deadline = time.monotonic() + _SERVICE_MANAGER_S
        while time.monotonic() < deadline:
            if lock.holder(self._home, "master") is not None:
                return True
            time.sleep(0.2)
        return False


def _become(
    name: str,
    home: PoolHome,
    env: dict[str, str],
    config_file: str | None,
    channel: socket.socket | None,
) -> int:
    """Turn this freshly forked process into daemon ``name``."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)
    os.setsid()
    own = dict(env)
    if channel is not None:
        own[SPAWNER_FD] = str(channel.detach())
    detach_streams(home, name)
    process.set_title(f"slotwise daemon {name}")
    from slotwise.daemon import runtime

    return runtime.main(name, own, config_file)


def detach_streams(home: PoolHome, name: str) -> None:
    """Connect standard input to nothing, output and errors to ``log/<name>.out``, for tracebacks of early failures."""
    null = os.open(os.devnull, os.O_RDONLY)
    out = open_out(home, name)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    for descriptor in (null, out):
        if descriptor > 2:
            os.close(descriptor)


def open_out(home: PoolHome, name: str, flags: int = os.O_APPEND) -> int:
    """Open ``log/<name>.out``; the directory may be another account's, whose links are not followed.

    :raises HostError: when it is not a plain file of one name, or cannot be made.
    """
    path = home.log / f"{name}.out"
    with contextlib.suppress(OSError):
        if path.lstat().st_size > _LARGEST_OUT:
            path.unlink()
    try:
        out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, 0o644)
    except OSError as error:
        odd = error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR)
        why = "it is not a plain file" if odd else str(error.strerror)
        hint = "remove it" if odd else f"let this account write to {path.parent}"
        raise HostError(f"cannot write {path}: {why}", hint=hint, path=str(path), errno=error.errno or 0) from None
    about = os.fstat(out)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
        os.close(out)
        raise HostError(f"cannot write {path}: it is not a plain file", hint="remove it", path=str(path))
    above = path.parent.lstat()
    if os.geteuid() == 0 and about.st_uid == 0 and above.st_uid != 0:  # a startd may write into that of its starter
        os.fchown(out, above.st_uid, above.st_gid)
    if flags & os.O_APPEND == 0:
        os.ftruncate(out, 0)
    return out


def main() -> int:
    """``python -m slotwise.master.forkserver``: a new spawner for a master that lost its own."""
    env = dict(os.environ)
    channel = socket.socket(fileno=int(env[SPAWNER_FD]))
    _preload()
    try:
        supervised = service_manager.supervises(env, os.getppid())  # the master is the parent
        return _run_spawner(channel, env, env.pop("SLOTWISE_CONFIG_FILE", None), not supervised)
    except HostError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
