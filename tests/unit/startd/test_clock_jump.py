"""The host's clock is set: leases and deadlines go on as if nothing had happened."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from slotwise.startd.monitor.clock_jump import ClockJumpDetector
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.deadlines import deferred
from slotwise.startd.slot.fsm import next_timer

from tests.support.set_clock import SetClock
from tests.support.startd_point import Point, point


def test_a_step_is_told_once_and_what_is_small_is_none() -> None:
    clock = SetClock()
    watch = ClockJumpDetector(clock)
    clock.advance(500)
    clock.set_by = 3
    assert not watch.pending() and watch.jump_s() == 0
    clock.set_by = -3600
    assert watch.pending() and watch.jump_s() == -3600
    assert not watch.pending() and watch.jump_s() == 0


def in_use(*stimuli: ev.SlotEvent) -> Point:
    p = point(NUM_SLOTS="1", MAXJOBRETIREMENTTIME="1000", MACHINEMAXVACATETIME="50")
    p.poll()
    p.run()
    for stimulus in stimuli:
        p.apply("slot1", stimulus, after=10)
    return p


@pytest.mark.parametrize(
    "stimuli",
    [
        (),
        (ev.VacateCommanded(fast=False),),
        (ev.VacateCommanded(fast=True),),
        (ev.SuspendCommanded(),),
        (ev.Deactivated(fast=False, code=1009, reason="no more jobs"),),
        (ev.Released(code=1009, reason="no more jobs", fast=False),),
    ],
    ids=["busy", "retiring", "killing", "suspended", "ending", "vacating"],
)
@pytest.mark.parametrize("by_s", [7200.0, -7200.0])
def test_what_is_due_stays_as_far_away(stimuli: tuple[ev.SlotEvent, ...], by_s: float) -> None:
    p = in_use(*stimuli)
    slot, facts = p["slot1"].slot, p["slot1"].policy
    assert facts is not None
    due = next_timer(slot, facts, p.now)
    assert due is not None
    moved = deferred(slot, by_s)
    assert next_timer(moved, facts, p.now + by_s) == due + by_s
    assert moved.run is not None and slot.run is not None
    assert moved.run.ran(p.now + by_s) == slot.run.ran(p.now)
    assert replace(moved, state=slot.state) == slot


def test_a_slot_without_a_claim_is_left_alone() -> None:
    p = point()
    p.poll()
    assert deferred(p["slot1"].slot, 3600) == p["slot1"].slot
