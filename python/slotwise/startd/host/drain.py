"""Draining a machine: who may stay how long, what it costs, when it is complete.

Source: manual, "condor_drain" and draining attributes.
"""

from __future__ import annotations

import math
from typing import TypedDict, cast

from msgspec.structs import asdict, replace

from slotwise.classad.evaluate import Expression, Value, compiled, truth
from slotwise.errors import BusyError, ConfigError, UsageError
from slotwise.startd.host.claim_ids import ClaimIds
from slotwise.startd.host.drain_state import (
    GRACEFUL,
    DrainCosts,
    DrainOrder,
    DrainState,
    accepted_before,
    all_drained,
    schedule_of,
)
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.policy_evaluation import PolicyEvaluation
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.host.transitions import ApplyEvent
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.retirement import remaining
from slotwise.startd.slot.states import Drained, Draining

COMPLETIONS = ("nothing", "resume", "exit", "restart", "reconfig")
_LARGEST = 2**31 - 1


class SavedOrder(TypedDict):
    """The fields of :class:`DrainOrder`."""

    request_id: str
    schedule: int
    reason: str
    on_completion: str
    start: str | None
    began_at: float
    deadline: int


class SavedCosts(TypedDict):
    """The fields of :class:`DrainCosts`."""

    last_start: float | None
    last_stop: float | None
    badput_cpu_s: float
    unclaimed_cpu_s: float
    counted_until: float


class SavedDrain(TypedDict):
    """What the journal has of drains."""

    drains: int
    order: SavedOrder | None
    book: SavedCosts


class Drain:
    """Begins, follows and ends the drain of a host."""

    def __init__(
        self,
        host: HostState,
        state: DrainState,
        claim_ids: ClaimIds,
        ads: SlotAds,
        policies: PolicyEvaluation,
        apply: ApplyEvent,
        now: float,
    ) -> None:
        self._host, self._claim_ids, self._ads = host, claim_ids, ads
        self._policies, self._apply = policies, apply
        self.state = state
        #: Since when no job runs; the expected end of a drain while that is so.
        self.idle_since = now

    def begin(
        self,
        *,
        schedule: int,
        reason: str,
        on_completion: str,
        check: str,
        start: str,
        now: float,
        deadline: int = 0,
    ) -> str:
        """Begin to drain; returns the request's id. ``deadline`` (epoch) is for policies only; 0 is none.

        :raises BusyError: when the machine drains already.
        :raises UsageError: for an unknown completion, a bad expression, or a check that is not true for every slot.
        """
        host, state = self._host, self.state
        if state.order is not None:
            already = f"the machine drains already (request {state.order.request_id})"
            raise BusyError(already, hint="cancel that one first")
        action = on_completion or "nothing"
        if action not in COMPLETIONS:
            raise UsageError(f"{action!r} is nothing to do on completion", hint=f"one of {', '.join(COMPLETIONS)}")
        when = schedule_of(schedule)
        start_text = start or host.settings.default_draining_start or None
        try:
            expression = compiled("-start", start_text) if start_text and when == GRACEFUL else None
            checked = compiled("-check", check) if check.strip() else None
        except ConfigError as error:
            raise UsageError(error.message, hint="give a ClassAd expression") from None
        if checked is not None:
            self._require(checked, now)
        state.drains += 1
        kept_start = start_text if when == GRACEFUL else None
        order = DrainOrder(str(state.drains), when, reason or "by command", action, kept_start, now, deadline)
        state.order = order
        host.settings.set_draining_start(expression)
        costs = state.costs
        costs.last_start = costs.counted_until = now
        if when > GRACEFUL:
            costs.badput_cpu_s += sum(
                record.total.cpus * record.slot.run.ran(now) for record in host.slots if record.slot.run
            )
        self._claim_ids.renew_unclaimed()
        self.publish(now)
        for record in host.slots:  # policies may refer to the drain
            self._ads.show(record, now)
        self._apply_order(order, now)
        self.settle(now)
        self.publish(now)
        host.outbox.own_ad = True
        return order.request_id

    def _require(self, check: Expression, now: float) -> None:
        for record in self._host.slots:
            self._ads.show(record, now)
            if not truth(check.value(record.ad, None, now)):
                raise UsageError(f"the check is not true for {record.name}", hint="the machine was not drained")

    def _apply_order(self, order: DrainOrder, now: float) -> None:
        mark = Draining(order.schedule, order.request_id, order.reason, order.began_at)
        for record in self._host.slots:
            self._apply(record, ev.DrainBegun(mark), now)

    def durable(self) -> tuple[DrainOrder | None, int, float | None, float | None, float, float]:
        """What makes :meth:`saved` worth writing again when it changes."""
        state, costs = self.state, self.state.costs
        totals = costs.badput_cpu_s, costs.unclaimed_cpu_s
        return state.order, state.drains, costs.last_start, costs.last_stop, *totals

    def saved(self) -> SavedDrain:
        """What a startd that is killed must find again: the order under way, the costs, the numbering."""
        state = self.state
        order: SavedOrder | None = None
        if state.order is not None:
            order = cast(SavedOrder, asdict(state.order))
        return SavedDrain(drains=state.drains, order=order, book=cast(SavedCosts, asdict(state.costs)))

    def resume(self, saved: SavedDrain, now: float) -> None:
        """Resume the drain that a previous startd on this host had begun.

        :raises ConfigError: when its start expression is none.
        """
        host, state = self._host, self.state
        order = DrainOrder(**saved["order"]) if saved["order"] is not None else None
        expression = compiled("-start", order.start) if order is not None and order.start is not None else None
        state.drains = int(saved["drains"])
        state.costs = DrainCosts(**saved["book"])
        if order is not None:
            state.order = order
            host.settings.set_draining_start(expression)
            for record in host.slots:
                if record.slot.run is not None:  # the retirement of each counts for the others
                    self._policies.evaluate(record, now)
            self._apply_order(order, now)
            self.settle(now)
        self.publish(now)

    def cancel(self, request_id: str, now: float) -> None:
        """End draining; without an id always accepted, even when nothing drains.

        :raises UsageError: when ``request_id`` is not the present request.
        """
        state = self.state
        if request_id and (state.order is None or state.order.request_id != request_id):
            hint = "leave the id out to cancel any"
            raise UsageError(f"request {request_id} does not drain this machine", hint=hint)
        self.count_idle(now)
        state.order = None
        self._host.settings.set_draining_start(None)
        state.costs.last_stop = now
        for record in self._host.slots:
            self._apply(record, ev.DrainEnded(), now)
        self.publish(now)
        self._host.outbox.own_ad = True

    def settle(self, now: float) -> None:
        """Follow the progress of the slots.

        START is closed once the last job that was accepted before the drain has gone; then the drain completes.
        """
        host, state = self._host, self.state
        order = state.order
        if order is None:
            return
        if order.start is not None and not accepted_before(host.slots):
            state.order = order = replace(order, start=None)
            host.settings.set_draining_start(None)
            self._claim_ids.renew_unclaimed()
            self._apply_order(order, now)
        if not all_drained(host.slots):
            return
        for record in host.slots:
            if isinstance(record.slot.state, Drained) and not record.slot.state.complete:
                self._apply(record, ev.Evaluate(), now)
        if order.on_completion == "resume":
            self.cancel("", now)
        elif order.on_completion != "nothing":
            host.outbox.completion = order.on_completion
            state.order = replace(order, on_completion="nothing")

    def count_idle(self, now: float) -> None:
        """Book the cores that have been idle because of the drain since it was last booked."""
        costs = self.state.costs
        if self.state.order is not None:
            idle = sum(record.free.cpus for record in self._host.slots if isinstance(record.slot.state, Drained))
            costs.unclaimed_cpu_s += idle * max(0.0, now - costs.counted_until)
        costs.counted_until = now

    def publish(self, now: float) -> None:
        """Bring what all ads say about draining up to date."""
        self._ads.machine.update(self.attributes(now))

    def attributes(self, now: float) -> dict[str, Value]:
        """What every slot ad says about draining and its cost (cpu-seconds, epoch)."""
        self.count_idle(now)
        graceful = quick = 0.0
        graceful_end = quick_end = self.idle_since
        for record in self._host.slots:
            run = record.slot.run
            if run is None:
                continue
            policy = record.policy or ev.PolicyEval()
            vacate = run.machine_vacate_s
            left = max(remaining(record.slot, policy, now), vacate)
            ran = run.ran(now)
            graceful += record.total.cpus * (ran + left)
            quick += record.total.cpus * (ran + vacate)
            graceful_end = max(graceful_end, now + left)
            quick_end = max(quick_end, now + vacate)
        order, costs = self.state.order, self.state.costs
        return {
            "Draining": True if order else None,
            "DrainReason": order.reason if order else None,
            "DrainingRequestId": order.request_id if order else None,
            "DrainingDeadline": (order.deadline or None) if order else None,
            "ExpectedMachineGracefulDrainingBadput": _capped(graceful),
            "ExpectedMachineQuickDrainingBadput": _capped(quick),
            "ExpectedMachineGracefulDrainingCompletion": _capped(graceful_end),
            "ExpectedMachineQuickDrainingCompletion": _capped(quick_end),
            "TotalMachineDrainingBadput": _capped(costs.badput_cpu_s) if costs.last_start else None,
            "TotalMachineDrainingUnclaimedTime": _capped(costs.unclaimed_cpu_s) if costs.last_start else None,
            "LastDrainStartTime": int(costs.last_start) if costs.last_start else None,
            "LastDrainStopTime": int(costs.last_stop) if costs.last_stop else None,
        }


def _capped(value: float) -> int:
    return _LARGEST if math.isinf(value) or value > _LARGEST else int(value)
