"""The low power states by number and name. Pure.

Source: manual, HIBERNATE; the words are those that HTCondor knows, whatever their case.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Words for each level; the first is how ads and plug-ins call it. Level 0 is awake.
WORDS: tuple[tuple[str, ...], ...] = (
    ("NONE", "0"),
    ("S1", "1", "STANDBY", "SLEEP"),
    ("S2", "2"),
    ("S3", "3", "RAM", "MEM", "SUSPEND"),
    ("S4", "4", "DISK", "HIBERNATE"),
    ("S5", "5", "SHUTDOWN", "OFF"),
)
#: From here the machine starts anew when it wakes.
OFF = 5
_BY_WORD = {word: level for level, words in enumerate(WORDS) for word in words}


def level_of(word: str) -> int:
    """The level that a word means; 0 for a word that means none."""
    return _BY_WORD.get(word.strip().upper(), 0)


def name_of(level: int) -> str:
    """``S3`` for 3, ``NONE`` for 0."""
    return WORDS[level][0]


def levels_in(text: str) -> frozenset[int]:
    """The levels of a list such as ``S3, S4``."""
    return frozenset(level_of(word) for word in text.replace(",", " ").split()) - {0}


def listed(levels: Iterable[int]) -> str:
    """``S3,S4``, as HibernationSupportedStates has it."""
    return ",".join(name_of(level) for level in sorted(levels))
