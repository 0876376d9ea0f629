"""Watching processes that need not be children, and naming one's own: the edge to the kernel's process table."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from slotwise.errors import DeniedError

#: A daemon that gets this writes the stacks of its threads to its standard error (``log/<daemon>.out``) and goes on.
STACKS_SIGNAL = signal.SIGUSR2
_PR_SET_CHILD_SUBREAPER = 36


def alive(pid: int) -> bool:
    """Whether ``pid`` is a process that has not ended (a zombie has)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def cpu_ticks(pid: int) -> int:
    """What processor time a process has used, in clock ticks; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return 0


def age_s(pid: int) -> float:
    """Seconds since the process began; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK"))


def open_pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when ``pid`` ends, whoever its parent is; None when it is gone already.

    :raises OSError: on kernels without pidfds.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; False when the process is gone.

    :raises DeniedError: when the process belongs to somebody else.
    """
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        raise DeniedError(f"process {pid} belongs to another user", hint="ask as the owner of the pool") from None
    return True


def wait_gone(pid: int, timeout_s: float) -> bool:
    """Wait until ``pid`` has ended; False when it still lives after ``timeout_s``."""
    try:
        descriptor = open_pidfd(pid)
    except OSError:
        return _poll_gone(pid, timeout_s)
    if descriptor is None:
        return True
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return bool(poller.poll(max(0, int(timeout_s * 1000)))) or not alive(pid)
    finally:
        os.close(descriptor)


def _poll_gone(pid: int, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while alive(pid):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


def leave(status: int) -> NoReturn:
    """End this process at once with ``status``, once its output is written.

    Python's own end is left out: it waits for gRPC's threads, some of which do not return after a cancelled call, and
    runs the exit handlers of whatever forked this process.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status)


def describe_exit(wait_status: int) -> str:
    """How a process ended, for people: ``exit status 1``, ``signal SIGKILL``."""
    code = os.waitstatus_to_exitcode(wait_status)
    if code >= 0:
        return f"exit status {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"


def children(pid: int) -> list[int]:
    """The children of ``pid`` now."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def adopt_orphans() -> None:
    """Become the parent of all processes below this one that lose theirs (PR_SET_CHILD_SUBREAPER)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def title(pid: int) -> str:
    """The command line of ``pid`` as :func:`set_title` leaves it; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def set_title(title: str) -> None:
    """Show ``title`` as this process's command line, as far as the original one leaves room.

    The kernel reads the command line from the process's own memory, so it is written there; it has no other interface
    for this without privileges.
    """
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, ValueError, IndexError):
        Path("/proc/self/comm").write_text(title.rpartition(" ")[2][:15])
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        room = end - start
        text = title.replace(" ", "\0").encode()[: room - 1]
        ctypes.memmove(start, text.ljust(room, b"\0"), room)
