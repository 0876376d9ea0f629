"""Slots in the states that tests want, and a machine driven by fixed facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace
from slotwise.model.claim import Claim, Run
from slotwise.model.slot import Activity, SlotKind, State
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.fsm import Step, step, validate
from slotwise.startd.slot.states import Owner, Slot, Unclaimed

T0 = 1_000_000.0


def claim(name: str = "claim-1", **changes: Any) -> Claim:
    """A claim that began at T0 with a long lease."""
    return replace(Claim(name, "schedd", T0, 1e9, T0), **changes)


@dataclass
class Driven:
    """A slot and the clock it lives by; every step is checked."""

    slot: Slot
    now: float = T0
    facts: ev.PolicyEval = field(default_factory=ev.PolicyEval)
    actions: list[ev.Action] = field(default_factory=list)
    numbers: list[int | None] = field(default_factory=list)

    def apply(self, stimulus: ev.SlotEvent, after: float = 0.0, **facts: Any) -> Step:
        """``stimulus`` happens ``after`` seconds later, from when on ``facts`` hold."""
        self.now += after
        self.facts = replace(self.facts, **facts)
        outcome = step(self.slot, stimulus, lambda _: self.facts, self.now)
        validate(outcome.slot)
        self.slot = outcome.slot
        self.actions = list(outcome.actions)
        self.numbers = [row.number for row in outcome.trace]
        return outcome

    def poll(self, after: float = 0.0, **facts: Any) -> Step:
        """Look at timers and policy."""
        return self.apply(ev.Evaluate(), after, **facts)

    @property
    def place(self) -> str:
        """``State/Activity``."""
        return "/".join(self.slot.state_activity)

    def did(self, kind: type) -> list[Any]:
        """The actions of a kind that the last step asked for."""
        return [action for action in self.actions if isinstance(action, kind)]


def owner(kind: SlotKind = SlotKind.STATIC) -> Driven:
    """A slot that its owner uses."""
    return Driven(Slot("slot1", kind, Owner(), T0, T0), facts=ev.PolicyEval(is_owner=True))


def unclaimed(kind: SlotKind = SlotKind.STATIC) -> Driven:
    """A willing slot."""
    return Driven(Slot("slot1", kind, Unclaimed(), T0, T0))


def claimed(**terms: Any) -> Driven:
    """A claimed slot without a job."""
    d = unclaimed()
    d.apply(ev.ClaimRequested(claim(**terms)))
    assert d.place == f"{State.CLAIMED}/{Activity.IDLE}"
    return d


def busy(run: Run | None = None, **facts: Any) -> Driven:
    """A slot with a job."""
    d = claimed()
    d.apply(ev.Activated(run or Run("1.0#1", T0)), **facts)
    assert d.place == "Claimed/Busy"
    return d


def suspended(**facts: Any) -> Driven:
    """A slot whose job the policy froze."""
    d = busy(**facts)
    d.poll(want_suspend=True, suspend=True, continue_=False)
    assert d.place == "Claimed/Suspended"
    return d


def retiring(retirement_s: float = 3600, **facts: Any) -> Driven:
    """A slot whose job retires because PREEMPT fired."""
    d = busy(machine_retirement_s=retirement_s, **facts)
    d.poll(preempt=True)
    assert d.place == "Claimed/Retiring"
    return d


def vacating(**facts: Any) -> Driven:
    """A slot whose job was asked to go."""
    d = busy(**facts)
    d.poll(preempt=True)
    assert d.place == "Preempting/Vacating"
    return d
