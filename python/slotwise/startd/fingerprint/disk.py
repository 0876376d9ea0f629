"""Free space where jobs get their scratch directories (KiB)."""

from __future__ import annotations

import os
from pathlib import Path

from slotwise.startd.fingerprint import Attributes


def read(execute: Path) -> Attributes:
    """TotalDisk: what an unprivileged user may still write below ``execute``; 0 when it does not exist."""
    try:
        facts = os.statvfs(execute)
    except OSError:
        return {"TotalDisk": 0}
    return {"TotalDisk": facts.f_bavail * facts.f_frsize // 1024}
