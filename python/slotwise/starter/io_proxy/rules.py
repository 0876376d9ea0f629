"""The knobs of chirp."""

from __future__ import annotations

from msgspec import Struct


class ChirpRules(Struct, frozen=True):
    """ENABLE_CHIRP and its kin; ``prefixes``: patterns of names for delayed updates, ``most``: how many of them."""

    files: bool = True
    updates: bool = True
    delayed: bool = True
    prefixes: tuple[str, ...] = ("Chirp*",)
    most: int = 100
