"""Slotwise: the resource manager that a high-throughput-computing pool runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["__version__"]

#: The version of the workspace in `Cargo.toml`, which is the only place that states it.
__version__: str

if not TYPE_CHECKING:

    def __getattr__(name: str) -> str:
        """``__version__``, without loading the native module for those who do not ask."""
        if name == "__version__":
            from slotwise._native import __version__

            return __version__
        raise AttributeError(f"module 'slotwise' has no attribute {name!r}")
