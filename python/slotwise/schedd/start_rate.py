"""How fast jobs may start: JOB_START_COUNT in every JOB_START_DELAY seconds. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class StartRate:
    """Gives each start its moment. A delay of 0 means: at once."""

    count: int = 1
    delay_s: float = 0.0
    #: The period that starts are given in now: when it begins, and how many it has.
    _begins: float = 0.0
    _given: int = 0

    def wait_s(self, now: float) -> float:
        """How long the next start has to wait; it counts as given."""
        if self.delay_s <= 0:
            return 0.0
        if now >= self._begins + self.delay_s:
            self._begins, self._given = now, 0
        elif self._given >= max(1, self.count):
            self._begins, self._given = self._begins + self.delay_s, 0
        self._given += 1
        return max(0.0, self._begins - now)
