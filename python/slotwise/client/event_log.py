"""Job event logs from Python: events in order, and waiting for new ones."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import IO

from slotwise.classad import ClassAd
from slotwise.errors import NotFoundError, SlotwiseError
from slotwise.model import job_event_reader
from slotwise.model.job_event_reader import Entry, UnreadableEventError
from slotwise.transfer import safe_open

_IN_MODIFY, _IN_CLOSE_WRITE, _IN_MOVE_SELF = 0x2, 0x8, 0x800
_IN_CLOEXEC = 0o2000000
#: The longest wait for a reported change, in seconds: network file systems report none.
_LONGEST_WAIT_S = 1.0
#: The longest entry, in bytes. A longer one is skipped: a caller may name any file as the log.
_LONGEST_ENTRY = 1 << 20


class EventLog:
    """The events of one job event log, each from where the last one ended.

    Pickling keeps the position. An entry counts once its line of three dots is there.

    :raises NotFoundError: the file cannot be read, or is not a regular file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: IO[bytes] | None = None
        self._offset = 0
        #: How far the last search for an entry has read.
        self._seen = 0
        #: Whether the rest of an entry that is too long is still being skipped.
        self._is_skipping = False
        self._open()

    def _open(self) -> None:
        try:
            self._file = os.fdopen(safe_open.regular(str(self.path)), "rb")
        except OSError as error:
            raise NotFoundError(f"cannot read the event log {self.path}: {error.strerror}") from None

    def close(self) -> None:
        """Close the file; no more events come."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> EventLog:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> tuple[Path, int]:
        return self.path, self._offset

    def __setstate__(self, state: tuple[Path, int]) -> None:
        self.path, self._offset = state
        self._seen = self._offset
        self._is_skipping = False
        self._file = None
        self._open()

    def next(self, wait_s: float | None = 0.0) -> tuple[Entry, ClassAd] | None:
        """The next event and its ad; None if none came within ``wait_s`` (None: no limit).

        :raises SlotwiseError: an entry is not an event, or is too long; the next call continues behind it.
        """
        entry = self.next_entry(wait_s)
        return None if entry is None else (entry, job_event_reader.event_ad(entry))

    def next_entry(self, wait_s: float | None = 0.0) -> Entry | None:
        """As :meth:`next`, without the ad."""
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while (text := self._entry()) is None:
            left = _LONGEST_WAIT_S if deadline is None else deadline - time.monotonic()
            if self._file is None or left <= 0:
                return None
            _wait_for_change(self.path, min(left, _LONGEST_WAIT_S), self._grown)
        try:
            return job_event_reader.parse(text, datetime.now().year)
        except UnreadableEventError as error:
            raise SlotwiseError(f"{self.path}: {error}") from None

    def events(self, wait_s: float | None = 0.0) -> Iterator[tuple[Entry, ClassAd]]:
        """Events until none comes within ``wait_s``."""
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if (found := self.next(left)) is None:
                return
            yield found

    def _grown(self) -> bool:
        return self._file is not None and os.fstat(self._file.fileno()).st_size > self._seen

    def _entry(self) -> str | None:
        """Consume the next whole entry; returns its text.

        :raises SlotwiseError: the entry is too long.
        """
        if self._file is None:
            return None
        self._file.seek(self._offset)
        lines: list[bytes] = []
        size = 0
        while line := self._file.readline(_LONGEST_ENTRY):
            size += len(line)
            if line.rstrip(b"\r\n \t") == b"..." and line.endswith(b"\n"):
                self._offset += size
                self._is_skipping = False
                if not lines:
                    size = 0
                    continue
                return b"".join(lines).decode("utf-8", "surrogateescape")
            if self._is_skipping:
                if line.endswith(b"\n") or len(line) == _LONGEST_ENTRY:
                    self._offset += size
                    size = 0
                continue
            lines.append(line)
            if size > _LONGEST_ENTRY:
                self._is_skipping = True
                self._offset += size - len(line)
                raise SlotwiseError(
                    f"{self.path}: the entry at byte {self._offset + len(line) - size} is longer than 1 MiB; skipping "
                    "it (is this a job event log?)"
                )
        self._seen = self._offset + size
        return None


def _wait_for_change(path: Path, longest_s: float, grown: Callable[[], bool]) -> None:
    """Wait until the file is written to, for at most ``longest_s``: by inotify, else by sleeping."""
    import ctypes  # not needed for reading a log to its end

    libc = ctypes.CDLL(None, use_errno=True)
    watcher = libc.inotify_init1(_IN_CLOEXEC)
    if watcher < 0:
        time.sleep(min(longest_s, 0.1))
        return
    try:
        mask = _IN_MODIFY | _IN_CLOSE_WRITE | _IN_MOVE_SELF
        if libc.inotify_add_watch(watcher, os.fsencode(path), mask) < 0:
            time.sleep(min(longest_s, 0.1))
            return
        # No event reports what was written between the last read and the watch.
        if not grown():
            select.select([watcher], [], [], longest_s)
    finally:
        os.close(watcher)
