"""What a negotiator decides in a cycle, as values of our own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Match:
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


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why nothing was found for an autocluster of a submitter."""

    submitter: str
    autocluster: int
    reason: str
