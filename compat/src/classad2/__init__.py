"""HTCondor's module classad2, over :mod:`slotwise.classad`."""

from __future__ import annotations

from slotwise.release import HTCONDOR as _VERSION

from classad2._class_ad import ClassAd, ExprTree
from classad2._enums import ClassAdException, ParserType, Value
from classad2._errors import last as lastError
from classad2._parsing import parse_ads as parseAds
from classad2._parsing import parse_next as parseNext
from classad2._parsing import parse_one as parseOne
from classad2._parsing import quote, unquote

#: The name of version 1.
Parser = ParserType


def version() -> str:
    """The release of HTCondor whose ClassAd language this is."""
    return _VERSION


__all__ = [
    "ClassAd",
    "ClassAdException",
    "ExprTree",
    "Parser",
    "ParserType",
    "Value",
    "lastError",
    "parseAds",
    "parseNext",
    "parseOne",
    "quote",
    "unquote",
    "version",
]
