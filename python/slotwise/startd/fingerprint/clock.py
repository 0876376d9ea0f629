"""The time of day as policies want it."""

from __future__ import annotations

import time

from slotwise.startd.fingerprint import Attributes


def read(now: float) -> Attributes:
    """ClockMin: minutes since midnight, local time. ClockDay: 0 is Sunday."""
    local = time.localtime(now)
    return {"ClockMin": local.tm_hour * 60 + local.tm_min, "ClockDay": (local.tm_wday + 1) % 7}
