"""How old this process is, and what it takes of its host: MonitorSelf* of a daemon's ad."""

from __future__ import annotations

import os

_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


def vitals(now: int, started_at: int) -> dict[str, float]:
    """MonitorSelf*: age in seconds, CPU seconds used per second of age in percent, sizes in KiB."""
    try:
        with open("/proc/self/statm") as stream:
            size, resident = (int(word) * _PAGE_KIB for word in stream.read().split()[:2])
    except OSError:
        return {}
    used = os.times()
    age = max(1, now - started_at)
    return {
        "MonitorSelfTime": now,
        "MonitorSelfAge": age,
        "MonitorSelfCPUUsage": round(100.0 * (used.user + used.system) / age, 3),
        "MonitorSelfImageSize": size,
        "MonitorSelfResidentSetSize": resident,
    }
