"""Retirement and vacate arithmetic, section by section of the manual."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace
from slotwise.model.claim import Run
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.retirement import expired, expires_at, own_remaining, remaining, vacate_time
from slotwise.startd.slot.states import Busy, Claimed, Draining

from tests.support.startd_slots import T0, Driven, busy


def running(*, ran: float = 0, machine: float = 3600, promised: float = 600, **terms: float | bool) -> Driven:
    """A job that has run for ``ran`` seconds, with retirement ``machine`` and vacate promise ``promised``."""
    d = busy(Run("1.0#1", T0, **terms), machine_retirement_s=machine, machine_vacate_s=promised)  # type: ignore[arg-type]
    d.now += ran
    return d


def test_the_manuals_example() -> None:
    """Retirement 3600, vacate 600, the job has run 1000 s when PREEMPT fires."""
    d = running(ran=1000)
    d.poll(preempt=True)
    assert remaining(d.slot, d.facts, d.now) == 2600
    assert expires_at(d.slot, d.facts, d.now) == d.now + 2000
    d.poll(1999)
    assert d.place == "Claimed/Retiring"
    d.poll(1)
    assert d.did(ev.SoftKill)[0].vacate_s == 600
    d.poll(599)
    assert d.place == "Preempting/Vacating"
    d.poll(1)
    assert d.did(ev.HardKill)
    d.poll(30)
    assert d.did(ev.KillFamily)


@pytest.mark.parametrize(
    ("machine", "job", "ran", "left"),
    [(3600, None, 100, 3500), (3600, 60, 10, 50), (60, 3600, 10, 50), (0, 3600, 10, -10), (3600, 0, 10, -10)],
)
def test_a_job_may_only_shorten_its_retirement(machine: float, job: float | None, ran: float, left: float) -> None:
    d = running(ran=ran, machine=machine, retirement_s=job)  # type: ignore[arg-type]
    run = d.slot.run
    assert run is not None
    assert own_remaining(d.slot, d.facts, run, d.now) == left


def test_nice_users_have_none() -> None:
    d = running(ran=1, nice_user=True)
    assert remaining(d.slot, d.facts, d.now) < 0


def test_time_in_suspension_is_not_run_time() -> None:
    d = running(ran=100)
    d.apply(ev.SuspendCommanded())
    d.apply(ev.ContinueCommanded(), 5000)
    assert remaining(d.slot, d.facts, d.now) == 3500
    d.poll(50)
    assert remaining(d.slot, d.facts, d.now) == 3450


def test_the_clock_goes_on_in_retiring() -> None:
    d = running(ran=100)
    d.poll(preempt=True)
    d.poll(100)
    assert remaining(d.slot, d.facts, d.now) == 3400


@pytest.mark.parametrize(
    ("wanted", "ran", "given"),
    [
        (None, 0, 600),
        (60, 0, 60),
        (600, 0, 600),
        (1200, 0, 1200),  # enough retirement is left
        (1200, 2700, 900),  # more is left than the machine's promise, but less than wanted
        (1200, 3300, 600),  # less is left than the promise
    ],
)
def test_each_branch_of_the_vacate_time(wanted: float | None, ran: float, given: float) -> None:
    d = running(ran=ran, vacate_s=wanted)  # type: ignore[arg-type]
    assert vacate_time(d.slot, d.facts, d.now) == given


def test_the_promise_of_activation_holds_whatever_the_policy_says_later() -> None:
    d = running(promised=600)
    d.poll(machine_vacate_s=5)
    assert vacate_time(d.slot, d.facts, d.now) == 600


def test_without_a_job_there_is_no_retirement() -> None:
    d = running()
    d.apply(ev.RunGone())
    assert remaining(d.slot, d.facts, d.now) == 0
    assert expired(d.slot, d.facts, d.now)


def test_peaceful_shutdown_has_no_end() -> None:
    d = running()
    d.slot = replace(d.slot, shutdown="peaceful")
    assert math.isinf(remaining(d.slot, d.facts, d.now))
    assert expires_at(d.slot, d.facts, d.now) is None


def graceful(d: Driven, **facts: float | bool) -> float:
    d.slot = replace(d.slot, draining=Draining(0, "1", "x", d.now))
    return remaining(d.slot, replace(d.facts, **facts), d.now)


def test_draining_lets_a_job_stay_as_long_as_the_longest_if_start_would_take_it() -> None:
    d = running(ran=100, machine=1000)
    assert graceful(d, longest_retirement_s=5000, start_in_force=True) == 5000
    assert graceful(d, longest_retirement_s=5000, start_in_force=False) == 900


def test_draining_does_not_help_a_job_whose_own_retirement_is_over() -> None:
    d = running(ran=2000, machine=1000)
    assert graceful(d, longest_retirement_s=5000, start_in_force=True) == -1000


def test_jobs_accepted_while_draining_go_with_the_last_of_the_others() -> None:
    d = running(ran=10, machine=1000, accepted_while_draining=True)
    state, run = d.slot.state, d.slot.run
    assert isinstance(state, Claimed) and isinstance(state.doing, Busy) and run is not None
    doing = replace(state.doing, run=replace(run, accepted_while_draining=True))
    d.slot = replace(d.slot, state=replace(state, doing=doing))
    assert graceful(d, longest_retirement_s=0) == 0
