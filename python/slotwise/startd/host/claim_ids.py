"""How long the claim id of a partitionable slot is good for.

One id carves many dynamic slots, as a cycle of the negotiator may match the slot many times. But a schedd that was
matched once must not carve for ever: once an id has been used the slot gets another, which the negotiator hears of, and
the former one is good for MATCH_TIMEOUT more, for the other matches of its cycle. What is left, and what dynamic slots
give back later, thus belongs to an id that nobody had. HTCondor's ids serve once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.model.slot import SlotKind

if TYPE_CHECKING:
    from slotwise.startd.host.execution_point import ExecutionPoint
    from slotwise.startd.records.slot_record import Holding

#: A slot that is carved all the time gets a fresh id only so often (seconds).
PACE_S = 1.0


def carves(h: Holding, claim_id: str, now: float) -> bool:
    """Whether a claim id that belongs to the slot may claim it now."""
    return claim_id == h.capability or now < h.former.get(claim_id, now)


def used(point: ExecutionPoint, h: Holding, claim_id: str, now: float, *, at_once: bool = False) -> None:
    """Dynamic slots were carved with the id; ``at_once``: the schedd is to be told of the next one."""
    if claim_id == h.capability:
        h.spent = True
        if at_once:
            _renew(point, h, now)


def settle(point: ExecutionPoint, now: float) -> None:
    """Replace ids that were used; forget those whose time is over."""
    for h in point.holdings.values():
        if h.kind is not SlotKind.PARTITIONABLE:
            continue
        if h.spent and now - h.renewed_at >= PACE_S:
            _renew(point, h, now)
        for claim_id in [claim_id for claim_id, until in h.former.items() if now >= until]:
            point.forget_id(h, claim_id)


def _renew(point: ExecutionPoint, h: Holding, now: float) -> None:
    former = {**h.former, h.capability: now + point.settings.timers.match_s}
    h.former = {}  # they stay good, unlike those that a fresh capability makes void
    point.fresh_capability(h, keep=True)
    h.former, h.renewed_at = former, now
