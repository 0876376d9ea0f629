"""Text for an event log, from the commit that plans it to the write."""

from __future__ import annotations

from msgspec import Struct

#: An event log: its path, and the account whose rights write it.
Log = tuple[str, str]


class PlannedText(Struct, frozen=True):
    """A planned text; it may already be in the file at ``path``, at ``offset`` or after it."""

    seq: int
    path: str
    owner: str
    offset: int
    text: str
