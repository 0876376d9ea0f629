"""The ClassAd language: ads, expressions, parsing, matching.

>>> from slotwise.classad import ClassAd, ExprTree
>>> job = ClassAd({"RequestMemory": 1024})
>>> ExprTree("TARGET.Memory >= RequestMemory").eval(job, ClassAd("[ Memory = 2048 ]"))
True
"""

from __future__ import annotations

from collections.abc import MutableMapping

from slotwise._native import ERROR, UNDEFINED, ClassAd, ExprTree, SpecialValue, quote
from slotwise.classad.stream import parse_ads

MutableMapping.register(ClassAd)


def match(a: ClassAd, b: ClassAd, *, now: int | None = None) -> bool:
    """Whether each of the two ads satisfies the other's Requirements."""
    return a.symmetric_match(b, now=now)


__all__ = [
    "ERROR",
    "UNDEFINED",
    "ClassAd",
    "ExprTree",
    "SpecialValue",
    "match",
    "parse_ads",
    "quote",
]
