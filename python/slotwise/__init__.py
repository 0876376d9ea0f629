"""Slotwise: the resource manager that a high-throughput-computing pool runs on."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
