"""How long the master waits for starts and stops, and how a stop escalates. Pure."""

from __future__ import annotations

from msgspec import Struct

from slotwise.config import Config

#: How a stop escalates: the next mode after one whose time is up.
HARDER = {"peaceful": "graceful", "graceful": "fast", "fast": "kill"}

#: A daemon limits its own fast stop to 30 s; one that takes longer than this ignores that limit.
FAST_MOST_S = 40.0
#: A stopping daemon that does not even answer for so long is stopped harder before its time is up.
SILENCE_S = 25.0


class Limits(Struct, frozen=True):
    """Time limits in seconds: SLOTWISE_START_TIMEOUT, SHUTDOWN_GRACEFUL_TIMEOUT, SHUTDOWN_FAST_TIMEOUT."""

    start_s: float = 30.0
    graceful_s: float = 1800.0
    fast_s: float = 300.0

    @classmethod
    def of_config(cls, config: Config) -> Limits:
        """The limits that a configuration sets."""
        return cls(
            start_s=config.get_float("SLOTWISE_START_TIMEOUT"),
            graceful_s=config.get_float("SHUTDOWN_GRACEFUL_TIMEOUT"),
            fast_s=config.get_float("SHUTDOWN_FAST_TIMEOUT"),
        )

    def of(self, mode: str) -> float | None:
        """How long a stop in ``mode`` may take; None: no limit."""
        return {
            "peaceful": None,
            "graceful": self.graceful_s,
            "fast": min(self.fast_s, FAST_MOST_S),
            "kill": 30.0,
        }[mode]
