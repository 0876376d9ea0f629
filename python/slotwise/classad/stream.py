"""Streams of ads from texts, files and pipes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from slotwise._native import ClassAd, parse_old


def parse_ads(source: str | bytes | IO[str] | IO[bytes], *, lenient: bool = False) -> Iterator[ClassAd]:
    """Iterate over the ads of a text or of an open file, in the order they come.

    Raises AdSyntaxError for text that is no ad; ``lenient`` keeps what came before a bad line instead.
    """
    text = source if isinstance(source, str | bytes) else source.read()
    return iter(parse_old(text, lenient=lenient))
