"""What a negotiator decides in a cycle, as values of our own."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Match(Struct, frozen=True):
    """A slot for up to ``count`` jobs of an autocluster of a submitter. ``id`` is 0 for what is left of a slot."""

    submitter: str
    autocluster: int
    slot_name: str
    startd: str
    claim_id: str
    count: int = 1
    id: int = 0
    slot_ad: bytes = b""
    preempt_claim_ids: Sequence[str] = ()


class Rejection(Struct, frozen=True):
    """Why nothing was found for an autocluster of a submitter."""

    submitter: str
    autocluster: int
    reason: str
