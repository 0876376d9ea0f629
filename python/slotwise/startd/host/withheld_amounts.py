"""What broken dynamic slots withhold from the partitionable slot that they were carved from."""

from __future__ import annotations

from slotwise.errors import InvariantError
from slotwise.model.slot import BrokenCode
from slotwise.startd.records.breakage import Withheld
from slotwise.startd.records.slot_record import SlotRecord


def withhold(parent: SlotRecord, entry: Withheld) -> bool:
    """Take amounts out of what the slot has left; false when they are not all there."""
    try:
        left = parent.free.minus(entry.amounts)
    except InvariantError:
        return False
    if not left.nowhere_negative():
        return False
    parent.free, parent.withheld.total = left, parent.withheld.total.plus(entry.amounts)
    parent.withheld.entries.append(entry)
    return True


def withhold_pending(parent: SlotRecord) -> None:
    """Withhold what is pending, as far as it is free by now."""
    for entry in list(parent.withheld.pending):
        if withhold(parent, entry):
            parent.withheld.pending.remove(entry)


def numbers_in_use(parent: SlotRecord) -> set[int]:
    """Numbers of dynamic slots that broke because of processes that could not be killed.

    The cgroups of these are named after the slots, so that a job in a slot of the same name would share them.
    """
    hung = [entry.name for entry in parent.withheld.entries if entry.breakage.code == BrokenCode.HUNG_PROCESS]
    numbers = (name.partition("@")[0].rpartition("_")[2] for name in hung)
    return {int(number) for number in numbers if number.isdecimal()}
