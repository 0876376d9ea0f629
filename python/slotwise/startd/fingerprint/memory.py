"""Memory (MiB) and swap (KiB)."""

from __future__ import annotations

import re
from pathlib import Path

from slotwise.startd.fingerprint import Attributes


def read(root: Path = Path("/")) -> Attributes:
    """DetectedMemory, and TotalVirtualMemory: free swap and memory together as a job could use them."""
    info = _meminfo(root)
    total_kib = info.get("MemTotal", 0)
    limit = _cgroup_limit_kib(root)
    if limit is not None and limit < total_kib:
        total_kib = limit
    return {
        "DetectedMemory": total_kib // 1024,
        "TotalVirtualMemory": info.get("SwapFree", 0) + total_kib,
    }


def _meminfo(root: Path) -> dict[str, int]:
    try:
        text = (root / "proc/meminfo").read_text()
    except OSError:
        return {}
    return {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+)", text, re.MULTILINE)}


def _cgroup_limit_kib(root: Path) -> int | None:
    """The memory limit of a container that the startd may run in."""
    for path in ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = (root / path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return int(text) // 1024
    return None
