"""When a cycle runs. Pure: times come in, a time comes out, all of a monotonic clock.

The regular rules are HTCondor's (manual, NEGOTIATOR_INTERVAL and its neighbours). New work may also ask for a
cycle *on demand*, which waits for neither NEGOTIATOR_CYCLE_DELAY nor NEGOTIATOR_MIN_INTERVAL; such cycles take at
most half of the time, so that a pool with long cycles does other work, too.

Claims are preempted only as often as the regular rules allow. A preempted job is new work; if the cycle that it asks
for could preempt as well, a PREEMPTION_REQUIREMENTS that lets two users preempt each other would evict jobs many times
a second. Until both gaps after a cycle that preempted are over, cycles match free slots only.
"""

from __future__ import annotations

import math

from msgspec import Struct, field

#: The least time between cycles that freed slots start; they take at most a tenth of the time, because in a large
#: pool some slot always changes while some job waits.
_FREED_GAP_S = 0.25
_FREED_SHARE = 0.1


class CycleTiming(Struct, frozen=True):
    """Knobs NEGOTIATOR_INTERVAL, NEGOTIATOR_CYCLE_DELAY, NEGOTIATOR_MIN_INTERVAL, SLOTWISE_NEGOTIATE_ON_DEMAND."""

    interval_s: float = 60.0
    cycle_delay_s: float = 20.0
    min_interval_s: float = 5.0
    on_demand: bool = True


class Schedule(Struct):
    """The timer of cycles."""

    timing: CycleTiming = field(default_factory=CycleTiming)
    #: When the regular timer fires; the first cycle starts at once.
    timer_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    #: Cycles that start earlier match free slots only.
    _no_preemption_before: float = -math.inf
    #: Earliest time of a cycle that was asked for on demand.
    _urgent_at: float | None = None

    def ask(self, now: float, *, on_demand: bool) -> None:
        """A schedd or a person wants a cycle. Requests before it starts count as one."""
        if on_demand and self.timing.on_demand:
            self._urge(now)
        else:
            self.timer_at = min(self.timer_at, now)

    def slot_freed(self, now: float) -> None:
        """A slot changed while requests are unmet."""
        if self.timing.on_demand:
            duration_s = (self.ended_at or 0.0) - (self.started_at or 0.0)
            self._urge(max(now, (self.started_at or 0.0) + max(_FREED_GAP_S, duration_s / _FREED_SHARE)))

    def _urge(self, at: float) -> None:
        self._urgent_at = at if self._urgent_at is None else min(self._urgent_at, at)

    def next_at(self) -> float:
        """When the next cycle may start."""
        regular = max(self.timer_at, self._gaps_end())
        if self._urgent_at is None:
            return regular
        urgent = self._urgent_at
        if self.ended_at is not None and self.started_at is not None:
            urgent = max(urgent, self.ended_at + min(self.ended_at - self.started_at, 5.0))
        return min(regular, urgent)

    def _gaps_end(self) -> float:
        """When NEGOTIATOR_CYCLE_DELAY and NEGOTIATOR_MIN_INTERVAL after the last cycle are over."""
        if self.ended_at is None or self.started_at is None:
            return -math.inf
        return max(self.ended_at + self.timing.cycle_delay_s, self.started_at + self.timing.min_interval_s)

    def may_preempt(self, now: float) -> bool:
        """Whether a cycle that starts now may preempt claims."""
        return now >= self._no_preemption_before

    def begin(self, now: float) -> None:
        """A cycle starts; requests from now on mean the next one."""
        self.started_at = now
        # A cycle that may preempt follows as soon as it is allowed to.
        self._urgent_at = None if self.may_preempt(now) else self._no_preemption_before
        self.timer_at = now + self.timing.interval_s

    def end(self, now: float, *, preempted: bool = False) -> None:
        """The cycle is over; whether it preempted claims."""
        assert self.started_at is not None
        self.ended_at = now
        if preempted:
            self._no_preemption_before = self._gaps_end()
        duration_s = now - self.started_at
        asked_meanwhile = self.timer_at <= now
        if not asked_meanwhile:
            self.timer_at = now + max(self.timing.cycle_delay_s, self.timing.interval_s - duration_s)
