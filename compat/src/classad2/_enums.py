"""Constants of classad2, with HTCondor's numbers."""

from __future__ import annotations

import enum


class ClassAdException(Exception):
    """A text that is not a ClassAd or not an expression."""


class Value(enum.IntEnum):
    """The special values UNDEFINED and ERROR. Both are true in Python, as in HTCondor's module."""

    Error = 1
    Undefined = 2


class ParserType(enum.IntEnum):
    """The text forms of ClassAds."""

    Auto = -1
    Old = 0
    XML = 1
    JSON = 2
    New = 3
    FileAuto = 4
