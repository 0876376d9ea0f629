"""Copies what daemons write into their logs to another place, line by line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

#: The logs that tell of an execution point.
NAMES = ("MasterLog", "StartLog", "StarterLog")
#: Bytes of one log that are copied at one look, so that a log that grows fast cannot hold the caller up.
_MOST = 256 * 1024


class LogFollower:
    """Hands new whole lines of the logs in a directory to ``say``, each behind its log's name."""

    def __init__(self, directory: Path, say: Callable[[str], None], names: tuple[str, ...] = NAMES) -> None:
        self._directory = directory
        self._say = say
        self._names = names
        self._at: dict[str, tuple[int, int]] = {}
        self._rest: dict[str, bytes] = {}

    def look(self) -> None:
        """Hand out what is new. A log that was rotated is read from the beginning of its new file."""
        for name in self._names:
            with contextlib.suppress(OSError):
                self._look_at(name)

    def _look_at(self, name: str) -> None:
        with (self._directory / name).open("rb") as stream:
            about = os.fstat(stream.fileno())
            inode, offset = self._at.get(name, (about.st_ino, 0))
            if inode != about.st_ino or about.st_size < offset:
                offset, self._rest[name] = 0, b""
            stream.seek(offset)
            data = stream.read(_MOST)
        self._at[name] = (about.st_ino, offset + len(data))
        *lines, self._rest[name] = (self._rest.get(name, b"") + data).split(b"\n")
        for line in lines:
            self._say(f"{name}: {line.decode(errors='replace')}")
