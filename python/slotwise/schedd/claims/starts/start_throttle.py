"""How fast jobs may start: JOB_START_COUNT in every JOB_START_DELAY seconds, and what jobs ask for. Pure."""

from __future__ import annotations

from msgspec import Struct


class StartThrottle(Struct):
    """Spaces the starts of jobs. With a delay of 0, none waits."""

    count: int = 1
    delay_s: float = 0.0
    #: The period that starts are given in now: when it begins, and how many it has.
    _begins: float = 0.0
    _given: int = 0
    #: Until when the job that started last has the next one wait (``next_job_start_delay``).
    _not_before: float = 0.0

    def wait_s(self, now: float, then_s: float = 0.0) -> float:
        """How long the next start has to wait; it counts as given.

        :param then_s: the least time between this start and the one after it.
        """
        moment = max(now, self._not_before)
        if self.delay_s > 0:
            if moment >= self._begins + self.delay_s:
                self._begins, self._given = moment, 0
            elif self._given >= max(1, self.count):
                self._begins, self._given = max(moment, self._begins + self.delay_s), 0
            self._given += 1
            moment = max(moment, self._begins)
        if then_s > 0:
            self._not_before = moment + then_s
        return moment - now
