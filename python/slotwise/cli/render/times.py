"""Lengths of time as people read them."""

from __future__ import annotations


def span(seconds: float) -> str:
    """A length of time in the largest unit that fits: ``45s``, ``12m``, ``3.5h``, ``2.1d``."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            value = seconds / length
            return f"{value:.1f}".removesuffix(".0") + unit if value < 9.95 else f"{value:.0f}{unit}"
    return f"{seconds:.0f}s"
