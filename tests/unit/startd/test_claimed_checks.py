"""The order of checks in Claimed, row by row, and what happens when two rows apply at once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from slotwise.model.claim import Run
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Claimed, Draining, Hold

from tests.support.startd_slots import T0, Driven, busy, claim, claimed, retiring, suspended, unclaimed

DRAIN = ev.DrainBegun(Draining(0, "1", "x", T0))


def outbid(d: Driven, rank: float = 5) -> Driven:
    d.apply(ev.ClaimRequested(claim("better", rank=rank)))
    return d


def test_row_1_nothing_is_decided_in_cleaning() -> None:
    d = busy()
    d.apply(ev.RunFinishing())
    d.poll(preempt=True, is_owner=True, want_suspend=True, suspend=True)
    assert d.place == "Claimed/Cleaning"


def test_row_3_a_waiting_claim_gets_the_slot_when_retirement_is_over() -> None:
    d = outbid(busy(machine_retirement_s=1000))
    assert d.place == "Claimed/Retiring"
    d.poll(401)
    assert d.place == "Preempting/Vacating"
    assert d.did(ev.SoftKill)[0].cause.code == 1018


def test_row_3_remembers_whether_preempt_is_true() -> None:
    d = outbid(busy(machine_retirement_s=1000))
    d.poll(500, preempt=True, want_vacate=False)
    assert d.place == "Preempting/Killing"


def test_row_4_busy_with_want_suspend_is_left_to_suspension() -> None:
    d = busy(preempt=True, want_suspend=True, suspend=False)
    d.poll()
    assert d.place == "Claimed/Busy"
    d.poll(suspend=True, continue_=False)
    assert d.place == "Claimed/Suspended"
    d.poll()  # PREEMPT is looked at in Suspended
    assert d.place == "Preempting/Vacating"
    assert d.numbers[0] == 16


def test_row_4_preempt_makes_reversible_retirement_final() -> None:
    d = outbid(busy(machine_retirement_s=3600))
    d.poll(10, preempt=True)
    d.apply(ev.PreempterWithdrawn())
    d.poll(preempt=False)
    assert d.place == "Claimed/Retiring"


def test_row_4_retirement_by_preempt_does_not_end_when_preempt_turns_false() -> None:
    d = retiring()
    d.poll(100, preempt=False)
    assert d.place == "Claimed/Retiring"
    d.poll(3000)
    assert d.place == "Preempting/Vacating"
    assert d.did(ev.SoftKill)[0].cause.code == 1011


def test_row_5_a_job_goes_back_to_work_when_the_better_claim_goes() -> None:
    d = outbid(busy(machine_retirement_s=3600))
    d.apply(ev.PreempterWithdrawn(), 100)
    assert (d.numbers, d.place) == ([19], "Claimed/Busy")


def test_row_6_draining_ends_the_job_when_retirement_is_over() -> None:
    d = busy(machine_retirement_s=2000)
    d.apply(DRAIN)
    assert d.place == "Claimed/Retiring"
    d.poll(1399)
    assert d.place == "Claimed/Retiring"
    d.poll(1)
    assert d.place == "Preempting/Vacating"
    assert d.did(ev.SoftKill)[0].cause.code == 1014


def test_row_7_comes_before_row_9() -> None:
    d = busy(machine_retirement_s=3600)
    d.facts = replace(d.facts, want_suspend=True, suspend=True, continue_=False)
    outbid(d)
    assert d.place == "Claimed/Suspended"
    d.poll(continue_=True, suspend=False)
    assert (d.numbers[0], d.place) == (16, "Claimed/Retiring")


def test_row_8_a_job_suspended_by_command_ignores_continue() -> None:
    d = busy()
    d.apply(ev.SuspendCommanded())
    d.poll(continue_=True)
    assert d.place == "Claimed/Suspended"
    d.apply(ev.ContinueCommanded())
    assert d.place == "Claimed/Busy"


@pytest.mark.parametrize(("rank", "code"), [(5, 1018), (0, 1019)])
def test_row_9_rank_and_priority_have_their_codes(rank: float, code: int) -> None:
    d = outbid(busy(), rank)
    assert d.place == "Preempting/Vacating"
    assert d.did(ev.SoftKill)[0].cause.code == code
    counters = d.slot.counters
    assert (counters.rank_preemptions, counters.priority_preemptions) == ((1, 0) if rank else (0, 1))


def test_only_better_claims_that_were_taken_in_count_as_preemptions() -> None:
    d = busy()
    d.apply(ev.VacateCommanded(False))
    assert d.place == "Preempting/Vacating" and d.slot.counters.job_preemptions == 0
    assert outbid(busy()).slot.counters.job_preemptions == 1
    refused = busy()
    refused.apply(ev.ClaimRequested(claim("worse", rank=-1.0)))
    assert refused.did(ev.ClaimRefused) and refused.slot.counters.job_preemptions == 0


def test_row_10_an_idle_claim_makes_room_at_once() -> None:
    d = outbid(claimed())
    assert d.place == "Claimed/Idle"
    assert d.slot.claim is not None and d.slot.claim.claim_id == "better"
    assert d.numbers == [10, 24]


def test_row_11_an_idle_claim_leaves_when_the_owner_is_back_but_a_job_stays() -> None:
    d = claimed()
    d.poll(is_owner=True)
    assert d.numbers == [10, 25]
    assert d.place == "Owner/Idle"
    working = busy()
    working.poll(is_owner=True)
    assert working.place == "Claimed/Busy"


def test_row_12_worklife_zero_is_one_job_a_claim_and_none_is_for_ever() -> None:
    d = busy(worklife_s=0)
    d.apply(ev.RunGone())
    assert d.place == "Unclaimed/Idle"
    unlimited = busy(worklife_s=None)
    unlimited.apply(ev.RunGone(), 1e8)
    unlimited.poll(1e8)
    assert unlimited.place == "Claimed/Idle"


def test_row_12_does_not_ask_a_claim_that_never_ran_a_job() -> None:
    d = claimed()
    d.poll(5000)
    assert d.place == "Claimed/Idle"


def test_worklife_does_nothing_while_busy_but_refuses_the_next_job() -> None:
    d = busy()
    d.poll(5000)
    assert d.place == "Claimed/Busy"
    idle = busy(worklife_s=1e6)
    idle.apply(ev.RunGone(), 100)
    idle.apply(ev.Activated(Run("1.1#1", T0)), worklife_s=50)
    assert idle.did(ev.ActivationRefused)[0].code == 1029


def test_row_13_a_fresh_claim_gets_a_moment_to_start_its_job() -> None:
    d = claimed()
    d.apply(DRAIN)
    assert d.place == "Claimed/Idle"
    d.poll(19)
    assert d.place == "Claimed/Idle"
    d.poll(1)
    assert d.place == "Drained/Retiring"


def test_row_13_a_claim_that_has_served_leaves_a_draining_machine_at_once() -> None:
    d = busy()
    d.apply(ev.RunGone())
    d.apply(DRAIN)
    assert d.place == "Drained/Retiring"


# --------------------------------------------------------------------------------------------------- claims that wait


def test_equal_rank_is_accepted_lower_is_refused() -> None:
    d = busy()
    d.slot = replace(d.slot, state=replace(d.slot.state, claim=claim(rank=3)))
    d.apply(ev.ClaimRequested(claim("lower", rank=2)))
    assert d.did(ev.ClaimRefused)[0].claim_id == "lower"
    d.apply(ev.ClaimRequested(claim("equal", rank=3)), machine_retirement_s=3600)
    assert d.did(ev.ClaimQueued)[0].claim.claim_id == "equal"


def test_a_second_claim_replaces_the_one_that_waits_unless_its_rank_is_lower() -> None:
    d = outbid(busy(machine_retirement_s=3600), rank=5)
    d.apply(ev.ClaimRequested(claim("worse", rank=4)))
    assert d.did(ev.ClaimRefused)[0].claim_id == "worse"
    d.apply(ev.ClaimRequested(claim("best", rank=6)))
    assert [a.claim_id for a in d.did(ev.ClaimRefused)] == ["better"]
    assert isinstance(d.slot.state, Claimed) and d.slot.state.waiting is not None
    assert d.slot.state.waiting.claim.claim_id == "best"


def test_a_waiting_claim_whose_start_is_false_by_then_is_refused() -> None:
    d = outbid(busy())
    d.apply(ev.RunGone(), waiting_start=False)
    assert d.place == "Unclaimed/Idle"
    assert d.did(ev.ClaimRefused)[0].claim_id == "better"


def test_a_claim_that_the_policy_would_end_at_once_is_refused() -> None:
    d = unclaimed()
    d.facts = replace(d.facts, is_owner=True)
    d.apply(ev.ClaimRequested(claim()))
    assert d.did(ev.ClaimRefused) and not d.did(ev.ClaimGranted)
    assert d.place == "Unclaimed/Idle"


# ------------------------------------------------------------------------------------------------------- hold, vacate


def test_want_hold_holds_with_its_subcode_only_when_preempt_caused_it() -> None:
    hold = Hold("memory used up", 102)
    d = busy(want_hold=hold)
    d.poll(preempt=True)
    cause = d.did(ev.SoftKill)[0].cause
    assert (cause.hold, cause.subcode, cause.reason) == (True, 102, "memory used up")
    other = busy(want_hold=hold)
    other.apply(ev.VacateCommanded())
    assert other.did(ev.SoftKill)[0].cause.hold is False


def test_want_vacate_false_kills_at_once_only_when_preempt_caused_it() -> None:
    d = busy(want_vacate=False)
    d.poll(preempt=True)
    assert d.place == "Preempting/Killing"
    other = busy(want_vacate=False)
    other.apply(ev.VacateCommanded())
    assert other.place == "Preempting/Vacating"


def test_vacate_honours_retirement_and_fast_does_not() -> None:
    d = busy(machine_retirement_s=3600)
    d.apply(ev.VacateCommanded())
    assert d.place == "Claimed/Retiring"
    assert d.slot.state.pending_cause.code == 1010  # type: ignore[union-attr]
    d.apply(ev.VacateCommanded(fast=True))
    assert d.place == "Preempting/Killing"


def test_a_suspended_job_is_continued_before_it_is_asked_to_end() -> None:
    d = suspended()
    d.apply(ev.Released())
    kinds = [type(action) for action in d.actions]
    assert kinds.index(ev.ResumeRun) < kinds.index(ev.SoftKill)


def test_killing_repeats_until_the_slot_is_given_up_as_broken() -> None:
    d = busy()
    d.apply(ev.VacateCommanded(fast=True))
    tries = 0
    while d.place == "Preempting/Killing":
        d.poll(30)
        tries += len(d.did(ev.KillFamily))
        assert tries < 50
    assert tries == 10
    assert d.slot.broken


# ------------------------------------------------------------------------------------------------------------- leases


def test_the_end_of_the_lease_kills_the_job_without_a_word_to_the_schedd() -> None:
    d = busy()
    d.slot = replace(d.slot, state=replace(d.slot.state, claim=claim(lease_s=100)))
    d.poll(99)
    assert d.place == "Claimed/Busy"
    d.poll(1)
    assert d.place == "Preempting/Killing"
    d.apply(ev.RunGone())
    assert [a.cause.tell_schedd for a in d.did(ev.ClaimEnded)] == [False]


def test_being_heard_of_renews_the_lease() -> None:
    d = claimed(lease_s=100)
    d.apply(ev.KeptAlive(), 90)
    d.poll(90)
    assert d.place == "Claimed/Idle"


def test_a_lost_shadow_ends_the_lease_at_once() -> None:
    d = busy()
    d.apply(ev.ShadowLost())
    assert d.place == "Preempting/Killing"


# ----------------------------------------------------------------------------------------------------------- shutdown


@pytest.mark.parametrize(
    ("mode", "place"),
    [("graceful", "Claimed/Retiring"), ("fast", "Preempting/Killing"), ("peaceful", "Claimed/Retiring")],
)
def test_shutdown(mode: str, place: str) -> None:
    d = busy(machine_retirement_s=3600)
    d.apply(ev.ShutdownBegun(mode))
    assert d.place == place
    if mode != "fast":
        d.poll(1e6)
        assert d.place == ("Claimed/Retiring" if mode == "peaceful" else "Preempting/Vacating")


def test_peaceful_shutdown_does_not_spare_a_job_whose_machine_retirement_is_negative() -> None:
    d = busy(machine_retirement_s=-1)
    d.apply(ev.ShutdownBegun("peaceful"))
    assert d.place == "Preempting/Vacating"


def test_an_idle_claim_leaves_on_shutdown_and_nothing_new_comes() -> None:
    d = claimed()
    d.apply(ev.ShutdownBegun("graceful"))
    assert d.place == "Unclaimed/Idle"
    d.apply(ev.ClaimRequested(claim()))
    assert d.did(ev.ClaimRefused)


# --------------------------------------------------------------------------------------------------------- activation


def test_activation_is_refused_with_htcondors_codes() -> None:
    run = Run("2.0#1", T0)

    def code(d: Driven) -> int:
        d.apply(ev.Activated(run))
        return int(d.did(ev.ActivationRefused)[0].code)

    assert code(unclaimed()) == 1033
    assert code(busy()) == 1032
    preempted = busy()
    preempted.apply(ev.VacateCommanded())
    assert code(preempted) == 1030
    unwilling = claimed()
    unwilling.facts = replace(unwilling.facts, start=False)
    assert code(unwilling) == 1027
    broken = claimed()
    broken.apply(ev.FoundBroken("disk"))
    assert code(broken) == 1031


def test_a_schedd_may_end_a_run_and_keep_the_claim() -> None:
    d = busy()
    d.apply(ev.Deactivated(fast=False))
    assert d.place == "Claimed/Busy" and d.did(ev.SoftKill)[0].vacate_s == 600
    d.poll(600)
    assert d.did(ev.HardKill)
    d.poll(30)
    assert d.did(ev.KillFamily)
    d.apply(ev.RunGone())
    assert d.place == "Claimed/Idle"


def test_a_broken_slot_takes_no_claim() -> None:
    d = unclaimed()
    d.apply(ev.FoundBroken("disk"))
    d.apply(ev.ClaimRequested(claim()))
    assert d.did(ev.ClaimRefused)[0].code == 1031


def test_a_run_that_leaves_a_broken_slot_ends_the_claim() -> None:
    d = busy()
    d.apply(ev.RunGone("scratch directory cannot be removed"))
    assert d.did(ev.ClaimEnded)[0].cause.code == 1031
    assert d.slot.broken
