"""Applies events to slots: takes the step of the state machine and carries out the actions that follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slotwise.startd.host import transition_log
from slotwise.startd.host.effects import Effects
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.policy_evaluation import PolicyEvaluation
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.fsm import Step, step
from slotwise.startd.slot.states import Slot

#: Takes a step of the state machine.
TakeStep = Callable[[Slot, ev.SlotEvent, ev.EvaluatePolicy, float], Step]


class ApplyEvent(Protocol):
    """Applies an event to a slot; the port of parts whose decisions go through the state machine."""

    def __call__(
        self,
        record: SlotRecord,
        event: ev.SlotEvent,
        now: float,
        *,
        quiet: bool = False,
        evaluate: ev.EvaluatePolicy | None = None,
    ) -> Step:
        """See :meth:`Transitions.apply`."""
        ...


class Transitions:
    """The one way in which the state of a slot changes while the startd runs."""

    def __init__(self, host: HostState, ads: SlotAds, effects: Effects, policies: PolicyEvaluation) -> None:
        self._host, self._ads, self._effects, self._policies = host, ads, effects, policies
        #: Takes a step; one that also records it may be put here.
        self.step: TakeStep = step

    def apply(
        self,
        record: SlotRecord,
        event: ev.SlotEvent,
        now: float,
        *,
        quiet: bool = False,
        evaluate: ev.EvaluatePolicy | None = None,
    ) -> Step:
        """Apply an event to a slot, and carry out the actions that follow.

        :param quiet: the schedd is not told whether its claim is granted.
        :param evaluate: stands for the owner's policy where that is not to be evaluated.
        """
        outcome = self.step(record.slot, event, evaluate or self._policies.evaluator(record, now), now)
        if outcome.slot is not record.slot:
            self._advance(record, outcome, now)
        for action in outcome.actions:
            if not (quiet and isinstance(action, ev.ClaimGranted | ev.ClaimRefused)):
                self._effects.carry_out(record, action, now)
        return outcome

    def _advance(self, record: SlotRecord, outcome: Step, now: float) -> None:
        if outcome.slot.counters is not record.slot.counters:
            self._ads.statistics.counted(record.slot.counters, outcome.slot.counters, now)
        if (entry := transition_log.entry(record, outcome)) is not None:
            self._host.outbox.transitions.append(entry)
        record.slot = outcome.slot
        self._ads.update_state(record, now)
        if outcome.trace or outcome.actions:
            self._host.outbox.touch(record.name)
            self._ads.spread(record, now)
