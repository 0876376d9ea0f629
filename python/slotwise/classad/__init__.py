"""The ClassAd language: ads, expressions, parsing, matching.

>>> from slotwise.classad import ClassAd, ExprTree
>>> job = ClassAd({"RequestMemory": 1024})
>>> ExprTree("TARGET.Memory >= RequestMemory").eval(job, ClassAd("[ Memory = 2048 ]"))
True

``docs/reference/classad.md`` describes the language as it is here, and where it differs from HTCondor's.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from slotwise._native import (
    ERROR,
    UNDEFINED,
    ClassAd,
    ExprTree,
    References,
    SpecialValue,
    define_user_map,
    definition_in,
    quote,
    take_fault,
)
from slotwise.classad.dialect import new_syntax
from slotwise.classad.matching import Clause, Match, Side, match
from slotwise.classad.stream import parse_ads
from slotwise.classad.values import Value

MutableMapping.register(ClassAd)

__all__ = [
    "ERROR",
    "UNDEFINED",
    "ClassAd",
    "Clause",
    "ExprTree",
    "Match",
    "References",
    "Side",
    "SpecialValue",
    "Value",
    "define_user_map",
    "definition_in",
    "match",
    "new_syntax",
    "parse_ads",
    "quote",
    "take_fault",
]
