"""The text of an event log between the promise to write it, which the store keeps, and the write."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedText:
    """Log text that was promised; it may or may not be in the file at ``path``, from ``offset`` on."""

    seq: int
    path: str
    owner: str
    offset: int
    text: str
