"""Streams of ads from texts, files and pipes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Literal

from slotwise._native import ClassAd, complete_prefix, parse_text

Format = Literal["auto", "old", "new", "json", "xml"]

#: How many characters or bytes are read from a file at a time.
CHUNK = 4 << 20


def parse_ads(
    source: str | bytes | IO[str] | IO[bytes], *, format: Format = "auto", lenient: bool = False
) -> Iterator[ClassAd]:
    """Iterate over the ads of a text or of an open file or pipe, in their order.

    Old-format ads (``condor_status -long``) end at a blank line or one that begins with ``-----`` or ``***``, and are
    read as they arrive; ads in the other formats, bare or as a list, once the source is at its end.

    Raises AdSyntaxError for text that is not an ad. With ``lenient``, a bad line of the old format ends its ad quietly
    and the lines to the next separator are skipped, as ``classad2`` does.
    """
    if isinstance(source, str | bytes):
        return iter(parse_text(source, format=format, lenient=lenient))
    return _from_file(source, format, lenient)


def _from_file(source: IO[str] | IO[bytes], format: Format, lenient: bool) -> Iterator[ClassAd]:
    pending = b""
    while True:
        chunk = source.read(CHUNK)
        more = chunk.encode("utf-8", "surrogateescape") if isinstance(chunk, str) else chunk
        if not more:
            break
        pending += more
        if format == "auto" and pending.strip():
            format = _old_or_auto(pending)
        ready = complete_prefix(pending) if format == "old" else 0
        if ready:
            yield from parse_text(pending[:ready], format=format, lenient=lenient)
            pending = pending[ready:]
    if pending:
        yield from parse_text(pending, format=format, lenient=lenient)


def _old_or_auto(text: bytes) -> Format:
    return "auto" if text.lstrip()[:1] in (b"[", b"{", b"<", b"/") else "old"
