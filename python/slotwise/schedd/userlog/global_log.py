"""The access point's own log of all jobs' events (EVENT_LOG), rotated by size, each file with a header event.

Manual: EVENT_LOG, EVENT_LOG_MAX_SIZE, EVENT_LOG_MAX_ROTATIONS, EVENT_LOG_FSYNC. Written as the daemon, after the users'
logs and not transactionally as these are: a crash may lose an entry here.
"""

from __future__ import annotations

import os

from msgspec import Struct

from slotwise import durable_files
from slotwise.model.job_events import END, stamp


class GlobalLogSettings(Struct, frozen=True):
    """The path of the log, the size limit of a file (bytes, 0: none), how many old files are kept, and whether it is
    flushed each time that it is written (EVENT_LOG_FSYNC)."""

    path: str
    size_most: int = 1_000_000
    rotations: int = 1
    flushes: bool = False


class GlobalLog:
    """Appends to the log; for use in one worker thread at a time."""

    def __init__(self, settings: GlobalLogSettings) -> None:
        self.settings = settings
        self._sequence = 0

    def append(self, text: str, now: float) -> None:
        """Append entries; rotates first when the file is full.

        :raises OSError: when the file cannot be written.
        """
        path = self.settings.path
        try:
            size = os.stat(path).st_size
        except FileNotFoundError:
            size = -1
        if self.settings.size_most and size >= self.settings.size_most:
            self._rotate()
            size = -1
        if size < 0:
            self._sequence += 1
            text = self._header(now) + text
        with open(path, "a", encoding="utf-8", errors="surrogateescape") as stream:
            if size < 0:
                os.fchmod(stream.fileno(), 0o644)  # for all users, as HTCondor's
            stream.write(text)
            if self.settings.flushes:
                stream.flush()
                os.fdatasync(stream.fileno())
        if self.settings.flushes and size < 0:
            durable_files.synchronise(os.path.dirname(path) or ".")

    def _rotate(self) -> None:
        path, most = self.settings.path, self.settings.rotations
        if most <= 0:
            os.unlink(path)
            return
        if most == 1:
            os.replace(path, path + ".old")
            return
        for number in range(most - 1, 0, -1):
            if os.path.exists(f"{path}.{number}"):
                os.replace(f"{path}.{number}", f"{path}.{number + 1}")
        os.replace(path, path + ".1")

    def _header(self, now: float) -> str:
        return (
            f"008 (000.000.000) {stamp(now)} Global JobLog: ctime={int(now)} id=slotwise.{os.getpid()}.{int(now)} "
            f"sequence={self._sequence} size=0 events=0 offset=0 event_off=0 max_rotation={self.settings.rotations} "
            f"creator_name=<slotwise>\n{END}"
        )
