"""Brings a pool up from outside; live daemons are kept. Taking it down: :mod:`slotwise.master.shutdown`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from slotwise.config import Config, load, persistent, require_sound, root_file
from slotwise.config.loading import named_file
from slotwise.daemon import database, disk_room, lock, process, start_progress
from slotwise.errors import ConfigError, HostError, PeerUnavailableError, UsageError
from slotwise.home import QUEUE, PoolHome, open_to_others
from slotwise.master import shutdown
from slotwise.master.forkserver import open_out
from slotwise.master.policy import START_ORDER
from slotwise.master.shutdown import await_end_of_down, await_revival
from slotwise.observe.log import log_file, open_log
from slotwise.wire import address

READY_FD = "SLOTWISE_READY_FD"
#: The longest wait for the whole pool; each daemon has its own, shorter limit.
_UP_TIMEOUT_S = 300.0
#: The longest wait for the daemons of a master that is already running.
_RUNNING_TIMEOUT_S = 60.0
#: How long a master that has lost its spawner may take to get a new one.
_NEW_SPAWNER_S = 10.0
#: How long `up` waits for the request of a joining host, in seconds; a dead name service alone takes 12 of them.
_JOIN_S = 25.0
#: With less on its disk a pool does not start, in bytes.
_ROOM = 1 << 20
#: How often `up` starts over when the master that it waits for goes away.
_ATTEMPTS = 3
_TAIL_LINES = 12
#: How often the progress of starting daemons is looked at.
_LOOK_S = 1.0


class UpResult(Struct):
    """The result of `slotwise up`. ``daemons``: name, pid, address."""

    daemons: list[tuple[str, int, str]] = field(default_factory=list)
    was_running: bool = False
    failed: list[str] = field(default_factory=list)
    error: str = ""
    #: Doubtful settings of the configuration, each with its place and remedy.
    doubts: list[str] = field(default_factory=list)
    log_tails: list[tuple[str, list[str]]] = field(default_factory=list)
    #: The configuration file of an earlier `up`, which holds if the caller named none.
    recorded: Path | None = None


def bring_up(home: PoolHome, env: Mapping[str, str], config_file: str | None, *, new_queue: bool = False) -> UpResult:
    """Start a master in the background and wait until its daemons answer; live daemons are adopted.

    :param new_queue: begin with a new job queue; the former one is set aside.
    :raises UsageError: for a new queue while there is a schedd.
    :raises ConfigError: the configuration is rejected; nothing is started.
    :raises HostError: no master can be started.
    """
    config = load(config_file, subsystem="MASTER", env=env, home=home)
    doubts = [str(problem) for problem in require_sound(config)]
    if home.run.is_dir():
        await_end_of_down(home)  # which removes a scratch directory outside the home
    home.create()
    shutdown.prepare(home)
    set_aside = _without_queue(home.with_spool(config.get("SPOOL"))) if new_queue else ""
    from slotwise.daemon.membership import prepare
    from slotwise.wire.keys import PoolSecrets

    central = prepare(PoolSecrets(home), config, config.get("FULL_HOSTNAME") or socket.gethostname())
    result = None
    for _ in range(_ATTEMPTS):
        await_end_of_down(home)
        home.create()
        await_revival(home)
        lives = lock.holder(home, "master") is not None
        if not lives:
            persistent.forget_runtime(home)
        result = _await_running(home) if lives else _start_master(home, env, config_file)
        if result is not None:
            break
    if result is None:
        raise HostError(f"the pool at {home.root} is taken down all the time", hint="what runs `slotwise down`?")
    result.doubts = doubts + (
        _other_file(home, env, config_file)
        if result.was_running
        else [*_closed_home(home), *_closed_installation(home), *_closed_file(home)]
    )
    if set_aside:
        result.doubts = [set_aside, *result.doubts]
    if named_file(env, config_file) is None and env.get("CONDOR_CONFIG") is None:
        result.recorded = root_file.recorded(home)
    if not central:
        result.doubts = _joining(home) + result.doubts
    if result.failed:
        result.log_tails = [(name, log_tail(home, name, config)) for name in result.failed]
        if full := _full_disk(home, config):
            result.error = f"{result.error}; {full}"
    else:
        result.daemons = _found(home)
    return result


def _full_disk(home: PoolHome, config: Config) -> str:
    """Which directory of the pool's is on a disk without room, and what to do: a daemon that ends for that can seldom
    write it into its log."""
    named = [Path(config.get(knob) or home.root) for knob in ("LOG", "SPOOL")]
    for directory in dict.fromkeys([home.root, home.run, *named]):
        try:
            probe = os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                disk_room.reserve(probe, _ROOM)  # what statvfs(2) calls free may be the file system's own
            finally:
                os.close(probe)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return f"{directory} has no room for daemons ({error.strerror}): make room there, then `slotwise up`"
    return ""


def _without_queue(home: PoolHome) -> str:
    """Set the job queue aside; says where it is, and nothing where there was none."""
    if lock.holder(home, "master") is not None or lock.holder(home, "schedd") is not None:
        raise UsageError("the pool runs with the queue that it has", hint="use `slotwise down` first")
    queue = home.spool / QUEUE
    if not queue.exists():
        return ""
    kept = database.set_aside(queue, f"former-{time.strftime('%Y%m%dT%H%M%S')}")
    return f"The former job queue is in {kept}; ids of its jobs will be used again"


def _joining(home: PoolHome) -> list[str]:
    """What to do for a host that has not joined its pool yet."""
    from slotwise.master.joining import JOIN_FILE
    from slotwise.wire.keys import PoolSecrets

    path, secrets = home.run / JOIN_FILE, PoolSecrets(home)
    deadline = time.monotonic() + _JOIN_S
    while time.monotonic() < deadline:
        if secrets.has_word:
            return []
        with contextlib.suppress(OSError, ValueError, KeyError):
            asked = json.loads(path.read_text())
            return [
                f"This host asks {asked['collector']} for a place in the pool: request {asked['request']}, code "
                f"{asked['code']}. An administrator there approves it with `slotwise token approve {asked['request']}`."
            ]
        time.sleep(0.1)
    return ["This host has no place in its pool yet, and its collector does not answer: see MasterLog."]


def _other_file(home: PoolHome, env: Mapping[str, str], config_file: str | None) -> list[str]:
    """A warning that the pool runs with another configuration file than the one that the caller named."""
    named = named_file(env, config_file)
    with contextlib.suppress(ConfigError):
        running = root_file.recorded(home)
        if named is not None and named != running:
            what = f"with {running}" if running else "without one"
            return [f"WARNING: the pool was brought up {what}; {named} counts after `slotwise down` and `slotwise up`"]
    return []


def _closed_file(home: PoolHome) -> list[str]:
    """A warning that users of root's pool cannot read its configuration file, without which their tools do not work."""
    with contextlib.suppress(ConfigError, OSError):
        root = root_file.recorded(home)
        if root is None or os.geteuid() != 0 or not open_to_others(home.root):
            return []
        if not root.stat().st_mode & 0o004 or not open_to_others(root.parent):
            return [f"WARNING: users other than root cannot read {root}, so that their tools refuse to work"]
    return []


def _closed_home(home: PoolHome) -> list[str]:
    """A warning that users cannot reach root's pool, as its home was made with a strict umask."""
    if os.geteuid() != 0 or open_to_others(home.root) or not open_to_others(home.root.parent):
        return []
    return [f"WARNING: users other than root cannot use this pool (`chmod 755 {home.root}` lets them)"]


def _closed_installation(home: PoolHome) -> list[str]:
    """A warning that users of root's pool cannot run its commands."""
    if os.geteuid() != 0 or not open_to_others(home.root):
        return []
    from slotwise.daemon import installation

    why = installation.doubt()
    return [f"WARNING: {why}"] if why else []


def _start_master(home: PoolHome, env: Mapping[str, str], config_file: str | None) -> UpResult | None:
    reading, writing = os.pipe()
    words = [sys.executable, "-m", "slotwise", "daemon", "master"]
    if config_file:
        words += ["--config", config_file]
    with os.fdopen(open_out(home, "master", 0), "wb") as stream:
        # Daemons write their own titles into the room of this command line (daemon.process.set_title).
        started = subprocess.Popen(
            words,
            env=dict(env) | {READY_FD: str(writing), "SLOTWISE_HOME": str(home.root)} | _import_path(env),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            pass_fds=[writing],
        )
    os.close(writing)
    try:
        message = _read_line(reading, _UP_TIMEOUT_S, home)
    finally:
        os.close(reading)
    if message is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(5)
        if lock.holder(home, "master") not in (None, started.pid):
            return _await_running(home)  # another `up` was faster
        return UpResult(failed=["master"], error="the master ended before the pool was up")
    # Not waited for: the master outlives this command.
    started.returncode = 0
    report = json.loads(message)
    if "ready" in report:
        return UpResult()
    process.wait_gone(started.pid, 60)
    return UpResult(failed=report["failed"] or ["master"], error=report["error"])


def _import_path(env: Mapping[str, str]) -> dict[str, str]:
    """Keep relative entries of PYTHONPATH valid in a process that works in another directory."""
    entries = env.get("PYTHONPATH")
    if not entries:
        return {}
    return {"PYTHONPATH": os.pathsep.join(str(Path(e).absolute()) for e in entries.split(os.pathsep) if e)}


def _read_line(descriptor: int, timeout_s: float, home: PoolHome) -> bytes | None:
    """One line from the pipe; None at its end, or when time is up, which it is not while a daemon loads."""
    deadline = time.monotonic() + timeout_s
    data = b""
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], min(_LOOK_S, max(0.0, deadline - time.monotonic())))
        if not ready and time.monotonic() < deadline:
            if start_progress.all_doing(home):
                deadline = time.monotonic() + timeout_s
            continue
        piece = os.read(descriptor, 65536) if ready else b""
        if not piece:
            return None
        data += piece
    return data


def _await_running(home: PoolHome) -> UpResult | None:
    """Wait until every daemon of a running master answers; None if that master goes away."""
    import grpc

    from slotwise.wire import channel
    from slotwise.wire.credential import UserCredential, no_token
    from slotwise.wire.gen import common_pb2, daemon_pb2_grpc

    deadline = time.monotonic() + _RUNNING_TIMEOUT_S
    waiting = {"master": "it does not answer"}
    while time.monotonic() < deadline:
        await_revival(home)
        if lock.holder(home, "master") is None:
            return None
        try:
            target = address.lookup(home, "master").local
            with channel.open_blocking(target) as opened:
                status = daemon_pb2_grpc.MasterStub(opened).Status(
                    common_pb2.Empty(), metadata=UserCredential({}, no_token).metadata(target), timeout=5
                )
        except (grpc.RpcError, PeerUnavailableError):
            time.sleep(0.1)
            continue
        waiting = {d.name: d.last_exit or d.state for d in status.daemons if d.state != "running"}
        if not waiting:
            return UpResult(was_running=True)
        if start_progress.all_doing(home):
            deadline = time.monotonic() + _RUNNING_TIMEOUT_S
        time.sleep(0.1)
    why = "; ".join(f"{name}: {text}" for name, text in waiting.items())
    return UpResult(
        was_running=True, failed=list(waiting), error=f"not every daemon of the running pool answers: {why}"
    )


def _found(home: PoolHome) -> list[tuple[str, int, str]]:
    found = []
    for name in ("master", *START_ORDER):
        with contextlib.suppress(PeerUnavailableError):
            at = address.lookup(home, name)
            found.append((name, at.pid, at.shown))
    return found


def restart_master(home: PoolHome, env: Mapping[str, str]) -> None:
    """Replace the master by a new one, which its spawner makes and which adopts the daemons; they do not notice.

    :raises PeerUnavailableError: there is no master, or no spawner that would make a new one.
    :raises ConfigError: the new one would reject the configuration.
    """
    require_sound(load(None, subsystem="MASTER", env=env, home=home))
    former = lock.holder(home, "master")
    if former is None:
        raise PeerUnavailableError(f"no master runs in the pool at {home.root}", hint="use `slotwise up`")
    deadline = time.monotonic() + _NEW_SPAWNER_S
    while lock.holder(home, "spawner") is None:  # the master replaces a spawner that it has lost
        if time.monotonic() > deadline:
            raise PeerUnavailableError("no spawner lives that would make a new master", hint="see MasterLog")
        time.sleep(0.05)
    process.send(former, signal.SIGKILL)
    process.wait_gone(former, 10)
    await_revival(home)
    result = _await_running(home)
    if result is None or result.failed:
        raise HostError(result.error if result else "the new master went away")


def replace_master(home: PoolHome, env: Mapping[str, str]) -> None:
    """Replace master and spawner by new processes of the program that is installed now; the daemons are adopted.

    :raises PeerUnavailableError: there is no master.
    :raises ConfigError: the new one would reject the configuration.
    :raises HostError: the new one does not come up.
    """
    require_sound(load(None, subsystem="MASTER", env=env, home=home))
    if lock.holder(home, "master") is None:
        raise PeerUnavailableError(f"no master runs in the pool at {home.root}", hint="use `slotwise up`")
    former = [pid for name in ("master", "spawner") if (pid := lock.holder(home, name)) is not None]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # neither makes a new one of the other, from the program that it is
        for pid in former:
            process.send(pid, number)
    for pid in former:
        process.wait_gone(pid, 10)
    result = bring_up(home, env, None)
    if result.failed:
        raise HostError(result.error)


def log_tail(home: PoolHome, daemon: str, config: Config | None = None, lines: int = _TAIL_LINES) -> list[str]:
    """The last lines of a daemon's log, then those of its standard error."""
    tail: list[str] = []
    out = home.log / f"{daemon}.out"
    for path in (log_file(home, daemon, config), out):
        with contextlib.suppress(OSError):
            with open(open_log(path), "rb") as stream:
                stream.seek(0, os.SEEK_END)
                stream.seek(max(0, stream.tell() - 16384))
                text = stream.read().decode(errors="replace")
            tail += text.splitlines()[-lines:]
        if path.is_symlink():
            more = ", which daemons do not follow: remove it" if path == out else ": look at what it leads to"
            tail.append(f"{path} is a link{more}")
    return tail
