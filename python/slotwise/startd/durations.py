"""Statistics over durations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Durations:
    """Count, average and extremes of some durations (seconds)."""

    count: int = 0
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.least = seconds if self.count == 0 else min(self.least, seconds)
        self.most = max(self.most, seconds)
        self.count += 1
        self.total += seconds

    def attributes(self, name: str) -> dict[str, Any]:
        """``<name>Avg``, ``Count``, ``Min``, ``Max``; nothing before the first."""
        if not self.count:
            return {}
        return {
            f"{name}Avg": self.total / self.count,
            f"{name}Count": self.count,
            f"{name}Min": self.least,
            f"{name}Max": self.most,
        }
