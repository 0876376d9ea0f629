"""When cycles run."""

from hypothesis import given
from hypothesis import strategies as st
from slotwise.negotiator.schedule import CycleTiming, Schedule


def run(schedule: Schedule, start: float, duration: float) -> None:
    schedule.begin(start)
    schedule.end(start + duration)


def test_the_first_cycle_comes_at_once_and_the_next_after_the_interval() -> None:
    schedule = Schedule(timer_at=100.0)
    assert schedule.next_at() == 100.0
    run(schedule, 100.0, 2.0)
    assert schedule.next_at() == 160.0


def test_a_long_cycle_is_followed_by_the_delay() -> None:
    schedule = Schedule(timer_at=0.0)
    run(schedule, 0.0, 55.0)
    assert schedule.next_at() == 75.0


def test_an_ordinary_ask_waits_for_both_gaps() -> None:
    schedule = Schedule(CycleTiming(cycle_delay_s=3, min_interval_s=10))
    run(schedule, 0.0, 1.0)
    schedule.ask(2.0, on_demand=False)
    assert schedule.next_at() == 10.0
    assert Schedule(CycleTiming(cycle_delay_s=3)).next_at() == 0.0


def test_work_on_demand_waits_for_no_gap() -> None:
    schedule = Schedule()
    run(schedule, 0.0, 0.01)
    schedule.ask(5.0, on_demand=True)
    assert schedule.next_at() == 5.0
    run(schedule, 5.0, 0.01)
    assert schedule.next_at() > 60


def test_an_ask_during_a_cycle_means_another_one_after_a_pause_as_long_as_it() -> None:
    schedule = Schedule()
    schedule.begin(10.0)
    schedule.ask(10.5, on_demand=True)
    schedule.ask(10.7, on_demand=True)
    schedule.end(11.0)
    assert schedule.next_at() == 12.0
    run(schedule, 12.0, 0.1)
    assert schedule.next_at() > 60


def test_an_ordinary_ask_during_a_cycle_is_not_lost() -> None:
    schedule = Schedule(CycleTiming(on_demand=False))
    schedule.begin(10.0)
    schedule.ask(10.5, on_demand=False)
    schedule.end(11.0)
    assert schedule.next_at() == 31.0


def test_the_administrator_may_forbid_cycles_on_demand() -> None:
    schedule = Schedule(CycleTiming(on_demand=False))
    run(schedule, 0.0, 1.0)
    schedule.ask(2.0, on_demand=True)
    schedule.slot_freed(2.0)
    assert schedule.next_at() == 21.0


def test_freed_slots_are_gathered() -> None:
    schedule = Schedule()
    run(schedule, 10.0, 0.01)
    schedule.slot_freed(10.02)
    assert schedule.next_at() == 10.25
    schedule.slot_freed(10.2)
    assert schedule.next_at() == 10.25


def test_long_cycles_for_freed_slots_are_rare() -> None:
    schedule = Schedule()
    run(schedule, 10.0, 1.0)
    schedule.slot_freed(11.5)
    assert schedule.next_at() == 20.0


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans(), st.floats(0, 10)), max_size=30))
def test_no_cycle_starts_before_the_former_has_ended(steps: list[tuple[float, bool, float]]) -> None:
    schedule, now = Schedule(), 0.0
    for wait, urgent, duration in steps:
        now += wait
        schedule.ask(now, on_demand=urgent)
        start = max(now, schedule.next_at())
        assert schedule.ended_at is None or start >= schedule.ended_at
        run(schedule, start, duration)
        now = start + duration


def preempting(schedule: Schedule, start: float, duration: float) -> None:
    schedule.begin(start)
    schedule.end(start + duration, preempted=True)


def test_after_a_cycle_that_preempted_others_leave_claims_alone_until_both_gaps_are_over() -> None:
    schedule = Schedule(CycleTiming(cycle_delay_s=20, min_interval_s=25))
    preempting(schedule, 100.0, 1.0)
    assert not schedule.may_preempt(101.0)
    assert not schedule.may_preempt(124.9)
    assert schedule.may_preempt(125.0)
    schedule = Schedule(CycleTiming(cycle_delay_s=20, min_interval_s=5))
    preempting(schedule, 100.0, 1.0)
    assert not schedule.may_preempt(120.9)
    assert schedule.may_preempt(121.0)


def test_work_on_demand_is_matched_with_free_slots_meanwhile_and_looked_at_again_after_the_gaps() -> None:
    schedule = Schedule()
    preempting(schedule, 100.0, 0.01)
    schedule.ask(101.0, on_demand=True)
    assert schedule.next_at() == 101.0
    run(schedule, 101.0, 0.01)
    assert not schedule.may_preempt(101.1)
    assert schedule.next_at() == 120.01
    schedule.slot_freed(103.0)
    assert schedule.next_at() == 103.0
    run(schedule, 103.0, 0.01)
    assert schedule.next_at() == 120.01
    assert schedule.may_preempt(schedule.next_at())
    run(schedule, 120.01, 0.01)
    assert schedule.next_at() > 140


def test_a_quiet_pool_is_not_looked_at_again_after_a_preemption() -> None:
    schedule = Schedule()
    preempting(schedule, 100.0, 0.01)
    assert schedule.next_at() == 160.0


@given(
    st.lists(st.tuples(st.floats(0, 3), st.booleans(), st.floats(0, 2)), max_size=60),
    st.floats(0, 10),
    st.floats(0, 10),
)
def test_preempting_cycles_keep_the_gaps_whatever_is_asked(
    steps: list[tuple[float, bool, float]], delay: float, least: float
) -> None:
    schedule, now = Schedule(CycleTiming(cycle_delay_s=delay, min_interval_s=least)), 0.0
    last: tuple[float, float] | None = None
    for wait, freed, duration in steps:
        now += wait
        if freed:
            schedule.slot_freed(now)
        else:
            schedule.ask(now, on_demand=True)
        now = max(now, schedule.next_at())
        preempts = schedule.may_preempt(now)
        if preempts and last is not None:
            assert now >= last[1] + delay
            assert now >= last[0] + least
        schedule.begin(now)
        end = now + duration
        schedule.end(end, preempted=preempts)
        last = (now, end) if preempts else last
        now = end
