"""Taking up the claims of a former startd on the same host.

Slots of the layout get their claims back; dynamic slots are made again out of what their partitionable slots have. A
claim whose slot no longer exists, or no longer fits, is given up. What runs, the starter tells afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from slotwise.classad import ClassAd
from slotwise.errors import InvariantError
from slotwise.model.slot import SlotKind, VacateCode
from slotwise.startd.host import broken_slots, hook_notices
from slotwise.startd.host.drain import DrainBook
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.host.outbox import Forget
from slotwise.startd.records.saved_slot import SavedSlot
from slotwise.startd.records.slot_record import Activation, Coming, Holding, Job, Terms
from slotwise.startd.slot.states import Cause, Claimed, Owner, Preempting, Slot, Waiting

Unpack = Callable[[bytes], list[ClassAd]]

_NO_SLOT = Cause(VacateCode.CLAIM_NOT_FOUND, "the slot that had the work is there no longer", tell_schedd=False)


def restore(point: ExecutionPoint, kept: Iterable[SavedSlot], unpack: Unpack, now: float) -> list[str]:
    """Put claims back; returns the run ids whose slots could not be, which must be ended."""
    lost: list[str] = []
    names = set()
    for record in sorted(kept, key=lambda k: (k.parent or "", k.slot_id, k.dslot_id)):
        names.add(record.name)
        state = record.state
        if not isinstance(state, Claimed | Preempting):
            if record.parent is not None and record.broken:
                _stay_broken(point, record, now)
            _give_back(point, record, unpack, now)
            _counters(point, record)
            continue
        h = _place(point, record, now)
        if h is not None and record.parent is None:
            _counters(point, record)
        run = state.run
        if h is None:
            if run is not None:
                lost.append(run.run_id)
                point.outbox.starter.append(Forget(run.run_id))
            _give_back(point, record, unpack, now)
            continue
        _fill(point, h, record, state, unpack, now)
    for name in names - point.holdings.keys():
        point.outbox.dirty[name] = point.outbox.removed[name] = None
    return lost


def _give_back(point: ExecutionPoint, record: SavedSlot, unpack: Unpack, now: float) -> None:
    """Fetched work of a slot that cannot have it any more, as the layout has changed or filler work came first."""
    found: list[tuple[str, str, bytes]] = [record.coming] if record.coming is not None else []
    state = record.state
    if isinstance(state, Claimed | Preempting) and state.claim.fetched and state.run is not None:
        found.append((state.run.run_id, state.claim.claim_id, record.job))
    slot = point.holdings.get(record.name) or Holding(
        Slot(record.name, SlotKind.STATIC, Owner(), now, now), record.slot_id, record.type_number, record.total,
        record.total,
    )  # fmt: skip
    for run_id, claim_id, pack in found:
        job = _job(pack, unpack, now)
        if job is not None:
            hook_notices.tell_evicted(point, slot, Activation(0, run_id, "", "", job, fetched=True), claim_id, _NO_SLOT)


def _stay_broken(point: ExecutionPoint, record: SavedSlot, now: float) -> None:
    """A broken dynamic slot that stays."""
    h = _place(point, record, now)
    if h is not None:
        h.slot = replace(h.slot, state=Owner(), lasting=True)
        point.show(h, now)


def _counters(point: ExecutionPoint, record: SavedSlot) -> None:
    h = point.holdings.get(record.name)
    if h is None:
        return
    h.slot = replace(h.slot, counters=record.counters)
    h.last_run = record.last_run
    if record.broken and not h.slot.broken:
        h.slot = replace(h.slot, broken=record.broken, broken_code=record.broken_code)
        h.breakage = record.breakage
    if h.kind is SlotKind.PARTITIONABLE:  # as far as the slot of the present layout still has it
        h.owed = [loss for loss in record.owed if loss not in h.owed]
        for loss in record.losses:
            broken_slots.take(h, loss)
    point.outbox.changed[h.name] = point.outbox.dirty[h.name] = None


def forget(point: ExecutionPoint) -> None:
    """An orderly stop: whoever starts the startd again has looked after what was broken, and drains no more."""
    point.order, point.book = None, DrainBook()
    broken_slots.forget_faults(point)


def _place(point: ExecutionPoint, record: SavedSlot, now: float) -> Holding | None:
    """The slot that the claim was on, made anew when it is a dynamic one."""
    if record.parent is None:
        h = point.holdings.get(record.name)
        claimable = h is not None and (h.kind is not SlotKind.PARTITIONABLE or point.settings.pslot_claim_s > 0)
        return h if claimable else None
    parent = point.holdings.get(record.parent)
    if parent is None or parent.kind is not SlotKind.PARTITIONABLE:
        return None
    if not record.returned:
        try:
            left = parent.free.minus(record.total)
        except InvariantError:
            return None
        if not left.nowhere_negative():
            return None
        parent.free = left
    slot = Slot(record.name, SlotKind.DYNAMIC, record.state, record.entered_state, record.entered_activity)
    child = Holding(
        slot, record.slot_id, record.type_number, record.total, record.total, parent=parent.name,
        dslot_id=record.dslot_id, returned=record.returned, backfill=parent.backfill,
    )  # fmt: skip
    child.ad, child.shown = parent.ad.copy(), parent.shown
    parent.children.add(record.name)
    point.holdings[record.name] = child
    point.fresh_capability(child)
    point.outbox.changed[parent.name] = None
    return child


def _fill(
    point: ExecutionPoint, h: Holding, record: SavedSlot, state: Claimed | Preempting, unpack: Unpack, now: float
) -> None:
    waiting = _work_that_waits(h, record, state, unpack, now)
    h.slot = Slot(
        record.name, h.kind, replace(state, waiting=waiting), record.entered_state, record.entered_activity,
        counters=record.counters, broken=record.broken, broken_code=record.broken_code,
        lasting=point.settings.broken_lasts and h.kind is SlotKind.DYNAMIC,
    )  # fmt: skip
    h.breakage, h.last_run = record.breakage, record.last_run
    h.terms = record.terms
    if not state.claim.fetched:
        point.by_claim[state.claim.claim_id] = h.name
    request = _job(record.request, unpack, now)
    h.request = request
    job = _job(record.job, unpack, now) or request
    if record.activation is not None and job is not None:
        run_id, token, shadow = record.activation
        h.activation = Activation(0, run_id, token, shadow, job, fetched=state.claim.fetched)
    if state.run is not None:
        point.by_run[state.run.run_id] = h.name
    point.show(h, now)
    point.outbox.changed[h.name] = point.outbox.dirty[h.name] = None


def _work_that_waits(
    h: Holding, record: SavedSlot, state: Claimed | Preempting, unpack: Unpack, now: float
) -> Waiting | None:
    """Requests of schedds that waited are made again by them; fetched work that was accepted still waits."""
    if record.coming is None or state.waiting is None or not state.waiting.claim.fetched:
        return None
    run_id, claim_id, pack = record.coming
    job = _job(pack, unpack, now)
    if job is None:
        return None
    h.coming = Coming(Activation(0, run_id, "", "", job, fetched=True), claim_id, accepted=True)
    h.waiting, h.waiting_terms = job, Terms("", "", state.waiting.claim.submitter)
    return state.waiting


def _job(pack: bytes, unpack: Unpack, now: float) -> Job | None:
    if not pack:
        return None
    found = unpack(pack)
    return Job.of(pack, found[0], None, now) if found else None
