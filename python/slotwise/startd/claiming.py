"""What schedds ask for, decided: claims, carving, activations, releases, keep-alives.

Functions over an :class:`~slotwise.startd.execution_point.ExecutionPoint`; answers go to its outbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from slotwise.model.claim import Claim, Run, lease_length
from slotwise.model.resources import Resources
from slotwise.model.slot import BrokenCode, SlotKind, State, VacateCode
from slotwise.startd import ads, breaking
from slotwise.startd import events as ev
from slotwise.startd.evaluate import attribute, truth, write
from slotwise.startd.execution_point import ExecutionPoint
from slotwise.startd.holding import Activation, Holding, Job, Terms
from slotwise.startd.outbox import Granted, Refused, RefusedRun, ToSchedd
from slotwise.startd.requests import requested
from slotwise.startd.retirement import own_remaining
from slotwise.startd.slots.carve import NotCarved, carve, lowest_free
from slotwise.startd.states import Busy, Claimed, Cleaning, Drained, Idle, Slot, Suspended, Unclaimed

#: How long an activation may wait for the former run's end (seconds).
QUEUED_ACTIVATION_S = 20.0


@dataclass(frozen=True)
class Ask:
    """A request for a claim."""

    serial: int
    claim_id: str
    terms: Terms
    job: Job
    lease_s: float | None = None
    count: int = 1
    want_leftovers: bool = False
    preempt: tuple[str, ...] = ()


def request(point: ExecutionPoint, ask: Ask, now: float) -> None:
    """A schedd wants a slot, or up to ``count`` like dynamic slots of a partitionable one."""
    h = point.holding_of_claim(ask.claim_id)
    if h is None:
        refuse(point, ask, VacateCode.CLAIM_NOT_FOUND, "no slot has this claim id (any more)")
    elif ask.claim_id != h.capability:
        refuse(point, ask, VacateCode.OLD_CLAIM, "the claim id is in use already")
    elif h.kind is SlotKind.PARTITIONABLE:
        _request_dynamic(point, h, ask, now)
    else:
        _request_single(point, h, ask, now)


def refuse(point: ExecutionPoint, ask: Ask, code: int, reason: str) -> None:
    """Answer a request with no."""
    point.outbox.schedds.append(ToSchedd(ask.terms.schedd_name, ask.serial, ask.claim_id, Refused(code, reason)))


def _claim(h: Holding, point: ExecutionPoint, ask: Ask, claim_id: str, now: float) -> Claim:
    job_lease = ask.lease_s if ask.lease_s else ask.job.values.get("JobLeaseDuration")
    lease = lease_length(job_lease, ask.terms.alive_interval_s, point.settings.alives_per_lease)
    rank = point.settings.policy(h.slot_id, h.type_number).rank(h.ad, ask.job.ad, now)
    return Claim(claim_id, ask.terms.schedd_name, now, lease, now, rank, ask.terms.submitter)


def _request_single(point: ExecutionPoint, h: Holding, ask: Ask, now: float) -> None:
    point.show(h, now)
    mismatch = why_no_match(h, ask.job, now)
    if mismatch is not None:
        refuse(point, ask, VacateCode.NO_MATCH, mismatch)
        return
    claim = _claim(h, point, ask, ask.claim_id, now)
    h.serials[ask.claim_id] = ask.serial
    if isinstance(h.slot.state, Claimed):
        former = (h.waiting, h.waiting_terms)
        before = h.slot.state.waiting
        outcome = point.happen(h, ev.ClaimRequested(claim), now)
        if any(isinstance(action, ev.ClaimQueued) for action in outcome.actions):
            h.waiting, h.waiting_terms = ask.job, ask.terms
            point.happen(h, ev.Evaluate(), now)
        elif before is not None:
            h.waiting, h.waiting_terms = former
        return
    h.request, h.terms = ask.job, ask.terms
    point.happen(h, ev.ClaimRequested(claim), now)
    if h.slot.claim is None:
        h.request = None


# ---------------------------------------------------------------------------------------------------- dynamic slots


def _request_dynamic(point: ExecutionPoint, h: Holding, ask: Ask, now: float) -> None:
    closed = _closed(h)
    if closed is not None:
        refuse(point, ask, *closed)
        return
    unfit = _make_room(point, h, ask, now)
    if unfit is not None:
        refuse(point, ask, VacateCode.NO_MATCH, unfit)
        return
    point.show(h, now)
    how = point.settings.requesting(h.slot_id, h.type_number)
    granted: list[tuple[str, str]] = []
    reason = ""
    for _ in range(max(1, ask.count)):
        wanted = requested(how, h.ad, ask.job.ad, h.free, now)
        if isinstance(wanted, str):
            reason = wanted
            break
        mismatch = why_no_match(h, ask.job, now, amounts_checked=bool(how.consumption))
        if mismatch is not None:
            reason = mismatch
            break
        swap_of = h.total.memory_mib if point.settings.proportional_swap else 0
        taken = carve(h.free, wanted, proportional_swap_of=swap_of, suits=_suits(point, ask.job, now))
        if isinstance(taken, NotCarved):
            reason = taken.reason
            break
        child = _new_child(point, h, taken, ask, now)
        if child is None:
            reason = "the machine's policy would end the claim at once"
            break
        granted.append(child)
        _show_amounts(h)
    if not granted:
        refuse(point, ask, VacateCode.NO_MATCH, reason)
        return
    left = (h.capability, h.name) if ask.want_leftovers else ("", "")
    point.outbox.schedds.append(
        ToSchedd(ask.terms.schedd_name, ask.serial, ask.claim_id, Granted(tuple(granted), *left))
    )


def _closed(h: Holding) -> tuple[int, str] | None:
    """Why a partitionable slot gives no dynamic ones now, if so."""
    slot = h.slot
    if slot.broken:
        return VacateCode.BROKEN, f"the slot is broken: {slot.broken}"
    if slot.shutdown:
        return VacateCode.SHUTDOWN, "the startd is shutting down"
    if isinstance(slot.state, Unclaimed) or (isinstance(slot.state, Drained) and slot.draining):
        return None
    return VacateCode.UNCLAIMED, f"the slot is in state {slot.state.state}"


def _new_child(point: ExecutionPoint, h: Holding, taken: Resources, ask: Ask, now: float) -> tuple[str, str] | None:
    """Carve one dynamic slot and claim it; None when the policy would not have it."""
    number = lowest_free({point.holdings[name].dslot_id for name in h.children})
    local, _, rest = h.name.partition("@")
    name = f"{local}_{number}@{rest}"
    slot = Slot(
        name, SlotKind.DYNAMIC, Unclaimed(), now, now, draining=h.slot.draining, lasting=point.settings.broken_lasts
    )
    child = Holding(slot, h.slot_id, h.type_number, taken, taken, parent=h.name, dslot_id=number)
    child.ad, child.shown = h.ad.copy(), h.shown
    child.request, child.terms = ask.job, ask.terms
    h.free = h.free.minus(taken)
    h.children.add(name)
    point.holdings[name] = child
    point.outbox.removed.pop(name, None)
    claim_id = child.capability = point.new_id()
    point.by_claim[claim_id] = name
    point.show(child, now)
    point.happen(child, ev.ClaimRequested(_claim(child, point, ask, claim_id, now)), now, quiet=True)
    if child.slot.claim is None:
        if name in point.holdings:
            point.happen(child, ev.Evaluate(), now)
        return None
    point.outbox.changed[h.name] = point.outbox.dirty[h.name] = None
    point.show(child, now)
    return claim_id, name


def _show_amounts(h: Holding) -> None:
    """The partitionable slot's ad with what is left, so that the next carving is judged by it."""
    free = h.free
    left: dict[str, Any] = {"Cpus": free.cpus, "Memory": free.memory_mib, "Disk": free.disk_kib, **free.custom}
    left.update({f"Available{tag}": ads.available(tag, free) for tag in free.devices})
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
    required = {tag: name for tag in point.settings.resources.devices if (name := f"Require{tag}") in job.ad}
    if not required:
        return None

    def suits(tag: str, device: str) -> bool:
        if tag not in required:
            return True
        wanted = attribute(job.ad, required[tag], point.settings.device(tag, device), now=now)
        return wanted == device if isinstance(wanted, str) else truth(wanted)

    return suits


def why_no_match(h: Holding, job: Job, now: float, *, amounts_checked: bool = False) -> str | None:
    """Why slot and job do not suit each other; None when they do."""
    if not truth(attribute(h.ad, "Requirements", job.ad, now=now)):
        return "the machine's Requirements do not accept the job"
    if "Requirements" in job.ad and not truth(attribute(job.ad, "Requirements", h.ad, now=now)):
        return "the job's Requirements do not accept the machine"
    return None


# -------------------------------------------------------------------------------------------------------- activation


def activate(point: ExecutionPoint, claim_id: str, what: Activation, now: float, *, schedd: str = "") -> None:
    """Start a job under a claim, at once or as soon as the former one has gone."""
    h = point.holding_of_claim(claim_id)
    if h is None:
        point.outbox.schedds.append(
            ToSchedd(
                schedd, what.serial, claim_id, RefusedRun(what.run_id, VacateCode.CLAIM_NOT_FOUND, "no such claim")
            )
        )
        return
    state = h.slot.state
    if h.slot.run is not None and h.slot.run.run_id == what.run_id:
        return  # said twice, after a break of the stream
    if isinstance(state, Claimed) and isinstance(state.doing, Busy | Suspended | Cleaning) and not h.queued:
        h.queued = replace(what)
        h.queued_at = now
        return
    h.serials[claim_id] = what.serial
    refusal = _unfit(point, h, what.job, now)
    if refusal is not None:
        point.tell(h, claim_id, RefusedRun(what.run_id, *refusal))
        return
    former = h.activation
    h.activation = what
    run = _run(what, now)
    point.happen(h, ev.Activated(run), now)
    if h.slot.run is None or h.slot.run.run_id != what.run_id:
        h.activation = former


def _unfit(point: ExecutionPoint, h: Holding, job: Job, now: float) -> tuple[int, str] | None:
    if "JobUniverse" not in job.values:
        return VacateCode.BAD_REQUEST, "the job has no JobUniverse"
    if h.slot.state.state is not State.CLAIMED:
        return None  # the state machine says why
    knobs = point.settings.slot_knobs(h.slot_id, h.type_number)
    if knobs.health and not truth(attribute(h.ad, "Healthy", None, now=now)):
        return VacateCode.UNHEALTHY, "the slot is not healthy"
    mismatch = why_no_match(h, job, now)
    return None if mismatch is None else (VacateCode.NO_MATCH, mismatch)


def _run(what: Activation, now: float) -> Run:
    values = what.job.values
    vacate = values.get("JobMaxVacateTime", values.get("KillSigTimeout"))
    return Run(
        what.run_id,
        now,
        vacate_s=_seconds(vacate),
        retirement_s=_seconds(values.get("MaxJobRetirementTime")),
        nice_user=truth(values.get("NiceUser")),
    )


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def run_gone(
    point: ExecutionPoint, run_id: str, now: float, *, broken: str | None = None, code: int = BrokenCode.UNCLEAN
) -> bool:
    """The starter is done with a run: the slot is free for the next one. False when no slot has this run."""
    h = point.holdings.get(point.by_run.pop(run_id, ""))
    if h is None or h.slot.run is None or h.slot.run.run_id != run_id:
        return False
    if broken is not None:
        breaking.mark(point, h, broken, code, now, run_id)
    h.last_run = run_id
    point.statistics.ended(now - h.slot.run.activated_at, h.slot.run.ran(now), now)
    h.usage, h.condor_load, h.cpu_seen = {}, 0.0, None
    point.happen(h, ev.RunGone(broken, code), now)
    h.activation = None if h.slot.run is None else h.activation
    if h.parent is None and h.slot.run is None:
        point.park_offline(h)
    if not any(other.slot.run is not None for other in point.holdings.values()):
        point.idle_since = now
    queued, claim = h.queued, h.slot.claim
    if queued is not None and claim is not None and _idle(h):
        h.queued = None
        activate(point, claim.claim_id, queued, now)
    return True


def _idle(h: Holding) -> bool:
    return isinstance(h.slot.state, Claimed) and isinstance(h.slot.state.doing, Idle)


def drop_stale_activations(point: ExecutionPoint, now: float) -> None:
    """Refuse activations that waited too long for the former run's end."""
    for h in point.holdings.values():
        if h.queued is not None and now - h.queued_at >= QUEUED_ACTIVATION_S and h.slot.claim is not None:
            refusal = RefusedRun(h.queued.run_id, VacateCode.STILL_CLEANING, "the former job is still being cleaned up")
            point.outbox.schedds.append(ToSchedd(h.terms.schedd_name, h.queued.serial, h.slot.claim.claim_id, refusal))
            h.queued = None


# ------------------------------------------------------------------------------------------------- the claim's life


def keep_alive(point: ExecutionPoint, claim_ids: Iterable[str], now: float) -> list[str]:
    """Renew leases; returns the claims that are unknown."""
    unknown = []
    for claim_id in claim_ids:
        h = point.holding_of_claim(claim_id)
        if h is None or h.slot.claim is None or h.slot.claim.claim_id != claim_id:
            unknown.append(claim_id)
        else:
            point.happen(h, ev.KeptAlive(), now)
    return unknown


def tell_claim(point: ExecutionPoint, claim_id: str, serial: int, stimulus: ev.Stimulus, now: float) -> bool:
    """Something happens to a claim; False when there is no such claim. ``serial`` waits for the claim's end."""
    h = point.holding_of_claim(claim_id)
    if h is None or h.slot.claim is None or h.slot.claim.claim_id != claim_id:
        return False
    if serial:
        h.serials[claim_id] = serial
    point.happen(h, stimulus, now)
    return True


def schedd_lost(point: ExecutionPoint, schedd: str, now: float) -> None:
    """A schedd's stream broke: claims live on, but requests that wait are withdrawn."""
    for h in list(point.holdings.values()):
        if h.waiting_terms is not None and h.waiting_terms.schedd_name == schedd:
            h.waiting = h.waiting_terms = None
            point.happen(h, ev.PreempterWithdrawn(), now)
