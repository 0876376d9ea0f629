"""All slots of a host together: carries out what their state machines decide, and keeps amounts and claim ids straight.

No I/O: time comes as ``now``, claim ids from ``new_id``, and what is to be said and done goes to :class:`Outbox`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from slotwise.classad.evaluate import attribute, number, write
from slotwise.daemon.containment import contained
from slotwise.errors import InvariantError
from slotwise.model.resources import Resources, total
from slotwise.model.slot import SlotKind, State
from slotwise.startd.host import backfill_slots, transition_log
from slotwise.startd.host.drain import DrainBook, DrainOrder, longest_retirement
from slotwise.startd.host.effects import CARRY_OUT
from slotwise.startd.host.outbox import (
    Outbox,
    ToSchedd,
)
from slotwise.startd.records.breakage import Breakage
from slotwise.startd.records.slot_record import Holding
from slotwise.startd.settings import Settings
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.fsm import Step, next_timer, step, validate
from slotwise.startd.slot.states import Claimed, Drained, Owner, Preempting, Slot
from slotwise.startd.slot_ad import attributes as slot_ad
from slotwise.startd.slot_ad.cron_ads import Published
from slotwise.startd.slot_ad.statistics import Statistics
from slotwise.startd.slot_types.layout import PlannedSlot

_log = logging.getLogger(__name__)
_ACTIVE = frozenset({State.CLAIMED, State.PREEMPTING, State.BACKFILL, State.MATCHED})


class ExecutionPoint:
    """The slots of a host."""

    def __init__(
        self, settings: Settings, layout: Iterable[PlannedSlot], new_id: Callable[[], str], now: float
    ) -> None:
        self.settings = settings
        self.new_id = new_id
        #: Takes a step; one that also writes it down may be put here.
        self.step: Callable[[Slot, ev.SlotEvent, ev.EvaluatePolicy, float], Step] = step
        self.started_at = now
        self.outbox = Outbox()
        self.holdings: dict[str, Holding] = {}
        self.by_claim: dict[str, str] = {}
        self.by_run: dict[str, str] = {}
        self.order: DrainOrder | None = None
        self.drains = 0
        self.book = DrainBook()
        #: Since when no job runs; the expected end of a drain while that is so.
        self.idle_since = now
        #: Since when load that is not ours has been high.
        self.busy_since: float | None = None
        #: Attributes of the machine as a whole: what fingerprints and drains say.
        self.machine: dict[str, Any] = dict(settings.machine)
        self.extra: dict[str, Any] = {}
        self.statistics = Statistics(*settings.statistics_window_s)
        #: Devices that are not handed out, by tag.
        self.offline: dict[str, frozenset[str]] = {}
        #: What primary slots had in use when backfill slots were told last.
        self.primary_in_use = Resources()
        #: What cron jobs said.
        self.cron = Published(started_at=now)
        #: What the starter says that it can enforce here.
        self.abilities: dict[str, Any] = {}
        for planned in layout:
            self._add_planned(planned, now)

    # ---------------------------------------------------------------------------------------------------------- slots

    def _add_planned(self, planned: PlannedSlot, now: float) -> None:
        name = f"{planned.local_name}@{self.settings.name}"
        slot = Slot(name, planned.kind, Owner(), now, now, broken=planned.broken, broken_code=planned.broken_code)
        whole = planned.resources
        h = Holding(slot, planned.slot_id, planned.type_number, whole, whole, backfill=planned.backfill)
        if planned.broken:
            h.breakage = Breakage(planned.broken, planned.broken_code, now)
        self.holdings[name] = h
        self.fresh_capability(h)
        self.show(h, now)
        self.happen(h, ev.Evaluate(), now)

    def fresh_capability(self, h: Holding, *, keep: bool = False) -> None:
        """Give the slot a new claim id; the former ones are void, unless they are to be kept or a claim has them."""
        if not keep:
            for claim_id in [h.capability, *h.former]:
                self.forget_id(h, claim_id)
        h.capability, h.spent = self.new_id(), False
        self.by_claim[h.capability] = h.name
        self.outbox.changed[h.name] = None
        self.outbox.dirty[h.name] = None

    def forget_id(self, h: Holding, claim_id: str) -> None:
        """An id of the slot claims nothing any more, unless a claim has it."""
        h.former.pop(claim_id, None)
        state = h.slot.state
        if isinstance(state, Claimed | Preempting):
            held = {state.claim.claim_id, state.waiting.claim.claim_id if state.waiting is not None else ""}
            if claim_id in held:
                return
        self.by_claim.pop(claim_id, None)

    def children(self, h: Holding) -> list[Holding]:
        """The dynamic slots of a partitionable one, by number."""
        return sorted((self.holdings[name] for name in h.children), key=lambda child: child.dslot_id)

    def holding_of_claim(self, claim_id: str) -> Holding | None:
        """The slot that a claim id or capability belongs to."""
        name = self.by_claim.get(claim_id)
        return self.holdings.get(name) if name is not None else None

    # ------------------------------------------------------------------------------------------------------- stepping

    def happen(
        self,
        h: Holding,
        stimulus: ev.SlotEvent,
        now: float,
        *,
        quiet: bool = False,
        judge: ev.EvaluatePolicy | None = None,
    ) -> Step:
        """Something happens to a slot; what follows is carried out. ``quiet`` grants are not told.

        ``judge`` stands for the owner's policy where that is not to be asked.
        """
        outcome = self.step(h.slot, stimulus, judge or self.judge(h, now), now)
        if outcome.slot is not h.slot:
            if outcome.slot.counters is not h.slot.counters:
                self.statistics.counted(h.slot.counters, outcome.slot.counters, now)
            if (told := transition_log.entry(h, outcome)) is not None:
                self.outbox.diary.append(told)
            h.slot = outcome.slot
            if outcome.trace or outcome.actions:
                self.outbox.changed[h.name] = None
                self.outbox.dirty[h.name] = None
                self._spread(h, now)
        for action in outcome.actions:
            if not (quiet and isinstance(action, ev.ClaimGranted | ev.ClaimRefused)):
                CARRY_OUT[type(action)](self, h, action, now)
        return outcome

    def _spread(self, h: Holding, now: float) -> None:
        """STARTD_SLOT_ATTRS: the other slots' policies see at once what this slot does."""
        if not self.settings.slot_knobs(h.slot_id, h.type_number).slot_attrs or h.name not in self.holdings:
            return
        h.shown = {**h.shown, **slot_ad.state_of(h, now)}
        for other in self.holdings.values():
            names = self.settings.slot_knobs(other.slot_id, other.type_number).slot_attrs
            if other is not h and names:
                seen = slot_ad.slots_of([h], other, names)
                write(other.ad, seen)
                other.shown = {**other.shown, **seen}

    def judge(self, h: Holding, now: float) -> ev.EvaluatePolicy:
        """Evaluates the slot's policy at a point of a step."""
        policy = self.settings.policy(h.slot_id, h.type_number)

        def facts(slot: Slot) -> ev.PolicyEval:
            job = h.job
            universe = job.universe if job else 5
            h.slot, former = slot, h.slot
            try:
                write(h.ad, slot_ad.state_of(h, now))
            finally:
                h.slot = former
            found = policy.facts(slot, h.ad, job.ad if job else None, now, universe)
            if job is not None and slot.run is not None and "MaxJobRetirementTime" in job.ad:
                own = attribute(job.ad, "MaxJobRetirementTime", h.ad, now=now)
                found = replace(found, job_retirement_s=number(own) if isinstance(own, int | float) else None)
            if slot.draining is not None:
                found = replace(
                    found,
                    longest_retirement_s=longest_retirement(self, now),
                    start_in_force=found.start is True,
                    all_drained=self.all_drained(besides=h),
                )
            if h.waiting is not None and isinstance(slot.state, Preempting | Claimed):
                found = replace(found, waiting_start=policy.start(h.ad, h.waiting.ad, now, h.waiting.universe))
            if h.conflict and not policy.judges_conflicts and isinstance(slot.state, Claimed):
                found = replace(found, preempt=True, want_suspend=False, conflict=h.conflict)
            h.facts = found
            return found

        return facts

    def all_drained(self, besides: Holding | None = None) -> bool:
        """Whether every slot is Drained and no dynamic one is left."""
        return all(
            h is besides or (not h.slot.vanishes and isinstance(h.slot.state, Drained)) for h in self.holdings.values()
        )

    def poll(self, now: float) -> None:
        """Look at all timers and policies."""
        for h in list(self.holdings.values()):
            if h.name in self.holdings:
                with contained(_log, f"{h.name}: looking at its policy"):
                    self.happen(h, ev.Evaluate(), now)

    def any_active(self) -> bool:
        """Whether a slot is in a state whose policy is looked at every few seconds."""
        return any(h.slot.state.state in _ACTIVE for h in self.holdings.values())

    def next_timer(self, now: float) -> float | None:
        """The next moment at which some timer runs out."""
        times = [
            at
            for h in self.holdings.values()
            if h.slot.state.state in _ACTIVE and (at := next_timer(h.slot, h.facts or ev.PolicyEval(), now)) is not None
        ]
        return min(times) if times else None

    # ------------------------------------------------------------------------------------------------------------ ads

    def show(self, h: Holding, now: float) -> dict[str, Any]:
        """Bring the slot's ad up to date; returns what changed since it was shown last (None: taken out)."""
        attributes = self.attributes(h, now)
        shown = h.shown
        changes = {
            name: value
            for name, value in attributes.items()
            if (name not in shown and value is not None) or (name in shown and shown[name] != value)
        }
        changes |= {name: None for name in shown if name not in attributes}
        if None in changes.values():  # what is gone may be there under a name in other case
            there = {name.lower(): name for name, value in attributes.items() if value is not None}
            for name in [name for name, value in changes.items() if value is None and name.lower() in there]:
                del changes[name]
                changes[there[name.lower()]] = attributes[there[name.lower()]]
        write(h.ad, changes)
        h.shown = {name: value for name, value in attributes.items() if value is not None}
        changes.update(self._latch(h, now))
        return changes

    def show_children(self, h: Holding) -> bool:
        """Bring the ``Child...`` lists of a partitionable slot up to date; whether that changed them."""
        names = self.settings.slot_knobs(h.slot_id, h.type_number).child_attrs
        lists = slot_ad.children_of(self.children(h), names)
        changes = {name: value for name, value in lists.items() if h.shown.get(name) != value}
        write(h.ad, changes)
        h.shown = {**h.shown, **changes}
        return bool(changes)

    def refresh(self, h: Holding, now: float) -> None:
        """Bring only what was measured, and times, up to date: what policies look at between full updates."""
        attributes = {**self.settings.sampled(h.name, h.slot_id), **slot_ad.state_of(h, now)}
        for name in h.latches:  # CpuBusyTime is measured too; where CpuBusy is a latch, its date counts
            attributes.pop(f"{name}Time", None)
        shown = h.shown
        changes = {name: value for name, value in attributes.items() if shown.get(name) != value}
        if changes:
            write(h.ad, changes)
            h.shown = {**shown, **changes}
        self._latch(h, now)

    def _latch(self, h: Holding, now: float) -> dict[str, Any]:
        """Look at the expressions whose changes are to be dated; returns attributes of those that changed."""
        changes: dict[str, Any] = {}
        for name, expression in self.settings.slot_knobs(h.slot_id, h.type_number).latches.items():
            value = expression.value(h.ad, None, now)
            if isinstance(value, bool | int | float) and h.latches.get(name, (None, 0))[0] != int(value):
                h.latches[name] = (int(value), int(now))
                changes[f"{name}Value"], changes[f"{name}Time"] = h.latches[name]
        if changes:
            write(h.ad, changes)
            h.shown = {**h.shown, **changes}
        return changes

    def attributes(self, h: Holding, now: float) -> dict[str, Any]:
        """The whole ad; None marks attributes that must not be there."""
        settings = self.settings
        knobs = settings.slot_knobs(h.slot_id, h.type_number)
        policy = settings.policy(h.slot_id, h.type_number)
        order = self.order
        result: dict[str, Any] = {**self.machine, **self.abilities}
        result.update(settings.sampled(h.name, h.slot_id))
        result.update(knobs.attrs)
        if self.cron:
            result.update(self.cron.attributes(h.slot_id, h.ad, now))
        result.update(slot_ad.identity(h))
        result.update(slot_ad.amounts(h, settings.resources, backfill_slots.open_to(self, h)))
        result.update(settings.devices_of(h.total))
        result["TotalSlots"] = len(self.holdings)
        result["Start"] = settings.expression(policy.texts["START"])
        result["Rank"] = settings.expression(policy.texts["RANK"])
        result["MaxJobRetirementTime"] = settings.expression(policy.texts["MAXJOBRETIREMENTTIME"])
        result["MachineMaxVacateTime"] = settings.expression(policy.texts["MACHINEMAXVACATETIME"])
        result["Unhibernate"] = settings.expression(policy.unhibernate)
        result["SlotWeight"] = settings.expression(knobs.slot_weight)
        result["WithinResourceLimits"] = slot_ad.within_limits(h, knobs.consumption)
        for tag, text in knobs.consumption.items():
            result[f"Consumption{tag}"] = settings.expression(text)
        draining_start = order.start if order is not None else None
        result["Requirements"] = slot_ad.requirements(h, knobs, draining_start=draining_start)
        result.update(slot_ad.state_of(h, now))
        result.update(slot_ad.history_of(h, now))
        result.update(self.statistics.attributes(now))
        result.update(slot_ad.claim_of(h, now, h.facts))
        if settings.hook_keyword(h.slot_id, h.type_number):
            result.update(slot_ad.fetches_of(h))
        of_job = slot_ad.job_attrs_of(h, knobs.job_attrs, now)
        # What the job does not say stays as monitors and the administrator say it.
        result.update({name: value for name, value in of_job.items() if value is not None or name not in result})
        for knob, text in policy.mentioned.items():
            result[knob] = settings.expression(text)
        if knobs.slot_attrs:
            result.update(slot_ad.slots_of(self.holdings.values(), h, knobs.slot_attrs))
            own = h.name.partition("@")[0]
            shared = {name: result.get(name) for name in knobs.slot_attrs}
            result.update({f"{own}_{name}": value for name, value in shared.items() if value is not None})
        for name, (value, at) in h.latches.items():
            result[f"{name}Value"], result[f"{name}Time"] = value, at
        if h.kind is SlotKind.PARTITIONABLE:
            result.update(slot_ad.children_of(self.children(h), knobs.child_attrs))
            result["MaxClaimTime"] = int(settings.pslot_claim_s) or None
        if h.slot.broken:
            result["SlotBrokenReason"] = h.slot.broken
            result["SlotBrokenCode"] = h.slot.broken_code
        result["ResourceConflict"] = h.conflict or None
        result.update(self.extra)
        last = {name.lower(): name for name in result}  # of names that differ in case only
        return result if len(last) == len(result) else {name: result[name] for name in last.values()}

    # ------------------------------------------------------------------------------------------------- carrying out

    def tell(self, h: Holding, claim_id: str, what: Any, *, schedd: str | None = None) -> None:
        """Queue a message to the schedd of a claim."""
        serial = h.serials.pop(claim_id, 0)
        self.outbox.schedds.append(ToSchedd(schedd or h.terms.schedd_name, serial, claim_id, what))

    def park_offline(self, h: Holding) -> None:
        """Devices that went offline while in use leave the slot when they come back to it."""
        for tag, offline in self.offline.items():
            leave = tuple(name for name in h.free.devices.get(tag, ()) if name in offline)
            if leave:
                gone = Resources(custom={tag: len(leave)}, devices={tag: leave})
                h.free, h.total = h.free.minus(gone), h.total.minus(gone)
                h.parked[tag] = h.parked.get(tag, ()) + leave

    # ----------------------------------------------------------------------------------------------------- invariants

    def validate(self) -> None:
        """Check every slot, and that amounts add up.

        :raises InvariantError: when they do not.
        """
        for h in self.holdings.values():
            validate(h.slot)
            if not h.free.nowhere_negative():
                raise InvariantError(f"{h.name} has given out more than it had: {h.free}")
            if h.kind is SlotKind.PARTITIONABLE:
                parts = [child.total for child in self.children(h) if not child.returned]
                whole = total([h.free, h.lost, *parts])
                if _amounts(whole) != _amounts(h.total):
                    raise InvariantError(f"{h.name}: {whole} in parts, {h.total} in all")
        for claim_id, name in self.by_claim.items():
            if name not in self.holdings:
                raise InvariantError(f"claim {claim_id} belongs to {name}, which is gone")


def _amounts(r: Resources) -> tuple[Any, ...]:
    custom = tuple(sorted((tag, round(amount, 4)) for tag, amount in r.custom.items() if amount))
    devices = tuple(sorted((tag, tuple(sorted(names))) for tag, names in r.devices.items() if names))
    return round(r.cpus, 4), r.memory_mib, r.disk_kib, r.swap_kib, custom, devices
