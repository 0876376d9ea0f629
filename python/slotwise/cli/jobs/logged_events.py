"""Reads job event logs once, to their end: one in its own order, or several in order of time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path

from slotwise.client.event_log import EventLog
from slotwise.errors import SlotwiseError
from slotwise.model import job_event_reader
from slotwise.model.job_event_reader import Entry


def entries(path: Path) -> Iterator[Entry]:
    """The entries of one log. What is not an event is passed over, and so is an entry without its last line.

    :raises NotFoundError: the file cannot be read.
    """
    with EventLog(path) as log:
        while True:
            try:
                found = log.next()
            except SlotwiseError:
                continue  # the next call reads behind it
            if found is None:
                return
            yield found[0]


def merged(paths: Sequence[Path]) -> Iterator[Entry]:
    """The entries of several logs: of those that come next in each log, the oldest first; a file counts once.

    :raises NotFoundError: a file cannot be read.
    """
    files: dict[tuple[int, int], Path] = {}
    for path in paths:
        status = path.stat()
        files.setdefault((status.st_dev, status.st_ino), path)
    yield from heapq.merge(
        *(entries(path) for path in files.values()), key=lambda entry: job_event_reader.seconds(entry.time)
    )
