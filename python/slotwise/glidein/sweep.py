"""Ends what is left of the processes below this one. See :func:`slotwise.daemon.process.adopt_orphans`."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from slotwise.daemon import lock, process
from slotwise.errors import DeniedError
from slotwise.home import PoolHome

#: How long daemons that have lost their guard may take to end jobs and take their ads back.
_FAST_S = 30.0


def descendants(pid: int) -> list[int]:
    """All processes below ``pid`` now."""
    found, waiting = [], process.children(pid)
    while waiting:
        child = waiting.pop()
        found.append(child)
        waiting += process.children(child)
    return found


def kill_descendants(patience_s: float = 10.0) -> None:
    """Kill all processes below this one until there are none; those that cannot be killed are left."""
    deadline = time.monotonic() + patience_s
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(DeniedError):
                process.send(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)


def end_daemons(home: PoolHome) -> None:
    """Have the daemons of a home end fast, in place of the guard: they take their ads back, so that none lingers."""
    master = lock.holder(home, "master")
    if master is not None:
        process.send(master, signal.SIGQUIT)
        process.wait_gone(master, _FAST_S)
