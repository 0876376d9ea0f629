"""What happened of late: sums, histograms and other totals over a window of time that moves in steps. Pure.

HTCondor keeps its ``Recent...`` attributes so: a ring of quanta (STATISTICS_WINDOW_QUANTUM seconds each), of which
those of the last STATISTICS_WINDOW_SECONDS count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from math import exp
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Window(Struct, frozen=True):
    """How long "of late" is, in steps of what; seconds."""

    seconds: float = 1200
    quantum: float = 240


class Ring(Generic[T]):
    """A value for each quantum in which something happened.

    :param make: makes the value of a new quantum.
    """

    def __init__(self, make: Callable[[], T], window: Window) -> None:
        self._make = make
        self.window = window
        self._quanta: deque[tuple[int, T]] = deque()

    def at(self, now: float) -> T:
        """The value of the quantum of ``now``, to add to."""
        number = self._forget(now)
        if not self._quanta or self._quanta[-1][0] < number:
            self._quanta.append((number, self._make()))
        return self._quanta[-1][1]

    def values(self, now: float) -> Iterator[T]:
        """Those of the window that ends now."""
        self._forget(now)
        return (value for _, value in self._quanta)

    def aged(self, now: float) -> Iterator[tuple[int, T]]:
        """The values of the window that ends now, each with how many quanta ago it was."""
        number = self._forget(now)
        return ((number - quantum, value) for quantum, value in self._quanta)

    def number(self, now: float) -> int:
        """Which quantum ``now`` is in; as long as it is the same one nothing is forgotten."""
        return int(now // self.window.quantum)

    def _forget(self, now: float) -> int:
        number = self.number(now)
        oldest = int((now - self.window.seconds) // self.window.quantum)
        while self._quanta and self._quanta[0][0] <= oldest:
            self._quanta.popleft()
        # The clock may be set back by a little, and the newest goes on; by more, and all is of another time.
        if self._quanta and self._quanta[-1][0] > number + 1:
            self._quanta.clear()
        return number


class Tallies:
    """Sums by name: since the beginning, and of late."""

    def __init__(self, names: Sequence[str], window: Window) -> None:
        self.totals: dict[str, int] = dict.fromkeys(names, 0)
        self.ring: Ring[Counter[str]] = Ring(Counter, window)

    def add(self, now: float, **amounts: int) -> None:
        """Add to the sums of these names, which must be among those known."""
        quantum = self.ring.at(now)
        for name, amount in amounts.items():
            self.totals[name] += amount
            quantum[name] += amount

    def recent(self, now: float) -> dict[str, int]:
        """The sums of late, of all names."""
        found = dict.fromkeys(self.totals, 0)
        for quantum in self.ring.values(now):
            for name, amount in quantum.items():
                found[name] += amount
        return found


class Histogram:
    """How many values are below the first level, from there below the second ... and from the last level on."""

    def __init__(self, levels: Sequence[float], window: Window) -> None:
        self._levels = levels
        self.counts = self._zeros()
        self.ring: Ring[list[int]] = Ring(self._zeros, window)

    def add(self, now: float, value: float) -> None:
        """One more."""
        place = bisect_right(self._levels, value)
        self.counts[place] += 1
        self.ring.at(now)[place] += 1

    def recent(self, now: float) -> list[int]:
        """Those of late."""
        return [sum(column) for column in zip(self._zeros(), *self.ring.values(now), strict=True)]

    def _zeros(self) -> list[int]:
        return [0] * (len(self._levels) + 1)


def shown(counts: Sequence[int]) -> str:
    """A histogram as HTCondor publishes it."""
    return ", ".join(map(str, counts))


class Rate:
    """Amount a second as moving averages, which forget exponentially: over each of some horizons, seconds."""

    def __init__(self, horizons: Sequence[float], now: float) -> None:
        self._averages = dict.fromkeys(horizons, 0.0)
        self._pending = 0.0
        self._at = now
        self.total = 0.0

    def add(self, amount: float) -> None:
        """So much more since the last look."""
        self._pending += amount
        self.total += amount

    def averages(self, now: float) -> dict[float, float]:
        """Per second, by horizon; what came since the last look counts as having come evenly."""
        elapsed = now - self._at
        if elapsed <= 0:
            return dict(self._averages)
        speed = self._pending / elapsed
        for horizon, former in self._averages.items():
            weight = exp(-elapsed / horizon)
            self._averages[horizon] = weight * former + (1 - weight) * speed
        self._pending, self._at = 0.0, now
        return dict(self._averages)
