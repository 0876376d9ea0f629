"""What all parts of an execution point work on: the configuration in force, the slots, and the outbox."""

from __future__ import annotations

from msgspec import Struct, field

from slotwise.startd.host.outbox import Outbox, ScheddMessage, ToSchedd
from slotwise.startd.host.slots import Slots
from slotwise.startd.records.slot_record import ScheddId, SlotRecord
from slotwise.startd.settings import Settings


class HostState(Struct):
    """The slots of a host, the configuration in force, and the outbox.

    ``settings`` is replaced by a reconfiguration, ``outbox`` when it is emptied: parts read them here each time.
    """

    settings: Settings
    slots: Slots = field(default_factory=Slots)
    outbox: Outbox = field(default_factory=Outbox)

    def notify_schedd(
        self, record: SlotRecord, claim_id: str, what: ScheddMessage, schedd: ScheddId | None = None
    ) -> None:
        """Queue a message to the schedd of a claim; it answers the request about the claim that is still open."""
        serial = record.serials.pop(claim_id, 0)
        self.outbox.schedds.append(ToSchedd(schedd or record.terms.schedd, serial, claim_id, what))
