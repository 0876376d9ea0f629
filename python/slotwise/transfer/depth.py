"""How deep directories within directories may be that are sent, on either side."""

from __future__ import annotations

#: Levels at most: whoever receives and removes them goes through them one within the other.
MOST_LEVELS = 256
#: What is wrong with deeper ones.
TOO_DEEP = f"more than {MOST_LEVELS} directories deep"


def is_too_deep(name: str) -> bool:
    """Whether a relative name of a file, without ``.`` and ``..``, has more directories in it than are sent."""
    return name.count("/") > MOST_LEVELS
