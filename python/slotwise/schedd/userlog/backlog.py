"""Texts that wait because their event logs cannot be written, and when each log is tried again. Pure.

A log takes its texts in order: while one waits, later ones for the same log wait behind it. Times are of a monotonic
clock, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from slotwise.backoff import Backoff
from slotwise.schedd.userlog.planned_text import Log, PlannedText

#: A log that fails is tried again after 1, 2, 4 ... 60 s, and 1 s after a new text for it at the latest.
AGAIN = Backoff(1.0, 2.0, 60.0)
#: Texts of jobs that have all left the queue are given up after so long: a log that was deleted with its directory
#: would be tried for ever.
ABANDONED_S = 7 * 86400.0


class _Failing(Struct):
    """A log that fails."""

    since: float
    failures: int = 0
    at: float = 0.0
    texts: list[PlannedText] = field(default_factory=list)


class Backlog:
    """The texts of logs that fail."""

    def __init__(self) -> None:
        self._logs: dict[Log, _Failing] = {}
        #: After so many seconds of failures the texts of a log are given up (SLOTWISE_USERLOG_PATIENCE); 0: never.
        self.patience_s = 0.0

    def __len__(self) -> int:
        return sum(len(failing.texts) for failing in self._logs.values())

    def put_behind(self, texts: Iterable[PlannedText], now: float) -> list[PlannedText]:
        """Keep those of the texts whose logs fail; returns the others."""
        others = []
        for text in texts:
            if (failing := self._logs.get((text.path, text.owner))) is None:
                others.append(text)
            else:
                failing.texts.append(text)
                failing.at = min(failing.at, now + AGAIN.first_s)
        return others

    def due(self, now: float) -> list[PlannedText]:
        """The texts of all logs that are to be tried again now, in order."""
        return [text for failing in self._logs.values() if failing.at <= now for text in failing.texts]

    def next_at(self) -> float | None:
        """When the next log is to be tried; None: none fails."""
        return min((failing.at for failing in self._logs.values()), default=None)

    def failed(self, log: Log, texts: Sequence[PlannedText], now: float) -> None:
        """The log did not take the texts: all that it is to get, in order."""
        failing = self._logs.setdefault(log, _Failing(since=now))
        failing.failures += 1
        failing.at = now + AGAIN.delay_s(failing.failures)
        failing.texts = list(texts)

    def written(self, log: Log) -> bool:
        """The log has its texts; returns whether it had failed before."""
        return self._logs.pop(log, None) is not None

    def give_up(self, log: Log, now: float, *, is_awaited: bool, is_dropped: bool = False) -> list[PlannedText]:
        """The texts of a log that has failed for too long, which is forgotten; else none.

        :param is_awaited: a job in the queue waits for them.
        :param is_dropped: its jobs have got another log (their UserLog was edited).
        """
        failing = self._logs.get(log)
        if failing is None:
            return []
        most_s = self.patience_s or (float("inf") if is_awaited else ABANDONED_S)
        if now - failing.since < most_s and not is_dropped:
            return []
        del self._logs[log]
        return failing.texts
