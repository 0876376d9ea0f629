"""Space where jobs get their scratch directories (KiB), and whether that is a turning disk."""

from __future__ import annotations

import os
from pathlib import Path

from slotwise.startd.fingerprint import Attributes


def place_of(execute: Path) -> Path:
    """``execute``; before the starter has made it, the directory that it is to be made in."""
    return next((path for path in (execute, *execute.parents) if path.exists()), execute)


def read(execute: Path) -> Attributes:
    """TotalDisk: what an unprivileged user may still write below ``execute``; DetectedDisk: the size of its file
    system. Both are 0 when it does not exist."""
    try:
        space = os.statvfs(execute)
    except OSError:
        return {"TotalDisk": 0, "DetectedDisk": 0}
    return {
        "TotalDisk": space.f_bavail * space.f_frsize // 1024,
        "DetectedDisk": space.f_blocks * space.f_frsize // 1024,
    }


def rotational(execute: Path, root: Path = Path("/")) -> Attributes:
    """HasRotationalScratch, where the kernel reports it."""
    try:
        device = execute.stat().st_dev
        place = (root / "sys/dev/block" / f"{os.major(device)}:{os.minor(device)}").resolve(strict=True)
        for queue in (place / "queue", place.parent / "queue"):  # a partition has that of its disk
            if (queue / "rotational").exists():
                return {"HasRotationalScratch": (queue / "rotational").read_text().strip() == "1"}
    except OSError:
        pass
    return {}
