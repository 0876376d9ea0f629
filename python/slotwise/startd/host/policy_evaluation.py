"""Evaluates the owner's policy for a slot, with what the host as a whole adds to it."""

from __future__ import annotations

from msgspec.structs import replace

from slotwise.classad.evaluate import attribute, number
from slotwise.startd.host.drain_state import DrainState, all_drained, longest_retirement
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Claimed, Preempting, Slot


class PolicyEvaluation:
    """Evaluates policies over an overlay of the slot's ad; the ad itself stays as it is."""

    def __init__(self, host: HostState, ads: SlotAds, drain: DrainState) -> None:
        self._host, self._ads, self._drain = host, ads, drain

    def evaluator(self, record: SlotRecord, now: float) -> ev.EvaluatePolicy:
        """What a step of the slot's state machine asks for the policy."""

        def evaluate(slot: Slot) -> ev.PolicyEval:
            record.policy = self._evaluate(record, slot, now)
            return record.policy

        return evaluate

    def evaluate(self, record: SlotRecord, now: float) -> ev.PolicyEval:
        """The slot's policy in its present state; timers and the ad use it from now on."""
        return self.evaluator(record, now)(record.slot)

    def _evaluate(self, record: SlotRecord, slot: Slot, now: float) -> ev.PolicyEval:
        policy = self._host.settings.policy(record.slot_id, record.type_number)
        job = record.job
        my = self._ads.overlay(record, slot, now)
        found = policy.evaluate(slot, my, job.ad if job else None, now, job.universe if job else 5)
        if job is not None and slot.run is not None and "MaxJobRetirementTime" in job.ad:
            own = attribute(job.ad, "MaxJobRetirementTime", my, now=now)
            found = replace(found, job_retirement_s=number(own) if isinstance(own, int | float) else None)
        if slot.draining is not None:
            found = replace(
                found,
                longest_retirement_s=longest_retirement(self._host.slots, now),
                start_in_force=found.start is True,
                all_drained=all_drained(self._host.slots, besides=record),
            )
        if record.waiting is not None and isinstance(slot.state, Preempting | Claimed):
            waiting_start = policy.start(my, record.waiting.job.ad, now, record.waiting.job.universe)
            found = replace(found, waiting_start=waiting_start)
        if record.conflict and not policy.handles_conflicts and isinstance(slot.state, Claimed):
            found = replace(found, preempt=True, want_suspend=False, conflict=record.conflict)
        return found
