"""Ads from text: ``parseAds``, ``parseOne``, ``parseNext``, ``quote``, ``unquote``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Literal

from slotwise import classad
from slotwise.errors import AdSyntaxError

from classad2._class_ad import ClassAd
from classad2._enums import ClassAdException, ParserType

_FORMATS: dict[ParserType, Literal["auto", "old", "new", "xml", "json"]] = {
    ParserType.Auto: "auto",
    ParserType.FileAuto: "auto",
    ParserType.Old: "old",
    ParserType.New: "new",
    ParserType.XML: "xml",
    ParserType.JSON: "json",
}


def parse_ads(input: str | IO[str] | Iterable[str], parser: ParserType = ParserType.Auto) -> Iterator[ClassAd]:
    """The ads of a text or file, one after another. Reading ends without an error where a text is not an ad."""
    text = input if isinstance(input, str) else "".join(input)
    if not text.strip():
        return
    try:
        for ad in classad.parse_ads(text, format=_FORMATS[ParserType(parser)], lenient=True):
            yield ClassAd._of(ad)
    except AdSyntaxError:
        return


def parse_one(input: str | IO[str] | Iterable[str], parser: ParserType = ParserType.Auto) -> ClassAd:
    """All ads of a text in one; later ones replace attributes of earlier ones."""
    merged = ClassAd()
    for ad in parse_ads(input, parser):
        for name in ad:
            merged[name] = ad.lookup(name)
    return merged


def parse_next(input: str | IO[str], parser: ParserType = ParserType.Auto) -> ClassAd:
    """The first ad of a text or file; a file is left behind it."""
    if isinstance(input, str):
        return next(parse_ads(input, parser), ClassAd())
    lines: list[str] = []
    depth = 0
    for line in iter(input.readline, ""):
        if not line.strip() and not depth:
            if lines:
                break
            continue
        lines.append(line)
        if lines[0].lstrip().startswith("["):
            depth += line.count("[") - line.count("]")
            if depth <= 0:
                break
    return next(parse_ads("".join(lines), parser), ClassAd())


def quote(input: str) -> str:
    """The text as a string literal of the ClassAd language."""
    return classad.quote(input)


def unquote(input: str) -> str:
    """The text of a string literal.

    :raises ValueError: ``input`` is not one.
    """
    try:
        value = classad.ExprTree(input).eval()
    except AdSyntaxError:
        value = None
    if not isinstance(value, str):
        raise ValueError("String does not parse to a ClassAd literal")
    return value


__all__ = ["ClassAdException", "parse_ads", "parse_next", "parse_one", "quote", "unquote"]
