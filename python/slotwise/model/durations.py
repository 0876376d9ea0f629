"""Durations as HTCondor's tables show them."""

from __future__ import annotations


def days_and_time(seconds: float) -> str:
    """``D+HH:MM:SS``."""
    whole = max(0, int(seconds))
    return f"{whole // 86400}+{whole // 3600 % 24:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
