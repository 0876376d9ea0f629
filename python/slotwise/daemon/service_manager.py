"""What a daemon that systemd started reports to it: that it runs, what it does, that it is not hung (sd_notify(3)).

``NOTIFY_SOCKET`` names the datagram socket, ``WATCHDOG_USEC`` within how long it is to hear of a daemon that is well.
Without them nothing is sent: a pool that `slotwise up` brought up has no service manager.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Mapping

from slotwise.wire import socket_path

_log = logging.getLogger(__name__)

NOTIFY_SOCKET = "NOTIFY_SOCKET"
_WATCHDOG_USEC = "WATCHDOG_USEC"
_WATCHDOG_PID = "WATCHDOG_PID"


def supervises(env: Mapping[str, str], pid: int | None = None) -> bool:
    """Whether a service manager started process ``pid`` (this one), and starts it again when it dies.

    A pool that is brought up below another service inherits that one's ``NOTIFY_SOCKET``; systemd names the process
    that it started in ``SYSTEMD_EXEC_PID``.
    """
    own = str(os.getpid() if pid is None else pid)
    return bool(env.get(NOTIFY_SOCKET)) and env.get("SYSTEMD_EXEC_PID", own) == own


def report(env: Mapping[str, str], **state: str) -> None:
    """Send variables of sd_notify(3): ``READY="1"``, ``STOPPING="1"``, ``STATUS="words for systemctl status"``.

    A service manager that does not listen is no reason to fail.
    """
    path = env.get(NOTIFY_SOCKET, "")
    if not supervises(env) or not path.startswith(("/", "@")):
        return
    message = "\n".join(f"{name}={' '.join(value.split())}" for name, value in state.items())
    try:
        name = b"\0" + os.fsencode(path[1:]) if path.startswith("@") else os.fsencode(socket_path.usable(path))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.setblocking(False)
            channel.sendto(message.encode(), name)
    except OSError as error:
        _log.warning("cannot report to the service manager at %s: %s", path, error.strerror)


def watchdog_interval_s(env: Mapping[str, str]) -> float | None:
    """How often a process with this environment reports that it is well, in seconds; None: nobody asks."""
    if env.get(_WATCHDOG_PID) not in (None, "", str(os.getpid())):
        return None
    with contextlib.suppress(ValueError):
        microseconds = int(env.get(_WATCHDOG_USEC, ""))
        if microseconds > 0:
            return microseconds / 2e6
    return None


async def keep_watchdog(env: Mapping[str, str]) -> None:
    """Report from the event loop that it is well, for as long as it is; returns at once where nobody asks."""
    interval_s = watchdog_interval_s(env)
    while interval_s is not None:
        report(env, WATCHDOG="1")
        await asyncio.sleep(interval_s)
