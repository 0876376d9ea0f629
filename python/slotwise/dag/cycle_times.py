"""DAG_Stats of the DAG's job: how long the parts of a runner's loop took, as HTCondor's condor_dagman tells it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Literal

from msgspec import Struct

#: A step of the loop, its submissions, what it read of the nodes log, and its waits.
Part = Literal["Event", "Submit", "LogProcess", "Sleep"]


class Times(Struct):
    """Seconds that something took, so far."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    least: float = math.inf
    most: float = 0.0

    def add(self, seconds: float) -> None:
        """It took so long once more."""
        self.count += 1
        self.total += seconds
        self.squares += seconds * seconds
        self.least, self.most = min(self.least, seconds), max(self.most, seconds)

    def deviation(self) -> float:
        """The standard deviation of a sample; of one alone the value itself, as in HTCondor."""
        if self.count < 2:
            return self.total
        mean = self.total / self.count
        return math.sqrt(max(0.0, self.squares - self.total * mean) / (self.count - 1))


class CycleTimes:
    """Those of one run."""

    def __init__(self) -> None:
        self._parts: dict[Part, Times] = {}

    def add(self, part: Part, seconds: float) -> None:
        """A part of the loop took so long."""
        self._parts.setdefault(part, Times()).add(seconds)

    @contextmanager
    def measured(self, part: Part) -> Iterator[None]:
        """Add what happens inside."""
        begun = monotonic()
        try:
            yield
        finally:
            self.add(part, monotonic() - begun)

    def text(self) -> str:
        """The value of DAG_Stats, a ClassAd."""
        rows = []
        for part, times in self._parts.items():
            values = {
                "Avg": times.total / times.count, "Count": float(times.count), "Max": times.most, "Min": times.least,
                "Std": times.deviation(), "Sum": times.total,
            }  # fmt: skip
            rows += [f"{part}CycleTime{name} = {value!r}" for name, value in values.items()]
        return f"[ {'; '.join(rows)} ]"


__all__ = ["CycleTimes", "Part", "Times"]
