"""Why a slot is broken, and the amounts that broken dynamic slots withhold from their partitionable slot."""

from __future__ import annotations

from msgspec import Struct, field

from slotwise.classad.evaluate import Value
from slotwise.model.resources import Resources
from slotwise.model.slot import BrokenCode


class Breakage(Struct, frozen=True):
    """When and why something broke (SlotBrokenCode), and whose job it was (BROKEN_SLOT_CONTEXT_ATTRS)."""

    reason: str
    code: int = BrokenCode.UNCLEAN
    at: float = 0
    run_id: str = ""
    context: dict[str, Value] = field(default_factory=dict)


class Withheld(Struct, frozen=True):
    """Amounts of a broken dynamic slot that its partitionable slot does not get back."""

    name: str
    amounts: Resources
    breakage: Breakage


class WithheldAmounts(Struct):
    """What broken dynamic slots withhold from a partitionable slot: in all, one by one, and what is to be withheld
    once it is free."""

    total: Resources = field(default_factory=Resources)
    entries: list[Withheld] = field(default_factory=list)
    pending: list[Withheld] = field(default_factory=list)
