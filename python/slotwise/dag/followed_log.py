"""The nodes log on disk: read as it grows, and the runner's own entries appended to it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from slotwise.backoff import Backoff
from slotwise.client import EventLog
from slotwise.dag.debug_log import DebugLog
from slotwise.dag.node_log import NodeLog, Told
from slotwise.errors import HostError, SlotwiseError

#: Pauses before entries are written once more that a full disk did not take.
_AGAIN = Backoff(first_s=0.2, factor=2.0, most_s=5.0)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class FollowedLog:
    """The log at ``path``, from its beginning; ``anew``: what was there is gone. While the disk is full, entries wait;
    what they tell of has not happened before they are written.

    :raises HostError: it cannot be written or read.
    """

    def __init__(self, path: Path, entries: NodeLog, log: DebugLog, *, anew: bool) -> None:
        self.path, self.entries, self._log = path, entries, log
        try:
            with path.open("wb" if anew else "a+b") as file:
                # A runner that was killed while the disk was full may have left a part of an entry: what follows is no
                # part of it.
                self._left = b"" if anew or _is_whole(file) else b"\n...\n"
            self._file = EventLog(path)
        except OSError as error:
            raise HostError(f"cannot write the nodes' log {path}: {error.strerror}") from None
        self._failures = 0
        self._again_at = 0.0

    def read(self, most: int = 0) -> Iterator[Told]:
        """What has come since the last call of nodes, ``most`` entries at most; 0: all."""
        while True:
            try:
                entry = self._file.next_entry()
            except SlotwiseError as error:
                self._log.write(f"WARNING: {error.message}")
                continue
            if entry is None:
                return
            if (told := self.entries.read(entry)) is not None:
                yield told
                most -= 1
                if not most:
                    return

    def append(self, texts: Sequence[str]) -> None:
        """Write entries, at once if the disk has room.

        :raises HostError: the file cannot be written.
        """
        self._left += "".join(texts).encode(errors="surrogateescape")
        if not self._failures:
            self.go_on(time.monotonic())

    def next_at(self) -> float | None:
        """When entries that wait for room are to be written, on the monotonic clock; None: there are none."""
        return self._again_at if self._left else None

    def go_on(self, now: float) -> None:
        """Write what waits, if it is time.

        :raises HostError: the file cannot be written.
        """
        if not self._left or now < self._again_at:
            return
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                while self._left:
                    self._left = self._left[os.write(fd, self._left) :]
                self._failures = 0
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno in _FULL:
                self._failures += 1
                self._again_at = now + _AGAIN.delay_s(self._failures)
                if self._failures == 1:
                    self._log.write(
                        f"ERROR: cannot write the nodes' log {self.path}: {error.strerror}; waiting for room"
                    )
                return
            raise HostError(f"cannot write the nodes' log {self.path}: {error.strerror}") from None

    def close(self) -> None:
        """Read no more."""
        self._file.close()


def _is_whole(file: IO[bytes]) -> bool:
    """Whether a log that is read from its end has no entry, or ends with one."""
    file.seek(-min(file.tell(), 4), os.SEEK_END)
    return file.read() in (b"", b"...\n")


__all__ = ["FollowedLog"]
