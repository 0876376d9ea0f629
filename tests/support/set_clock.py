"""A clock whose time of day is set by hand, while time goes on."""

from __future__ import annotations

from slotwise.clock import ManualClock


class SetClock(ManualClock):
    """``set_by``: how far the time of day is from where it would be."""

    set_by: float = 0.0

    def now(self) -> float:
        """The time of day."""
        return super().now() + self.set_by
