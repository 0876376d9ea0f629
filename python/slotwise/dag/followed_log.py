"""The nodes log on disk: read as it grows, and the runner's own entries appended to it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from slotwise.client import EventLog
from slotwise.dag.debug_log import DebugLog
from slotwise.dag.node_log import NodeLog, Told
from slotwise.errors import HostError, SlotwiseError


class FollowedLog:
    """The log at ``path``, from its beginning; ``anew``: what was there is gone.

    :raises HostError: it cannot be written or read.
    """

    def __init__(self, path: Path, entries: NodeLog, log: DebugLog, *, anew: bool) -> None:
        self.path, self.entries, self._log = path, entries, log
        try:
            with path.open("w" if anew else "a"):
                pass
            self._file = EventLog(path)
        except OSError as error:
            raise HostError(f"cannot write the nodes' log {path}: {error.strerror}") from None

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
        """Write entries.

        :raises HostError: the disk is full, or the file is gone.
        """
        data = "".join(texts).encode(errors="surrogateescape")
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                while data:
                    data = data[os.write(fd, data) :]
            finally:
                os.close(fd)
        except OSError as error:
            raise HostError(f"cannot write the nodes' log {self.path}: {error.strerror}") from None

    def close(self) -> None:
        """Read no more."""
        self._file.close()


__all__ = ["FollowedLog"]
