"""A slot as the journal of the startd has it."""

from __future__ import annotations

from msgspec import Struct

from slotwise.model.resources import Resources
from slotwise.startd.records.breakage import Breakage, Withheld
from slotwise.startd.records.slot_record import Terms
from slotwise.startd.slot import states


class SavedSlot(Struct, frozen=True):
    """A slot as the journal has it."""

    name: str
    parent: str | None
    slot_id: int
    dslot_id: int
    type_number: int
    total: Resources
    returned: bool
    capability: str
    state: states.SlotState
    entered_state: float
    entered_activity: float
    counters: states.Counters
    broken: str | None
    broken_code: int
    breakage: Breakage | None
    #: What broken dynamic slots withhold, and what is to be withheld once it is free.
    withheld: list[Withheld]
    pending_withheld: list[Withheld]
    last_run: str
    terms: Terms
    activation: tuple[str, str, str] | None
    request: bytes
    job: bytes
    #: Fetched work that has yet to start: its run, its claim, and its ad.
    fetched_work: tuple[str, str, bytes] | None = None
