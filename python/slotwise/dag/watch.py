"""Waits of the runner: for entries in the nodes log, files beside the DAG, ends of scripts, signals and the clock."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
from pathlib import Path
from types import FrameType

_IN_MODIFY, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x80, 0x100
_IN_NONBLOCK, _IN_CLOEXEC = 0o4000, 0o2000000


class Watch:
    """One for a process: it takes over its signals. By inotify, so that what the schedd writes is read at once; where
    that says nothing, as for files of other hosts, :meth:`wait` returns by its clock.

    :ivar signals: those that came, in their order; the caller takes them out.
    """

    def __init__(self) -> None:
        self.signals: list[int] = []
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup = reading
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            signal.signal(number, self._came)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._inotify: int = self._libc.inotify_init1(_IN_CLOEXEC | _IN_NONBLOCK)

    def _came(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self.signals.append(number)

    def follow(self, file: Path) -> None:
        """Wake up when a file is written to."""
        self._add(file, _IN_MODIFY)

    def look_into(self, directory: Path) -> None:
        """Wake up when a file appears in a directory."""
        self._add(directory, _IN_CREATE | _IN_MOVED_TO)

    def _add(self, path: Path, mask: int) -> None:
        if self._inotify >= 0:
            self._libc.inotify_add_watch(self._inotify, os.fsencode(path), mask)

    def wait(self, longest_s: float) -> None:
        """Until something has happened since the last call, or the time is over."""
        fds = [self._wakeup] + ([self._inotify] if self._inotify >= 0 else [])
        ready = select.select(fds, [], [], max(0.0, longest_s))[0]
        for fd in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(fd, 65536):
                    pass


__all__ = ["Watch"]
