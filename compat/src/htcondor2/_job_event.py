"""``JobEvent`` and ``JobEventLog``, over :mod:`slotwise.client.event_log`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from classad2 import ClassAd
from slotwise.client.event_log import EventLog
from slotwise.errors import SlotwiseError
from slotwise.model.job_event_reader import seconds

from htcondor2._enums import JobEventType
from htcondor2._errors import HTCondorException, as_htcondor


class JobEvent(Mapping[str, Any]):
    """One event: a mapping of its attributes."""

    def __init__(self, data: ClassAd, event_text: str) -> None:
        self._data = data
        self._event_text = event_text

    @property
    def type(self) -> JobEventType:
        """What happened."""
        return JobEventType(self._data["EventTypeNumber"])

    @property
    def cluster(self) -> int:
        """The job's cluster id."""
        return int(self._data.get("Cluster", -1))

    @property
    def proc(self) -> int:
        """The job's proc id; -1 for events of a whole cluster."""
        return int(self._data.get("Proc", -1))

    @property
    def timestamp(self) -> int:
        """When it happened, in seconds since the epoch."""
        return seconds(self._data["EventTime"])

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"JobEvent(type={self.type}, cluster={self.cluster}, proc={self.proc}, timestamp={self.timestamp})"

    def __str__(self) -> str:
        return self._event_text


class JobEventLog:
    """An iterator over the events of a job event log; pickled, it goes on where it was."""

    def __init__(self, filename: str) -> None:
        if not isinstance(filename, str):
            raise TypeError("filename must be a string")
        if not filename:
            raise ValueError("filename must not be empty")
        self._deadline: float | None = None
        with as_htcondor():
            self._log = EventLog(filename)

    def events(self, stop_after: int | None = None) -> JobEventLog:
        """This iterator, which waits for events until ``stop_after`` seconds from now: 0 not at all, None for ever."""
        if stop_after is None:
            self._deadline = None
        elif isinstance(stop_after, int):
            self._deadline = time.monotonic() + stop_after
        else:
            raise TypeError("deadline must be an integer")
        return self

    def close(self) -> None:
        """Close the file; the iterator ends."""
        self._log.close()

    def __iter__(self) -> JobEventLog:
        return self

    def __next__(self) -> JobEvent:
        wait_s = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        try:
            found = self._log.next(wait_s)
        except SlotwiseError as error:
            raise HTCondorException("ULOG_RD_ERROR") from error
        if found is None:
            raise StopIteration
        entry, ad = found
        return JobEvent(ClassAd._of(ad), entry.text)

    def __enter__(self) -> JobEventLog:
        self._deadline = None
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> EventLog:
        return self._log

    def __setstate__(self, state: EventLog) -> None:
        self._log, self._deadline = state, None
