"""One process per daemon and pool: the lock that a daemon holds for as long as it lives, and who holds it.

POSIX record locks, because they belong to the process: a forked child (a keeper, a job) does not inherit them, the
kernel drops them at death however it comes, and anybody who may read the file can ask for the holder's pid. So the
holder is the truth about "which process is the schedd of this pool"; pids in files are only hints, and missing where
the disk was full.

A process must not open its own lock file a second time: closing any descriptor of it would drop the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from slotwise import record_lock
from slotwise.daemon.privileges import root_files
from slotwise.errors import HostError
from slotwise.home import PoolHome


def lock_file(home: PoolHome, daemon: str) -> Path:
    """The lock file of ``daemon``."""
    return home.run / f"{daemon}.lock"


def holder(home: PoolHome, daemon: str) -> int | None:
    """The pid of the process that is ``daemon`` in this pool, or None when none lives."""
    try:
        with root_files():
            descriptor = os.open(lock_file(home, daemon), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return record_lock.holder(descriptor)
    finally:
        os.close(descriptor)


def prepare(home: PoolHome, daemon: str) -> None:
    """Make the lock file of ``daemon`` if it is missing: who takes it later then needs no space for it."""
    with root_files(), contextlib.suppress(OSError):
        os.close(os.open(lock_file(home, daemon), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


class DaemonLock:
    """The held lock; kept until :meth:`release` or the end of the process."""

    def __init__(self, home: PoolHome, daemon: str) -> None:
        """Take the lock.

        :raises HostError: when another process holds it.
        """
        path = lock_file(home, daemon)
        with root_files():
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise HostError(f"another {daemon} runs in the pool at {home.root}", path=str(path)) from None
        with contextlib.suppress(OSError):  # the lock is what counts: one can be taken on a full disk, too
            os.truncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let go of the lock; harmless when done twice."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1
