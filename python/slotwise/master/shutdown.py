"""Takes a pool down from outside, with or without a live master."""

from __future__ import annotations

import shutil
import signal
import time

from slotwise.daemon import lock, pool_end, process
from slotwise.errors import HostError, SlotwiseError
from slotwise.home import PoolHome
from slotwise.master.limits import HARDER, SILENCE_S, Limits
from slotwise.master.policy import START_ORDER
from slotwise.wire import address

#: The lock of the `slotwise down` that is at work.
_DOWN = "down"
_REVIVAL_S = 15.0
_OTHER_DOWN_S = 3600.0
_FOREVER_S = 1e7
SIGNALS = {
    "peaceful": signal.SIGTERM,  # after the Shutdown call, if that cannot be made
    "graceful": signal.SIGTERM,
    "fast": signal.SIGQUIT,
    "kill": signal.SIGKILL,
}


def take_down(home: PoolHome, mode: str, limits: Limits) -> bool:
    """Stop the master and with it all daemons, then those that live without one. False if nothing ran.

    A second call in the meantime waits for the first, and then checks again.

    :raises HostError: a process cannot be stopped.
    """
    if not home.run.is_dir():
        return False
    turn = _take_turn(home)
    try:
        pool_end.announce(home)
        stopped, guard = _end_masters(home, mode, limits)
        try:
            stopped = _end_spawner(home) or stopped
            for name in reversed(START_ORDER):
                stopped = _end(name, home, mode, limits) or stopped
            _forget_scratch(home)
        finally:
            guard.release()
    finally:
        turn.release()
    return stopped


def _take_turn(home: PoolHome) -> lock.DaemonLock:
    deadline = time.monotonic() + _OTHER_DOWN_S
    while True:
        try:
            return lock.DaemonLock(home, _DOWN)
        except HostError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def prepare(home: PoolHome) -> None:
    """Make what :func:`take_down` needs on the disk, while there is room: it works on a full one."""
    lock.prepare(home, _DOWN)


def await_end_of_down(home: PoolHome) -> None:
    """Wait until no other process takes the pool down.

    :raises HostError: it takes longer than an orderly end may.
    """
    deadline = time.monotonic() + _OTHER_DOWN_S
    while (pid := lock.holder(home, _DOWN)) is not None:
        if time.monotonic() > deadline:
            raise HostError(f"process {pid} still takes the pool down", hint="wait for it, or end it")
        time.sleep(0.05)


def await_revival(home: PoolHome) -> None:
    """Whether a spawner without a master is about to fork a new one."""
    deadline = time.monotonic() + _REVIVAL_S
    while (
        (spawner := lock.holder(home, "spawner")) is not None
        and lock.holder(home, "master") is None
        and time.monotonic() < deadline
    ):
        process.send(spawner, signal.SIGCONT)
        time.sleep(0.02)


def _end_masters(home: PoolHome, mode: str, limits: Limits) -> tuple[bool, lock.DaemonLock]:
    """End the master, and any that a spawner or an `up` makes meanwhile; ends up with the master's lock.

    While this process has the lock, no new master can come up.
    """
    stopped = False
    for _ in range(10):
        await_revival(home)
        stopped = _end("master", home, mode, limits, total=len(START_ORDER) + 1) or stopped
        try:
            return stopped, lock.DaemonLock(home, "master")
        except HostError:
            continue
    raise HostError("new masters come up all the time", hint="what runs `slotwise up`?", path=str(home.run))


def _forget_scratch(home: PoolHome) -> None:
    """Remove a scratch directory outside the home, unless runs in it still wait for their access point."""
    execute = home.execute
    if execute.parent == home.root or not execute.is_dir() or any(execute.glob("dir_*")):
        return
    shutil.rmtree(execute.parent, ignore_errors=True)


def _end(name: str, home: PoolHome, mode: str, limits: Limits, *, total: int = 1) -> bool:
    """Stop the process of ``name``; ``total``: how many daemons it stops in turn before it exits."""
    pid = lock.holder(home, name)
    if pid is None:
        return False
    step: str | None = mode
    while step is not None:
        if step == "peaceful":
            _ask_peacefully(home, name)
        elif not process.send(pid, SIGNALS[step]):
            break
        process.send(pid, signal.SIGCONT)  # a suspended process cannot react
        limit_s = limits.of(step)
        if _gone(name, pid, home, _FOREVER_S if limit_s is None else limit_s * total):
            break
        step = HARDER.get(step)
    else:
        raise HostError(f"{name} (process {pid}) cannot be stopped", hint="see whether it hangs in the kernel")
    address.withdraw(home, name, pid)
    return True


def _gone(name: str, pid: int, home: PoolHome, limit_s: float) -> bool:
    """Wait until ``pid`` has exited; false if it takes too long, or no longer even answers."""
    deadline = time.monotonic() + limit_s
    heard = time.monotonic()
    while not process.wait_gone(pid, min(2.0, max(0.0, deadline - time.monotonic()))):
        now = time.monotonic()
        if _answers(name, pid, home):
            heard = now
        elif now - heard > SILENCE_S:
            process.send(pid, process.STACKS_SIGNAL)
            return process.wait_gone(pid, 0.5)
        if now >= deadline:
            return False
    return True


def _answers(name: str, pid: int, home: PoolHome) -> bool:
    import grpc

    from slotwise.wire import channel
    from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc

    try:
        at = address.lookup(home, name)
        with channel.open_blocking(at.local) as opened:
            daemon_pb2_grpc.DaemonStub(opened).Ping(daemon_pb2.PingRequest(), timeout=2)
    except (grpc.RpcError, SlotwiseError):
        return False
    return at.pid == pid


def _ask_peacefully(home: PoolHome, name: str) -> None:
    import grpc

    from slotwise.wire import channel
    from slotwise.wire.credential import UserCredential, no_token
    from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc

    try:
        target = address.lookup(home, name).local
        with channel.open_blocking(target) as opened:
            daemon_pb2_grpc.DaemonStub(opened).Shutdown(
                daemon_pb2.ShutdownRequest(mode=daemon_pb2.ShutdownRequest.PEACEFUL),
                metadata=UserCredential({}, no_token).metadata(target),
                timeout=10,
            )
    except (grpc.RpcError, SlotwiseError):
        pass  # the stop escalates when its time is up


def _end_spawner(home: PoolHome) -> bool:
    """End the spawner, and the processes it has forked that are not known as daemons yet."""
    pid = lock.holder(home, "spawner")
    if pid is None:
        return False
    process.send(pid, signal.SIGCONT)
    newborn = [child for child in process.children(pid) if not _is_daemon(home, child)]
    if not process.wait_gone(pid, 1.0):  # after a goodbye it exits by itself
        process.send(pid, signal.SIGTERM)
        if not process.wait_gone(pid, 5.0):
            process.send(pid, signal.SIGKILL)
            process.wait_gone(pid, 5.0)
    for child in newborn:
        if process.title(child).startswith("slotwise daemon") and not _is_daemon(home, child):
            process.send(child, signal.SIGKILL)
            process.wait_gone(child, 5.0)
    return True


def _is_daemon(home: PoolHome, pid: int) -> bool:
    return any(lock.holder(home, name) == pid for name in START_ORDER)
