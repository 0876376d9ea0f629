"""Fetched work in the state machine of a slot: when it is taken, what it displaces, what displaces it, and its end."""

from __future__ import annotations

from typing import Any

import pytest
from slotwise.model.claim import Claim, Run
from slotwise.model.slot import SlotKind
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.fsm import next_timer
from slotwise.startd.slot.states import Backfill, Claimed, Draining, Slot

from tests.support.startd_slots import T0, Driven, busy, claim, claimed, owner, suspended, unclaimed, vacating

GONE = ev.RunGone()


def work(name: str = "1", rank: float = 0.0) -> ev.WorkFetched:
    return ev.WorkFetched(Claim(f"fetched-{name}", "", T0, 1200, T0, rank, fetched=True), Run(f"{name}.0#f", T0))


def working(rank: float = 0.0, **facts: Any) -> Driven:
    d = unclaimed()
    d.apply(work("1", rank), **facts)
    assert d.place == "Claimed/Busy"
    return d


def waiting_for_work() -> Driven:
    d = working()
    d.apply(GONE)
    assert d.place == "Claimed/Idle"
    return d


def run_of(d: Driven) -> str:
    assert d.slot.run is not None
    return d.slot.run.run_id


def refusals(d: Driven) -> list[str]:
    return [action.claim_id for action in d.did(ev.ClaimRefused)]


def test_an_unclaimed_slot_takes_it_and_starts_it_at_once() -> None:
    d = unclaimed()
    d.apply(work())
    assert (d.numbers, d.place, run_of(d)) == ([5, 11], "Claimed/Busy", "1.0#f")
    assert d.did(ev.ClaimGranted) and d.did(ev.ReplaceClaimId) and d.did(ev.StartRun)
    assert d.slot.counters.job_starts == 1


def test_a_slot_of_its_owner_takes_it_too() -> None:
    """HTCondor: the policy may allow fetched work while IS_OWNER is true; IS_OWNER counts again once it has ended."""
    d = owner()
    d.apply(work())
    assert (d.numbers, d.place) == ([None, 11], "Claimed/Busy")
    d.apply(GONE)
    assert d.place == "Owner/Idle"


def test_benchmarks_give_way() -> None:
    d = unclaimed()
    d.poll(run_benchmarks=True)
    d.apply(work(), run_benchmarks=False)
    assert d.place == "Claimed/Busy" and d.did(ev.StopBenchmarks)


def test_the_idle_claim_serves_the_next_work_and_ends_without_any() -> None:
    d = waiting_for_work()
    d.apply(work("2", rank=3.0))
    assert (d.numbers, run_of(d)) == ([11], "2.0#f")
    assert d.slot.claim is not None
    assert (d.slot.claim.claim_id, d.slot.claim.rank, d.slot.claim.activations) == ("fetched-1", 3.0, 2)
    assert not d.did(ev.ClaimGranted)
    d.apply(GONE)
    d.apply(ev.NoWorkFetched())
    assert (d.numbers[:2], d.place) == ([10, 25], "Unclaimed/Idle")
    assert [action.claim_id for action in d.did(ev.ClaimEnded)] == ["fetched-1"]


@pytest.mark.parametrize("before", [unclaimed, busy, claimed, vacating, working])
def test_no_work_changes_nothing_elsewhere(before: object) -> None:
    d = before()  # type: ignore[operator]
    slot = d.slot
    d.apply(ev.NoWorkFetched())
    assert d.slot == slot and not d.actions


@pytest.mark.parametrize("rank", [-1.0, 0.0])
def test_only_a_higher_rank_displaces_a_claim(rank: float) -> None:
    """As in HTCondor: fetched work has no user whose priority could count, so an equal rank is not enough."""
    for d in (busy(), claimed(), working()):
        before = d.slot
        d.apply(work("2", rank))
        assert refusals(d) == ["fetched-2"] and d.slot == before


@pytest.mark.parametrize("before", [busy, claimed, suspended, working])
def test_a_higher_rank_displaces_it_when_its_job_has_gone(before: object) -> None:
    d = before()  # type: ignore[operator]
    had_job = d.slot.run is not None
    d.apply(work("2", rank=1.0), suspend=False)
    if had_job:
        assert d.did(ev.ClaimQueued)
        assert d.place == "Preempting/Vacating"
        assert d.slot.counters.rank_preemptions == 1
        d.apply(GONE)
    assert d.place == "Claimed/Busy" and run_of(d) == "2.0#f"


def test_retirement_of_the_present_job_comes_first_and_the_work_waits() -> None:
    d = busy(machine_retirement_s=3600)
    d.apply(work("2", rank=1.0))
    assert d.place == "Claimed/Retiring"
    d.apply(work("3", rank=1.0))
    assert refusals(d) == ["fetched-3"], "as good as the work that waits is not better"
    d.apply(work("4", rank=2.0))
    assert refusals(d) == ["fetched-2"], "better work takes its place"
    d.poll(3601)
    d.apply(GONE)
    assert run_of(d) == "4.0#f"


def test_a_negotiated_claim_of_higher_rank_displaces_fetched_work() -> None:
    """The manual: a higher-ranked job that is matched with the slot preempts the fetched work."""
    d = working(rank=1.0)
    d.apply(ev.ClaimRequested(claim("worse", rank=0.5)))
    assert refusals(d) == ["worse"]
    d.apply(ev.ClaimRequested(claim("better", rank=2.0)))
    assert d.place == "Preempting/Vacating"
    d.apply(GONE)
    assert d.place == "Claimed/Idle" and d.slot.claim is not None and d.slot.claim.claim_id == "better"


def test_work_that_waits_is_refused_when_the_slot_is_no_longer_willing() -> None:
    d = busy()
    d.apply(work("2", rank=1.0))
    d.apply(GONE, waiting_start=False)
    assert refusals(d) == ["fetched-2"] and d.place == "Unclaimed/Idle"


def test_nothing_starts_while_a_job_is_made_to_leave_or_the_slot_is_closed() -> None:
    d = vacating()
    d.apply(work())
    assert refusals(d) == ["fetched-1"]
    for stop in (ev.ShutdownBegun("graceful"), ev.FoundBroken("cgroup"), ev.DrainBegun(Draining(0, "1", "x", T0))):
        d = unclaimed()
        d.apply(stop)
        d.apply(work())
        assert refusals(d) == ["fetched-1"] and d.slot.claim is None


def test_it_has_no_lease_but_a_work_life() -> None:
    d = working()
    d.poll(1e7, worklife_s=1200)
    assert d.place == "Claimed/Busy"
    assert next_timer(d.slot, d.facts, d.now) == float("inf")
    d.apply(GONE)
    assert d.place == "Unclaimed/Idle", "the claim has served for its work life"


def test_the_policy_treats_it_like_any_other_job() -> None:
    d = working()
    d.poll(want_suspend=True, suspend=True, continue_=False)
    assert d.place == "Claimed/Suspended"
    d.poll(suspend=False, continue_=True)
    assert d.place == "Claimed/Busy"
    d.poll(preempt=True, want_suspend=False)
    assert d.place == "Preempting/Vacating"
    d.apply(GONE, preempt=False)
    assert d.place == "Unclaimed/Idle"


def test_work_that_did_not_come_to_its_end_ends_the_claim() -> None:
    d = working()
    d.apply(ev.RunGone(unfinished="it could not start"))
    assert d.place == "Unclaimed/Idle"
    (ended,) = d.did(ev.ClaimEnded)
    assert ended.cause.reason == "it could not start" and not ended.cause.tell_schedd
    d = busy()
    d.apply(ev.RunGone(unfinished="a schedd's claim lives on"))
    assert d.place == "Claimed/Idle"


def test_filler_work_is_killed_for_it() -> None:
    d = Driven(Slot("slot1", SlotKind.STATIC, Backfill(), T0, T0), facts=ev.PolicyEval(start_backfill=True))
    d.apply(ev.BackfillStarted())
    d.apply(work())
    assert d.place == "Backfill/Killing" and d.did(ev.ClaimQueued)
    d.apply(work("2", rank=9.0))
    assert refusals(d) == ["fetched-2"]
    d.apply(ev.BackfillEnded())
    assert (d.numbers, run_of(d)) == ([32, 11], "1.0#f")
    d = Driven(Slot("slot1", SlotKind.STATIC, Backfill(), T0, T0), facts=ev.PolicyEval(start_backfill=True))
    d.apply(work())
    assert (d.numbers, d.place) == ([32, 11], "Claimed/Busy")
    assert isinstance(d.slot.state, Claimed) and d.slot.state.claim.fetched


@pytest.mark.parametrize("facts", [{"waiting_start": False}, {"waiting_start": False, "start": False}])
def test_a_claim_does_not_leave_for_work_that_the_slot_would_not_take(facts: dict[str, Any]) -> None:
    d = claimed()
    d.apply(work("better", rank=1), **facts)
    assert refusals(d) == ["fetched-better"] and not d.did(ev.ClaimQueued)
    assert d.place == "Claimed/Idle" and not d.did(ev.ClaimEnded)
    d.apply(ev.ClaimRequested(claim("best", rank=2)))
    assert refusals(d) == ["best"] and not d.did(ev.ClaimQueued) and d.place == "Claimed/Idle"
