"""Requests for partitionable slots: dynamic slots are carved and claimed, others make room for them; a schedd may have
the partitionable slot to itself for a while. Source: manual, ENABLE_CLAIMABLE_PARTITIONABLE_SLOTS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from slotwise.classad.evaluate import attribute, write
from slotwise.model.resources import Resources
from slotwise.model.slot import SlotKind, VacateCode
from slotwise.startd.host import backfill_slots, broken_slots, claim_ids
from slotwise.startd.host.claim_request import Ask, new_claim, refuse, why_no_match
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.host.outbox import Granted, ToSchedd
from slotwise.startd.policy.consumption import requested
from slotwise.startd.records.slot_record import Holding, Job
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.retirement import own_remaining
from slotwise.startd.slot.states import Claimed, Drained, Slot, Unclaimed
from slotwise.startd.slot_ad import attributes as slot_ad
from slotwise.startd.slot_types.carve import NotCarved, carve, lowest_free
from slotwise.startd.slot_types.devices import names_device


def request_dynamic(point: ExecutionPoint, h: Holding, ask: Ask, now: float) -> None:
    closed = _closed(h, ask)
    if closed is not None:
        refuse(point, ask, *closed)
        return
    unfit = _make_room(point, h, ask, now)
    if unfit is not None:
        refuse(point, ask, VacateCode.NO_MATCH, unfit)
        return
    point.show(h, now)
    granted, reason = _carve(point, h, ask, max(1, ask.count), now)
    if not granted:
        refuse(point, ask, VacateCode.NO_MATCH, reason)
        return
    leftovers = ask.want_leftovers and point.settings.gives_leftovers
    claim_ids.used(point, h, ask.claim_id, now, at_once=leftovers)
    left = (h.capability, h.name) if leftovers else ("", "")
    point.outbox.schedds.append(
        ToSchedd(ask.terms.schedd_name, ask.serial, ask.claim_id, Granted(tuple(granted), *left))
    )


def holds_whole(h: Holding, ask: Ask) -> bool:
    """Whether the request comes with the claim of the partitionable slot itself."""
    claim = h.slot.claim
    return h.kind is SlotKind.PARTITIONABLE and claim is not None and claim.claim_id == ask.claim_id


def request_whole(point: ExecutionPoint, h: Holding, ask: Ask, now: float) -> None:
    """A schedd wants the partitionable slot to itself for a while: only it may carve then."""
    closed = _closed(h, ask)
    if closed is None and h.slot.claim is not None:
        closed = VacateCode.UNCLAIMED, "the partitionable slot is claimed already"
    if closed is None and point.settings.requesting(h.slot_id, h.type_number).consumption:
        closed = VacateCode.BAD_REQUEST, "a partitionable slot with a consumption policy cannot be claimed itself"
    if closed is not None:
        refuse(point, ask, *closed)
        return
    point.show(h, now)
    longest = point.settings.pslot_claim_s
    time_s = ask.whole_s if 0 < ask.whole_s < longest else longest
    former = h.request, h.terms
    h.request, h.terms = ask.job, ask.terms
    claim = replace(new_claim(h, point, ask, ask.claim_id, now), ends_at=now + time_s)
    point.happen(h, ev.ClaimRequested(claim), now, quiet=True)
    if h.slot.claim is None:
        h.request, h.terms = former
        refuse(point, ask, VacateCode.NO_MATCH, "the machine's policy would end the claim at once")
        return
    granted, _ = _carve(point, h, ask, ask.count, now)
    slots = ((ask.claim_id, h.name), *granted)
    point.outbox.schedds.append(ToSchedd(ask.terms.schedd_name, ask.serial, ask.claim_id, Granted(slots)))


def _carve(point: ExecutionPoint, h: Holding, ask: Ask, count: int, now: float) -> tuple[list[tuple[str, str]], str]:
    """Up to ``count`` dynamic slots for a request: their claim ids and names, and why there are no more."""
    granted: list[tuple[str, str]] = []
    reason = ""
    for _ in range(count):
        taken = _amounts(point, h, ask.job, now, lambda: why_no_match(h, ask.job, now))
        if isinstance(taken, str):
            reason = taken
            break
        child = _new_child(point, h, taken, ask, now)
        if child is None:
            reason = "the machine's policy would end the claim at once"
            break
        granted.append(child)
        _show_amounts(h, backfill_slots.open_to(point, h))
    return granted, reason


def _amounts(
    point: ExecutionPoint, h: Holding, job: Job, now: float, mismatch: Callable[[], str | None]
) -> Resources | str:
    """What a dynamic slot for the job is made of, or why there is none."""
    free = backfill_slots.open_to(point, h)
    wanted = requested(point.settings.requesting(h.slot_id, h.type_number), h.ad, job.ad, free, now)
    if isinstance(wanted, str):
        return wanted
    if (reason := mismatch()) is not None:
        return reason
    swap_of = h.total.memory_mib if point.settings.proportional_swap else 0
    taken = carve(free, wanted, proportional_swap_of=swap_of, suits=_suits(point, job, now))
    return taken.reason if isinstance(taken, NotCarved) else taken


def carve_for_work(
    point: ExecutionPoint, h: Holding, job: Job, claim: Callable[[Holding], None], now: float
) -> Holding | str:
    """A dynamic slot for fetched work, which ``claim`` puts into it, or why there is none."""
    if not isinstance(h.slot.state, Unclaimed):
        return f"the slot is in state {h.slot.state.state}"
    taken = _amounts(point, h, job, now, lambda: None)
    if isinstance(taken, str):
        return taken
    child = _make_child(point, h, taken, now)
    claim(child)
    if child.slot.claim is None:
        if child.name in point.holdings:
            point.happen(child, ev.Evaluate(), now)
        return "the dynamic slot does not take it"
    claim_ids.used(point, h, h.capability, now)
    point.outbox.changed[h.name] = point.outbox.dirty[h.name] = None
    point.show(child, now)
    return child


def _closed(h: Holding, ask: Ask) -> tuple[int, str] | None:
    """Why a partitionable slot gives no dynamic ones now, if so."""
    slot = h.slot
    if slot.broken:
        return VacateCode.BROKEN, f"the slot is broken: {slot.broken}"
    if slot.shutdown:
        return VacateCode.SHUTDOWN, "the startd is shutting down"
    if isinstance(slot.state, Unclaimed) or (isinstance(slot.state, Drained) and slot.draining):
        return None
    if isinstance(slot.state, Claimed):
        mine = slot.state.claim.schedd_name == ask.terms.schedd_name
        return None if mine else (VacateCode.UNCLAIMED, "another schedd has the partitionable slot to itself")
    return VacateCode.UNCLAIMED, f"the slot is in state {slot.state.state}"


def _new_child(point: ExecutionPoint, h: Holding, taken: Resources, ask: Ask, now: float) -> tuple[str, str] | None:
    """Carve one dynamic slot and claim it; None when the policy would not have it."""
    child = _make_child(point, h, taken, now)
    name, claim_id = child.name, child.capability
    child.request, child.terms = ask.job, ask.terms
    point.happen(child, ev.ClaimRequested(new_claim(child, point, ask, claim_id, now)), now, quiet=True)
    if child.slot.claim is None:
        if name in point.holdings:
            point.happen(child, ev.Evaluate(), now)
        return None
    point.outbox.changed[h.name] = point.outbox.dirty[h.name] = None
    point.show(child, now)
    return claim_id, name


def _make_child(point: ExecutionPoint, h: Holding, taken: Resources, now: float) -> Holding:
    """A dynamic slot of these amounts, with a capability of its own."""
    number = lowest_free({point.holdings[name].dslot_id for name in h.children} | broken_slots.haunted(h))
    local, _, rest = h.name.partition("@")
    name = f"{local}_{number}@{rest}"
    slot = Slot(
        name, SlotKind.DYNAMIC, Unclaimed(), now, now, draining=h.slot.draining, lasting=point.settings.broken_lasts
    )
    child = Holding(slot, h.slot_id, h.type_number, taken, taken, parent=h.name, dslot_id=number, backfill=h.backfill)
    child.ad, child.shown = h.ad.copy(), h.shown
    h.free = h.free.minus(taken)
    h.children.add(name)
    point.holdings[name] = child
    point.outbox.removed.pop(name, None)
    child.capability = point.new_id()
    point.by_claim[child.capability] = name
    point.show(child, now)
    return child


def _show_amounts(h: Holding, free: Resources) -> None:
    """The partitionable slot's ad with what is left, so that the next carving is judged by it."""
    left: dict[str, Any] = {"Cpus": free.cpus, "Memory": free.memory_mib, "Disk": free.disk_kib, **free.custom}
    left.update({f"Available{tag}": slot_ad.available(tag, free) for tag in free.devices})
    write(h.ad, left)
    h.shown = {**h.shown, **left}


def _make_room(point: ExecutionPoint, h: Holding, ask: Ask, now: float) -> str | None:
    """Pslot preemption: end the dynamic claims that the schedd names, if all may be; their amounts come back now."""
    victims: list[Holding] = []
    for claim_id in ask.preempt:
        victim = point.holding_of_claim(claim_id)
        if victim is None or victim.parent != h.name or victim.returned or victim in victims:
            return "a claim that was to make room is gone"
        run = victim.slot.run
        if run is not None and own_remaining(victim.slot, point.judge(victim, now)(victim.slot), run, now) > 0:
            return "a claim that was to make room has retirement time left"
        victims.append(victim)
    for victim in victims:
        h.free = h.free.plus(victim.total)
        victim.returned = True
        point.outbox.changed[h.name] = point.outbox.dirty[h.name] = None
        point.happen(victim, ev.EvictedForPslot(), now)
    return None


def _suits(point: ExecutionPoint, job: Job, now: float) -> Callable[[str, str], bool] | None:
    """``Require<tag>`` of the job over a device's properties; None when nothing is required."""
    machine = point.settings.resources
    required = {tag: name for tag in (*machine.devices, *machine.shared) if (name := f"Require{tag}") in job.ad}
    if not required:
        return None

    def suits(tag: str, device: str) -> bool:
        if tag not in required:
            return True
        wanted = attribute(job.ad, required[tag], point.settings.device(tag, device), now=now)
        return names_device(wanted, device)

    return suits
