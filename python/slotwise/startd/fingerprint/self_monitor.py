"""What the startd itself takes: MonitorSelf* attributes, measured at most every few minutes."""

from __future__ import annotations

import os
from pathlib import Path

from slotwise.startd.fingerprint import Attributes

#: Seconds between measurements, as in HTCondor.
INTERVAL_S = 240.0


class SelfMonitor:
    """Remembers the last measurement. Sizes in KiB, CPU use in percent of a core since the one before."""

    def __init__(self, started_at: float, *, root: Path = Path("/")) -> None:
        self._started_at = started_at
        self._process = root / "proc/self"
        self._at = started_at
        self._cpu_s = 0.0
        self._last: Attributes = {}

    def read(self, now: float) -> Attributes:
        """The attributes; measured again when they have grown old."""
        if self._last and now - self._at < INTERVAL_S:
            return self._last
        times = os.times()
        used = times.user + times.system
        passed = max(1.0, now - self._at)
        self._last = {
            "MonitorSelfTime": int(now),
            "MonitorSelfAge": max(0, int(now - self._started_at)),
            "MonitorSelfCPUUsage": round(100 * max(0.0, used - self._cpu_s) / passed, 3),
            **self._sizes(),
        }
        self._at, self._cpu_s = now, used
        return self._last

    def _sizes(self) -> Attributes:
        try:
            total, resident = (self._process / "statm").read_text().split()[:2]
            entries = list((self._process / "fd").iterdir())
        except (OSError, ValueError):
            return {}
        page_kib = os.sysconf("SC_PAGE_SIZE") // 1024
        return {
            "MonitorSelfImageSize": int(total) * page_kib,
            "MonitorSelfResidentSetSize": int(resident) * page_kib,
            "MonitorSelfRegisteredSocketCount": sum(map(_is_socket, entries)),
        }


def _is_socket(entry: Path) -> bool:
    try:
        return str(entry.readlink()).startswith("socket:")
    except OSError:  # closed by now
        return False
