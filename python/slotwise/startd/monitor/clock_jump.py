"""Detects jumps of the wall clock: it was set, or the host was asleep."""

from __future__ import annotations

from slotwise.clock import Clock

#: Less than this is not a jump (seconds): clocks are slewed, and checks are late.
LEAST_S = 20.0


class ClockJumpDetector:
    """Compares the wall clock with the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._apart = clock.now() - clock.monotonic()

    def pending(self) -> bool:
        """Whether the wall clock has jumped since the last :meth:`jump_s`."""
        return abs(self._difference()) >= LEAST_S

    def jump_s(self) -> float:
        """The seconds by which the wall clock has jumped since the last call; 0 when it has not."""
        jump_s = self._difference()
        if abs(jump_s) < LEAST_S:
            return 0.0
        self._apart += jump_s
        return jump_s

    def _difference(self) -> float:
        return self._clock.now() - self._clock.monotonic() - self._apart
