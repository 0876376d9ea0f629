"""The claim ids of slots: which slot each belongs to, and how long that of a partitionable slot is valid.

One id carves many dynamic slots, as a cycle of the negotiator may match the slot many times. But a schedd that was
matched once must not carve for ever: once an id has been used the slot gets another, which is advertised to the
negotiator, and the previous one stays valid for MATCH_TIMEOUT, for the other matches of its cycle. What is left, and
what dynamic slots give back later, thus belongs to an id that nobody had. HTCondor's ids serve once.
"""

from __future__ import annotations

from collections.abc import Callable

from slotwise.model.slot import SlotKind
from slotwise.startd.host.host_state import HostState
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot.states import Claimed, Preempting

#: The claim id of a slot that is carved all the time is replaced at most so often (seconds).
PACE_S = 1.0


class ClaimIds:
    """All claim ids by which schedds may refer to slots.

    :param new_id: makes an id that nobody can guess.
    """

    def __init__(self, host: HostState, new_id: Callable[[], str]) -> None:
        self._host = host
        self.new_id = new_id
        #: Names of slots, by claim id.
        self.by_id: dict[str, str] = {}

    def slot_of(self, claim_id: str) -> SlotRecord | None:
        """The slot that a claim id belongs to."""
        return self._host.slots.get(self.by_id.get(claim_id))

    def is_valid(self, record: SlotRecord, claim_id: str, now: float) -> bool:
        """Whether a claim id that belongs to the slot may claim it now."""
        return claim_id == record.ids.current or now < record.ids.previous.get(claim_id, now)

    def add(self, record: SlotRecord) -> None:
        """Give a new dynamic slot its claim id."""
        record.ids.current = self.new_id()
        self.by_id[record.ids.current] = record.name

    def renew(self, record: SlotRecord, *, keep: bool = False) -> None:
        """Give the slot a new claim id.

        The previous ones become invalid, unless they are to be kept or a claim has them.
        """
        if not keep:
            for claim_id in [record.ids.current, *record.ids.previous]:
                self.invalidate(record, claim_id)
        self.add(record)
        record.ids.used = False
        self._host.outbox.touch(record.name)

    def invalidate(self, record: SlotRecord, claim_id: str) -> None:
        """Invalidate an id of the slot, unless a claim has it."""
        record.ids.previous.pop(claim_id, None)
        state = record.slot.state
        if isinstance(state, Claimed | Preempting):
            held = {state.claim.claim_id, state.waiting.claim.claim_id if state.waiting is not None else ""}
            if claim_id in held:
                return
        self.by_id.pop(claim_id, None)

    def renew_unclaimed(self) -> None:
        """Renew the ids that negotiators may still have: those of slots that are not claimed as a whole."""
        for record in self._host.slots:
            if record.slot.claim is None or record.kind is SlotKind.PARTITIONABLE:
                self.renew(record)

    def used(self, record: SlotRecord, claim_id: str, now: float, *, renew: bool = False) -> None:
        """Note that dynamic slots were carved with the id; ``renew``: replace it now, as the schedd is to get the
        next one."""
        if claim_id == record.ids.current:
            record.ids.used = True
            if renew:
                self._replace(record, now)

    def settle(self, now: float) -> None:
        """Replace ids that were used, and invalidate those that have expired."""
        for record in self._host.slots:
            if record.kind is not SlotKind.PARTITIONABLE:
                continue
            if record.ids.used and now - record.ids.renewed_at >= PACE_S:
                self._replace(record, now)
            for claim_id in [claim_id for claim_id, until in record.ids.previous.items() if now >= until]:
                self.invalidate(record, claim_id)

    def _replace(self, record: SlotRecord, now: float) -> None:
        previous = {**record.ids.previous, record.ids.current: now + self._host.settings.timers.match_s}
        record.ids.previous = {}  # they stay valid, unlike those that a renewal invalidates
        self.renew(record, keep=True)
        record.ids.previous, record.ids.renewed_at = previous, now
