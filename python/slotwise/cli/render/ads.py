"""Whole ads for programs: long form, one JSON array, JSON lines; and ads read back from files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.classad import ClassAd, ExprTree, parse_ads
from slotwise.errors import NotFoundError
from slotwise.table import AdTable, unpack_ads

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation


def long_text(ads: Iterable[ClassAd], projection: list[str] | None = None) -> str:
    """``Name = value`` lines sorted by name, a blank line after each ad."""
    return AdTable.of(ads).long_text(None, projection).decode(errors="surrogateescape")


def json_array(ads: Iterable[ClassAd], projection: list[str] | None = None) -> str:
    """One JSON array of objects."""
    return AdTable.of(ads).json_text(None, projection).decode()


def xml_text(ads: Iterable[ClassAd], projection: list[str] | None = None) -> str:
    """An XML document of ads; attributes that were asked for come in that order."""
    found: Iterable[ClassAd] = ads
    if projection:
        found = [_only(ad, projection) for ad in unpack_ads(AdTable.of(ads).query(None, projection))]
    head = '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'
    return head + "".join(ad.print_xml().rstrip("\n") + "\n" for ad in found) + "</classads>\n"


def _only(ad: ClassAd, names: list[str]) -> ClassAd:
    made = ClassAd()
    for name in names:
        if name in ad:
            made[name] = ad.lookup(name)
    return made


def new_text(ads: Iterable[ClassAd], projection: list[str] | None = None) -> str:
    """The ads in the new syntax, in braces, one a line."""
    found: Iterable[ClassAd] = ads
    if projection:
        found = [_only(ad, projection) for ad in ads]
    texts = [str(ExprTree(ad)) for ad in found]
    return "{\n" + ",\n".join(texts) + "\n}\n" if texts else ""


def spread(text: str) -> str:
    """A JSON array with brackets and commas between ads on lines of their own, as HTCondor's tool writes it; empty for
    no ads."""
    if not text.strip("[] \n"):
        return ""
    text = re.sub(r"^\},\n\{", "}\n,\n{", text, flags=re.MULTILINE)
    return "[\n" + text.strip().removeprefix("[").removesuffix("]").strip("\n") + "\n]\n"


def json_lines(array: str) -> str:
    """One object a line, from the text of an array."""
    rows: list[object] = json.loads(array)
    return "".join(json.dumps(row) + "\n" for row in rows)


def read_file(path: Path) -> Iterator[ClassAd]:
    """The ads of a file in long form.

    :raises NotFoundError: when the file cannot be read.
    """
    try:
        return parse_ads(path.read_bytes())
    except OSError as error:
        raise NotFoundError(f"cannot read {path}: {error.strerror}") from None


def read_stream(name: str, inv: Invocation) -> Iterator[ClassAd]:
    """The ads of a file in long form, or of standard input when it is called ``-``."""
    return parse_ads(inv.stdin.read().encode(errors="surrogateescape")) if name == "-" else read_file(inv.path(name))


def chosen(ads: Iterable[ClassAd], constraint: str, limit: int | None) -> list[ClassAd]:
    """The ads for which ``constraint`` is true, at most ``limit``."""
    return unpack_ads(AdTable.of(ads).query(constraint or None, None, limit))
