"""The machine's load average."""

from __future__ import annotations

from pathlib import Path

from slotwise.startd.fingerprint import Attributes


def read(root: Path = Path("/")) -> Attributes:
    """TotalLoadAvg, over the last minute."""
    try:
        return {"TotalLoadAvg": float((root / "proc/loadavg").read_text().split()[0])}
    except (OSError, ValueError, IndexError):
        return {"TotalLoadAvg": 0.0}
