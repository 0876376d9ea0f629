"""Draining a machine: who may stay how long, what it costs, when it is complete.

Source: manual, "condor_drain" and draining attributes.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from slotwise.classad.evaluate import compiled, truth
from slotwise.errors import BusyError, ConfigError, UsageError
from slotwise.model.slot import SlotKind
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.retirement import own_remaining, remaining
from slotwise.startd.slot.states import Drained, Draining

if TYPE_CHECKING:
    from slotwise.startd.host.execution_point import ExecutionPoint
    from slotwise.startd.records.slot_record import Holding

GRACEFUL, QUICK, FAST = 0, 10, 20
COMPLETIONS = ("nothing", "resume", "exit", "restart", "reconfig")
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class DrainOrder:
    """An accepted request to drain. ``start`` takes the place of START; None: no new jobs at all."""

    request_id: str
    schedule: int
    reason: str
    on_completion: str = "nothing"
    start: str | None = None
    began_at: float = 0
    deadline: int = 0


@dataclass
class DrainBook:
    """What draining has cost so far, for the ads."""

    last_start: float | None = None
    last_stop: float | None = None
    badput_cpu_s: float = 0
    unclaimed_cpu_s: float = 0
    counted_until: float = 0


def schedule_of(value: int) -> int:
    """Values between the three schedules count as the next one up."""
    return GRACEFUL if value <= GRACEFUL else QUICK if value <= QUICK else FAST


def begin(
    point: ExecutionPoint,
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
    if point.order is not None:
        raise BusyError(f"the machine drains already (request {point.order.request_id})", hint="cancel that one first")
    action = on_completion or "nothing"
    if action not in COMPLETIONS:
        raise UsageError(f"{action!r} is nothing to do on completion", hint=f"one of {', '.join(COMPLETIONS)}")
    when = schedule_of(schedule)
    start_text = start or point.settings.default_draining_start or None
    try:
        expression = compiled("-start", start_text) if start_text and when == GRACEFUL else None
        checked = compiled("-check", check) if check.strip() else None
    except ConfigError as error:
        raise UsageError(error.message, hint="give a ClassAd expression") from None
    if checked is not None:
        for h in point.holdings.values():
            point.show(h, now)
            if not truth(checked.value(h.ad, None, now)):
                raise UsageError(f"the check is not true for {h.name}", hint="the machine was not drained")
    point.drains += 1
    order = DrainOrder(
        str(point.drains), when, reason or "by command", action, start_text if when == GRACEFUL else None, now, deadline
    )
    point.order = order
    point.settings.set_draining_start(expression)
    book = point.book
    book.last_start = book.counted_until = now
    if when > GRACEFUL:
        book.badput_cpu_s += _sum_cpus(point, now, running=True)
    _void_free_ids(point)
    mark = Draining(when, order.request_id, order.reason, now)
    publish(point, now)
    for h in point.holdings.values():  # policies may look at the drain
        point.show(h, now)
    for h in list(point.holdings.values()):
        if h.name in point.holdings:
            point.happen(h, ev.DrainBegun(mark), now)
    settle(point, now)
    publish(point, now)
    point.outbox.own_ad = True
    return order.request_id


def state(point: ExecutionPoint) -> tuple[Any, ...]:
    """What makes :func:`kept` worth writing again when it changes."""
    book = point.book
    return point.order, point.drains, book.last_start, book.last_stop, book.badput_cpu_s, book.unclaimed_cpu_s


def kept(point: ExecutionPoint) -> dict[str, Any]:
    """What a startd that is killed must find again: the order under way, what drains have cost, the numbering."""
    order = point.order
    return {
        "drains": point.drains,
        "order": asdict(order) if order is not None else None,
        "book": asdict(point.book),
    }


def take_up(point: ExecutionPoint, record: dict[str, Any], now: float) -> None:
    """Go on with the drain that a former startd on this host had begun.

    :raises ConfigError: when its start expression is none.
    """
    order = DrainOrder(**record["order"]) if record["order"] is not None else None
    expression = compiled("-start", order.start) if order is not None and order.start is not None else None
    point.drains = int(record["drains"])
    point.book = DrainBook(**record["book"])
    if order is not None:
        point.order = order
        point.settings.set_draining_start(expression)
        mark = Draining(order.schedule, order.request_id, order.reason, order.began_at)
        for h in point.holdings.values():
            if h.slot.run is not None:  # what each may still stay counts for the others
                point.judge(h, now)(h.slot)
        for h in list(point.holdings.values()):
            if h.name in point.holdings:
                point.happen(h, ev.DrainBegun(mark), now)
        settle(point, now)
    publish(point, now)


def cancel(point: ExecutionPoint, request_id: str, now: float) -> None:
    """End draining; without an id always accepted, even when nothing drains.

    :raises UsageError: when ``request_id`` is not the present request.
    """
    if request_id and (point.order is None or point.order.request_id != request_id):
        raise UsageError(f"request {request_id} does not drain this machine", hint="leave the id out to cancel any")
    count_idle(point, now)
    point.order = None
    point.settings.set_draining_start(None)
    point.book.last_stop = now
    for h in list(point.holdings.values()):
        if h.name in point.holdings:
            point.happen(h, ev.DrainEnded(), now)
    publish(point, now)
    point.outbox.own_ad = True


def settle(point: ExecutionPoint, now: float) -> None:
    """What follows from others' progress: no START once the last job of before has gone; completion."""
    order = point.order
    if order is None:
        return
    if order.start is not None and not _old_jobs(point):
        point.order = order = replace(order, start=None)
        point.settings.set_draining_start(None)
        _void_free_ids(point)
        mark = Draining(order.schedule, order.request_id, order.reason, order.began_at)
        for h in list(point.holdings.values()):
            if h.name in point.holdings:
                point.happen(h, ev.DrainBegun(mark), now)
    if not point.all_drained():
        return
    for h in list(point.holdings.values()):
        if isinstance(h.slot.state, Drained) and not h.slot.state.complete:
            point.happen(h, ev.Evaluate(), now)
    if order.on_completion == "resume":
        cancel(point, "", now)
    elif order.on_completion != "nothing":
        point.outbox.completion = order.on_completion
        point.order = replace(order, on_completion="nothing")


def count_idle(point: ExecutionPoint, now: float) -> None:
    """Book the cores that have been idle because of the drain since it was last booked."""
    book = point.book
    if point.order is not None:
        idle = sum(h.free.cpus for h in point.holdings.values() if isinstance(h.slot.state, Drained))
        book.unclaimed_cpu_s += idle * max(0.0, now - book.counted_until)
    book.counted_until = now


def longest_retirement(point: ExecutionPoint, now: float) -> float:
    """The longest that a job of before the drain may stay (seconds); 0 when none is left."""
    longest = 0.0
    for h in _old_jobs(point):
        run = h.slot.run
        if run is not None and h.facts is not None:
            longest = max(longest, own_remaining(h.slot, h.facts, run, now))
    return longest


def _old_jobs(point: ExecutionPoint) -> list[Holding]:
    """Slots with a job that was not accepted while draining."""
    return [h for h in point.holdings.values() if h.slot.run and not h.slot.run.accepted_while_draining]


def _void_free_ids(point: ExecutionPoint) -> None:
    """Claim ids that negotiators may still hold must not work any more."""
    for h in point.holdings.values():
        if h.slot.claim is None or h.kind is SlotKind.PARTITIONABLE:
            point.fresh_capability(h)


def _sum_cpus(point: ExecutionPoint, now: float, *, running: bool) -> float:
    return sum(h.total.cpus * h.slot.run.ran(now) for h in point.holdings.values() if running and h.slot.run)


def publish(point: ExecutionPoint, now: float) -> None:
    """Put what is to be said about draining into the machine's part of all ads."""
    point.machine.update(attributes(point, now))


def attributes(point: ExecutionPoint, now: float) -> dict[str, Any]:
    """What every slot ad says about draining and its cost (cpu-seconds, epoch)."""
    count_idle(point, now)
    graceful = quick = 0.0
    graceful_end = quick_end = point.idle_since
    for h in point.holdings.values():
        run = h.slot.run
        if run is None:
            continue
        facts = h.facts or ev.PolicyEval()
        vacate = run.machine_vacate_s
        left = max(remaining(h.slot, facts, now), vacate)
        ran = run.ran(now)
        graceful += h.total.cpus * (ran + left)
        quick += h.total.cpus * (ran + vacate)
        graceful_end = max(graceful_end, now + left)
        quick_end = max(quick_end, now + vacate)
    order, book = point.order, point.book
    return {
        "Draining": True if order else None,
        "DrainReason": order.reason if order else None,
        "DrainingRequestId": order.request_id if order else None,
        "DrainingDeadline": (order.deadline or None) if order else None,
        "ExpectedMachineGracefulDrainingBadput": _capped(graceful),
        "ExpectedMachineQuickDrainingBadput": _capped(quick),
        "ExpectedMachineGracefulDrainingCompletion": _capped(graceful_end),
        "ExpectedMachineQuickDrainingCompletion": _capped(quick_end),
        "TotalMachineDrainingBadput": _capped(book.badput_cpu_s) if book.last_start else None,
        "TotalMachineDrainingUnclaimedTime": _capped(book.unclaimed_cpu_s) if book.last_start else None,
        "LastDrainStartTime": int(book.last_start) if book.last_start else None,
        "LastDrainStopTime": int(book.last_stop) if book.last_stop else None,
    }


def _capped(value: float) -> int:
    return _LARGEST if math.isinf(value) or value > _LARGEST else int(value)
