"""Where time comes from. Deciding code takes ``now`` as an argument; only edges hold a :class:`Clock`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; for durations and timers."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since an arbitrary start, never going back."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to; for tests and simulation."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        """The time set last."""
        return self._now

    def monotonic(self) -> float:
        """The same time: a manual clock never goes back."""
        return self._now

    def advance(self, seconds: float) -> float:
        """Move on by ``seconds`` (0 or more) and return the new time."""
        if seconds < 0:
            raise ValueError("a clock does not go back")
        self._now += seconds
        return self._now
