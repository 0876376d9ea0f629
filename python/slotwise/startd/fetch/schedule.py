"""When a slot asks for work. Pure; times in seconds.

Source: manual, "Defining the FetchWorkDelay Expression": the delay counts from the end of the last attempt. What failed
is tried again later and later, which HTCondor does not do: there a hook that fails at once is started every second.
"""

from __future__ import annotations

from slotwise.backoff import Backoff
from slotwise.classad.evaluate import Value
from slotwise.model.slot import Activity, SlotKind, State
from slotwise.startd.records.fetch_attempts import Attempts
from slotwise.startd.slot.states import Slot

#: FetchWorkDelay where it is not defined, or not a number.
DEFAULT_DELAY_S = 300
#: The least time between two attempts, but for a claim that has just become idle.
LEAST_S = 1.0
#: The least time after a failure.
_BACKOFF = Backoff(first_s=5.0, factor=2.0, most_s=600.0)

#: Where a slot asks: HTCondor asks on while a job runs, as what is fetched may be liked better.
_ASKS = frozenset(
    {
        (State.OWNER, Activity.IDLE), (State.UNCLAIMED, Activity.IDLE), (State.UNCLAIMED, Activity.BENCHMARKING),
        (State.CLAIMED, Activity.IDLE), (State.CLAIMED, Activity.BUSY), (State.CLAIMED, Activity.RETIRING),
        (State.BACKFILL, Activity.IDLE), (State.BACKFILL, Activity.BUSY),
    }
)  # fmt: skip


def asks(slot: Slot) -> bool:
    """Whether a slot in this state may ask for work."""
    if slot.state_activity not in _ASKS or slot.broken or slot.shutdown:
        return False
    if slot.kind is SlotKind.PARTITIONABLE:
        return slot.state.state is State.UNCLAIMED
    return slot.draining is None or slot.state.state is State.CLAIMED


def delay(value: Value) -> int:
    """FetchWorkDelay as it counts: what is not a number is 300 seconds, as in HTCondor."""
    return int(value) if isinstance(value, bool | int | float) and abs(value) < 2**31 else DEFAULT_DELAY_S


def due_at(attempts: Attempts, slot: Slot, delay_s: int) -> float:
    """When the slot asks next; a time that has passed: now."""
    if not attempts.ended:
        return 0.0
    wait_s = max(float(delay_s), 0.0)
    fresh = slot.state_activity == (State.CLAIMED, Activity.IDLE) and slot.entered_activity >= attempts.ended
    if not (fresh and wait_s == 0.0):
        wait_s = max(wait_s, LEAST_S)
    if attempts.failures:
        wait_s = max(wait_s, _BACKOFF.delay_s(attempts.failures))
    return attempts.ended + wait_s
