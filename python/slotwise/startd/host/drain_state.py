"""The drain under way on a host, and what draining has cost so far."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot.retirement import own_remaining
from slotwise.startd.slot.states import Drained

GRACEFUL, QUICK, FAST = 0, 10, 20


class DrainOrder(Struct, frozen=True):
    """An accepted request to drain. ``start`` takes the place of START; None: no new jobs at all."""

    request_id: str
    schedule: int
    reason: str
    on_completion: str = "nothing"
    start: str | None = None
    began_at: float = 0
    deadline: int = 0


class DrainCosts(Struct):
    """What draining has cost so far (cpu-seconds, epoch), for the ads."""

    last_start: float | None = None
    last_stop: float | None = None
    badput_cpu_s: float = 0
    unclaimed_cpu_s: float = 0
    counted_until: float = 0


class DrainState(Struct):
    """The order under way, if any; how many there have been; the costs of all."""

    order: DrainOrder | None = None
    drains: int = 0
    costs: DrainCosts = field(default_factory=DrainCosts)

    @property
    def start(self) -> str | None:
        """The expression in START's place; None where there is no drain, or no job is accepted."""
        return self.order.start if self.order is not None else None

    def clear(self) -> None:
        """Forget the order and the costs."""
        self.order, self.costs = None, DrainCosts()


def schedule_of(value: int) -> int:
    """Values between the three schedules count as the next one up."""
    return GRACEFUL if value <= GRACEFUL else QUICK if value <= QUICK else FAST


def all_drained(slots: Iterable[SlotRecord], besides: SlotRecord | None = None) -> bool:
    """Whether every slot is Drained and no dynamic one is left."""
    return all(
        record is besides or (not record.slot.vanishes and isinstance(record.slot.state, Drained)) for record in slots
    )


def longest_retirement(slots: Iterable[SlotRecord], now: float) -> float:
    """The longest retirement (seconds) of a job that was accepted before the drain; 0 when none is left."""
    longest = 0.0
    for record in accepted_before(slots):
        run = record.slot.run
        if run is not None and record.policy is not None:
            longest = max(longest, own_remaining(record.slot, record.policy, run, now))
    return longest


def accepted_before(slots: Iterable[SlotRecord]) -> list[SlotRecord]:
    """Slots with a job that was accepted before the drain."""
    return [record for record in slots if record.slot.run and not record.slot.run.accepted_while_draining]
