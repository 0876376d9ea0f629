"""What follows when the startd itself fails at a message: the claims that it is about end, and slots are whole again.

An exception may come between two changes that belong together. States of slots are values and always whole; indexes,
amounts and claim ids beside them are made anew from the states. Nothing here asks the owner's policy, which may be what
has failed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from slotwise.daemon.containment import contained
from slotwise.model.slot import SlotKind
from slotwise.startd.host.effects import CARRY_OUT
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.host.outbox import Ended, ToSchedd
from slotwise.startd.records.slot_record import Holding
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Cause, Claimed, Deleted, Preempting, Slot

_log = logging.getLogger(__name__)


def abandon(point: ExecutionPoint, names: Iterable[str], cause: Cause, now: float) -> None:
    """End the claims on these slots at once, with their runs, after whatever has failed was put right.

    Whether the starter knows the runs is not certain; its list of runs tells.
    """
    with contained(_log, "putting slots right after a failure"):
        repair(point, cause, now)
    for name in dict.fromkeys(names):
        h = point.holdings.get(name)
        if h is None:
            continue
        with contained(_log, f"{name}: ending its claim after a failure"):
            stimulus = ev.Abandoned(cause.reason) if h.slot.claim is not None else ev.Evaluate()
            point.happen(h, stimulus, now, judge=_nobody)
        point.outbox.changed[name] = point.outbox.dirty[name] = None


def _nobody(slot: Slot) -> ev.PolicyEval:
    """Stands for the owner's policy."""
    return ev.PolicyEval()


def repair(point: ExecutionPoint, cause: Cause, now: float) -> None:
    """Make indexes, amounts and claim ids anew from the states of the slots; tell schedds of claims that have gone."""
    for h in list(point.holdings.values()):
        if isinstance(h.slot.state, Deleted):
            with contained(_log, f"{h.name}: deleting it"):
                CARRY_OUT[ev.DeleteSlot](point, h, ev.DeleteSlot(), now)
    known = point.by_claim
    point.by_claim, point.by_run = {}, {}
    for h in point.holdings.values():
        for claim_id in _ids(h):
            point.by_claim[claim_id] = h.name
        if h.slot.run is not None:
            point.by_run[h.slot.run.run_id] = h.name
        elif h.activation is not None:
            h.activation = None
        if h.slot.claim is None:
            h.queued = h.request = None
            h.serials.clear()
            h.askers.clear()
    for claim_id in known.keys() - point.by_claim.keys():
        _tell_of_end(point, known[claim_id], claim_id, cause)
    for h in point.holdings.values():
        if h.kind is SlotKind.PARTITIONABLE:
            with contained(_log, f"{h.name}: counting what is left of it"):
                _recount(point, h)
        if h.kind is not SlotKind.DYNAMIC and _needs_id(h):
            point.fresh_capability(h)


def _ids(h: Holding) -> list[str]:
    """All ids by which the slot may be spoken of."""
    state = h.slot.state
    claims = [state.claim] if isinstance(state, Claimed | Preempting) else []
    if isinstance(state, Claimed | Preempting) and state.waiting is not None:
        claims.append(state.waiting.claim)
    held = [claim.claim_id for claim in claims if not claim.fetched]  # nobody speaks of those of fetched work
    return [*held, h.capability, *h.former]


def _needs_id(h: Holding) -> bool:
    """Whether the slot shows an id that a claim has, or had."""
    claim = h.slot.claim
    return claim is not None and claim.claim_id == h.capability


def _tell_of_end(point: ExecutionPoint, name: str, claim_id: str, cause: Cause) -> None:
    h = point.holdings.get(name)
    terms = h.terms if h is not None else None
    if terms is not None and terms.schedd_name:
        point.outbox.schedds.append(ToSchedd(terms.schedd_name, 0, claim_id, Ended(cause)))


def _recount(point: ExecutionPoint, h: Holding) -> None:
    """What a partitionable slot has left is what it was made of less what its dynamic slots have and took along."""
    h.children = {child.name for child in point.holdings.values() if child.parent == h.name}
    free = h.total.minus(h.lost)
    for child in point.children(h):
        if not child.returned:
            free = free.minus(child.total)
    h.free = free
