"""What follows when the startd itself fails at a message: the claims that it is about end, and slots are whole again.

An exception may come between two changes that belong together. States of slots are values and always whole; indexes,
amounts and claim ids beside them are made anew from the states. Nothing here evaluates the owner's policy, which may be
what has failed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from slotwise.daemon.containment import contained
from slotwise.model.slot import SlotKind
from slotwise.startd.host.claim_ids import ClaimIds
from slotwise.startd.host.effects import Effects
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.outbox import Ended, ToSchedd
from slotwise.startd.host.transitions import ApplyEvent
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Cause, Claimed, Deleted, Preempting, Slot

_log = logging.getLogger(__name__)


class Faults:
    """Abandons the claims that a failure is about."""

    def __init__(self, host: HostState, claim_ids: ClaimIds, effects: Effects, apply: ApplyEvent) -> None:
        self._host, self._claim_ids, self._effects, self._apply = host, claim_ids, effects, apply

    def abandon(self, names: Iterable[str], cause: Cause, now: float) -> None:
        """End the claims on these slots at once, with their runs, after repairing what has failed halfway.

        Whether the starter knows the runs is not certain; its list of runs shows that.
        """
        with contained(_log, "putting slots right after a failure"):
            self.repair(cause, now)
        for name in dict.fromkeys(names):
            record = self._host.slots.get(name)
            if record is None:
                continue
            with contained(_log, f"{name}: ending its claim after a failure"):
                event = ev.Abandoned(cause.reason) if record.slot.claim is not None else ev.Evaluate()
                self._apply(record, event, now, evaluate=_no_policy)
            self._host.outbox.touch(name)

    def repair(self, cause: Cause, now: float) -> None:
        """Make indexes, amounts and claim ids anew from the states of the slots; report claims that have gone."""
        slots, claim_ids = self._host.slots, self._claim_ids
        for record in slots:
            if isinstance(record.slot.state, Deleted):
                with contained(_log, f"{record.name}: deleting it"):
                    self._effects.delete(record, now)
        known = claim_ids.by_id
        claim_ids.by_id, slots.by_run = {}, {}
        for record in slots:
            for claim_id in _ids(record):
                claim_ids.by_id[claim_id] = record.name
            if record.slot.run is not None:
                slots.by_run[record.slot.run.run_id] = record.name
            elif record.activation is not None:
                record.activation = None
            if record.slot.claim is None:
                record.queued = record.request = None
                record.serials.clear()
                record.requesters.clear()
        for claim_id in known.keys() - claim_ids.by_id.keys():
            self._report_end(known[claim_id], claim_id, cause)
        for record in slots:
            if record.kind is SlotKind.PARTITIONABLE:
                with contained(_log, f"{record.name}: counting what is left of it"):
                    self._recount(record)
            if record.kind is not SlotKind.DYNAMIC and _needs_id(record):
                claim_ids.renew(record)

    def _report_end(self, name: str, claim_id: str, cause: Cause) -> None:
        record = self._host.slots.get(name)
        if record is not None and record.terms.schedd_name:
            self._host.outbox.schedds.append(ToSchedd(record.terms.schedd, 0, claim_id, Ended(cause)))

    def _recount(self, record: SlotRecord) -> None:
        """What a partitionable slot has left is what it was made of less what its dynamic slots have and withhold."""
        record.children = {child.name for child in self._host.slots if child.parent == record.name}
        free = record.total.minus(record.withheld.total)
        for child in self._host.slots.children(record):
            if not child.returned:
                free = free.minus(child.total)
        record.free = free


def _no_policy(slot: Slot) -> ev.PolicyEval:
    """Stands for the owner's policy."""
    return ev.PolicyEval()


def _ids(record: SlotRecord) -> list[str]:
    """All ids by which schedds may refer to the slot."""
    state = record.slot.state
    claims = [state.claim] if isinstance(state, Claimed | Preempting) else []
    if isinstance(state, Claimed | Preempting) and state.waiting is not None:
        claims.append(state.waiting.claim)
    held = [claim.claim_id for claim in claims if not claim.fetched]  # no schedd knows those of fetched work
    return [*held, record.ids.current, *record.ids.previous]


def _needs_id(record: SlotRecord) -> bool:
    """Whether the slot shows an id that a claim has, or had."""
    claim = record.slot.claim
    return claim is not None and claim.claim_id == record.ids.current
