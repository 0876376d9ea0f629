"""How many transfers the disk of the access point takes: fewer when reading and writing files keeps it busy. Pure.

Manual: FILE_TRANSFER_DISK_LOAD_THROTTLE and its kin. The load is the average number of transfers that read or write
files at the same time. Above the upper limit no transfer starts; between the limits one starts for each that ends;
below the lower one, one more may run after each wait. Unlike HTCondor's, which begins with as many transfers as the
lower limit says, this holds nothing back before the load has been high.
"""

from __future__ import annotations

import re
from math import floor

from msgspec import Struct

from slotwise.errors import ConfigError
from slotwise.model.windows import Rate

_LOWER = 0.9
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class DiskThrottleSettings(Struct, frozen=True):
    """Limits of the load, horizons over which it is averaged in seconds, and the wait between two more transfers."""

    low: float
    high: float
    short_s: float = 60.0
    long_s: float = 300.0
    wait_s: float = 60.0


def parse_limits(text: str, origin: str = "") -> tuple[float, float] | None:
    """``5 to 6.5``, or the upper limit alone; None for an empty text.

    :raises ConfigError: for anything else.
    """
    if not text.strip():
        return None
    found = re.fullmatch(r"\s*([0-9.]+)(?:\s+to\s+([0-9.]+))?\s*", text)
    try:
        if found is None:
            raise ValueError
        first = float(found[1])
        low, high = (first * _LOWER, first) if found[2] is None else (first, float(found[2]))
        if not 0 < low <= high:
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"FILE_TRANSFER_DISK_LOAD_THROTTLE = {text.strip()} is not a range of loads",
            hint="write the upper limit (2.0), or both (5 to 6.5)",
            origin=origin,
            key="FILE_TRANSFER_DISK_LOAD_THROTTLE",
        ) from None
    return low, high


def parse_horizon(text: str, knob: str, origin: str = "") -> float:
    """The seconds of a name such as ``1m``.

    :raises ConfigError: for anything else.
    """
    found = re.fullmatch(r"\s*(\d+)([smhd])\s*", text)
    if found is None or not int(found[1]):
        raise ConfigError(f"{knob} = {text} is not a time span", hint="write 1m or 5m", origin=origin, key=knob)
    return float(int(found[1]) * _UNITS[found[2]])


class DiskThrottle:
    """Limits transfers by the load that they put on the disk."""

    def __init__(self, settings: DiskThrottleSettings, now: float) -> None:
        self.settings = settings
        self._busy = Rate([settings.short_s, settings.long_s], now)
        #: How many transfers may run; None: the load was never high.
        self.most: int | None = None
        self._raised_at = now
        self.load = 0.0

    def worked(self, seconds: float) -> None:
        """A transfer has read or written files for so long."""
        self._busy.add(seconds)

    def look(self, active: int, now: float) -> None:
        """Adapt the limit; ``active``: how many transfers run."""
        averages = self._busy.averages(now)
        settings = self.settings
        self.load, long = averages[settings.short_s], averages[settings.long_s]
        if self.load > settings.high:
            self.most, self._raised_at = active, now
        elif self.most is None:
            return
        elif max(self.load, long) > settings.low:
            self.most = max(1, self.most)
        elif active >= self.most and now - self._raised_at >= settings.wait_s:
            self.most, self._raised_at = max(self.most + 1, floor(settings.low)), now

    def has_room(self, active: int) -> bool:
        """Whether another transfer may start."""
        return self.most is None or active < self.most
