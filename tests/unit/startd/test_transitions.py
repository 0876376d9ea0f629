"""Every numbered row of the table of transitions, taken by the machine itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from slotwise.errors import InvariantError
from slotwise.model.claim import Run
from slotwise.model.slot import Activity, BrokenCode, SlotKind, State, VacateCode
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.fsm import next_timer
from slotwise.startd.slot.states import TRANSITIONS, Claimed, Cleaning, Draining, Owner

from tests.support.startd_slots import T0, Driven, busy, claim, claimed, owner, retiring, suspended, unclaimed, vacating

ORDER = Draining(0, "1", "maintenance", T0)
GONE = ev.RunGone()


def matched() -> Driven:
    d = unclaimed()
    d.apply(ev.MatchNoticed())
    assert d.place == "Matched/Idle"
    return d


def benchmarking() -> Driven:
    d = unclaimed()
    d.poll(run_benchmarks=True)
    assert d.place == "Unclaimed/Benchmarking"
    d.facts = replace(d.facts, run_benchmarks=False)
    return d


def draining(d: Driven) -> Driven:
    d.apply(ev.DrainBegun(ORDER))
    return d


def drained() -> Driven:
    return draining(unclaimed())


def outbid(d: Driven) -> Driven:
    """A better claim waits."""
    d.apply(ev.ClaimRequested(claim("better", rank=5)))
    return d


def reversibly_retiring() -> Driven:
    d = outbid(busy(machine_retirement_s=3600))
    assert d.place == "Claimed/Retiring"
    return d


def killing() -> Driven:
    d = vacating()
    d.poll(kill=True)
    assert d.place == "Preempting/Killing"
    return d


def waited_for(d: Driven) -> Driven:
    """Preempting, and a claim waits."""
    d.apply(ev.ClaimRequested(claim("better", rank=5)))
    return d


#: number -> (what comes before, what happens)
ROWS: dict[int, tuple[Callable[[], Driven], Callable[[Driven], object]]] = {
    1: (owner, lambda d: d.poll(is_owner=False)),
    2: (unclaimed, lambda d: d.poll(is_owner=True)),
    3: (unclaimed, lambda d: d.poll(run_benchmarks=True)),
    4: (benchmarking, lambda d: d.apply(ev.BenchmarksDone())),
    5: (unclaimed, lambda d: d.apply(ev.ClaimRequested(claim()))),
    6: (unclaimed, lambda d: d.apply(ev.MatchNoticed())),
    8: (matched, lambda d: d.poll(120)),
    9: (matched, lambda d: d.apply(ev.ClaimRequested(claim()))),
    10: (claimed, lambda d: d.apply(ev.Released())),
    11: (claimed, lambda d: d.apply(ev.Activated(Run("1.0#1", T0)))),
    12: (busy, lambda d: d.apply(GONE)),
    13: (lambda: busy(machine_retirement_s=3600), lambda d: d.poll(preempt=True)),
    14: (busy, lambda d: d.poll(want_suspend=True, suspend=True)),
    15: (suspended, lambda d: d.poll(suspend=False, continue_=True)),
    16: (lambda: suspended(machine_retirement_s=3600), lambda d: d.poll(preempt=True, suspend=False)),
    17: (suspended, lambda d: d.apply(ev.Released())),
    18: (retiring, lambda d: d.poll(3001)),
    19: (reversibly_retiring, lambda d: d.apply(ev.PreempterWithdrawn())),
    20: (reversibly_retiring, lambda d: d.poll(want_suspend=True, suspend=True)),
    21: (vacating, lambda d: d.poll(kill=True)),
    22: (killing, lambda d: d.apply(GONE)),
    25: (vacating, lambda d: d.apply(GONE)),
    33: (drained, lambda d: d.poll(all_drained=True)),
    34: (drained, lambda d: d.apply(ev.DrainEnded())),
    36: (owner, draining),
    37: (unclaimed, draining),
}


@pytest.mark.parametrize("number", sorted(ROWS))
def test_row(number: int) -> None:
    before, happens = ROWS[number]
    d = before()
    place = d.slot.state_activity
    happens(d)
    assert d.numbers[0] == number
    row = next(row for row in TRANSITIONS.rows if row.number == number)
    assert place in row.before


def test_rows_23_and_24_give_the_slot_to_the_claim_that_waited() -> None:
    for number, soft in ((24, True), (23, False)):
        d = outbid(busy(want_vacate=True))
        assert d.place == "Preempting/Vacating"
        if not soft:
            d.poll(kill=True)
        d.apply(GONE)
        assert (d.numbers, d.place) == ([number], "Claimed/Idle")
        assert d.slot.claim is not None and d.slot.claim.claim_id == "better"
        assert [action.claim.claim_id for action in d.did(ev.ClaimGranted)] == ["better"]


def test_row_35_a_drained_machine_goes_back_to_work() -> None:
    d = drained()
    d.poll(all_drained=True)
    assert d.place == "Drained/Idle"
    d.apply(ev.DrainEnded())
    assert d.numbers == [35, 1]


def filling(activity: str = "Busy") -> Driven:
    """A slot with filler work, or about to have it."""
    d = unclaimed()
    d.poll(start_backfill=True)
    assert (d.place, d.numbers) == ("Backfill/Idle", [7])
    assert d.did(ev.StartBackfill)
    if activity != "Idle":
        d.apply(ev.BackfillStarted())
        assert (d.place, d.numbers) == ("Backfill/Busy", [26])
    return d


def test_row_27_a_client_that_ends_by_itself_is_started_again() -> None:
    d = filling()
    d.apply(ev.BackfillEnded())
    assert (d.place, d.numbers) == ("Backfill/Idle", [27])
    assert d.did(ev.StartBackfill)


def test_rows_28_29_30_evict_backfill() -> None:
    d = filling()
    d.poll(evict_backfill=True)
    assert (d.place, d.numbers) == ("Backfill/Killing", [28])
    assert d.did(ev.StopBackfill) == [ev.StopBackfill(hard=False)]
    d.poll(30)
    assert d.did(ev.StopBackfill) == [ev.StopBackfill(hard=True)], "what does not go is killed again"
    d.apply(ev.BackfillEnded(), start_backfill=False, evict_backfill=False)
    assert (d.place, d.numbers) == ("Unclaimed/Idle", [29, 30, 1])
    idle = filling("Idle")
    idle.poll(evict_backfill=True, start_backfill=False)
    assert idle.numbers == [30, 1]


def test_rows_31_and_32_a_match_or_a_claim_takes_the_slot_from_the_filler() -> None:
    for activity in ("Idle", "Busy"):
        d = filling(activity)
        d.apply(ev.ClaimRequested(claim()))
        if activity == "Busy":
            assert (d.place, d.numbers, d.did(ev.ClaimGranted)) == ("Backfill/Killing", [28], [])
            d.apply(ev.ClaimRequested(claim("other")))
            assert d.did(ev.ClaimRefused)[0].claim_id == "other"
            d.apply(ev.BackfillEnded(), 5)
        assert (d.place, d.numbers[:1]) == ("Claimed/Idle", [32])
        assert d.did(ev.ClaimGranted) and d.slot.claim is not None and d.slot.claim.claimed_at == d.now
        m = filling(activity)
        m.apply(ev.MatchNoticed())
        if activity == "Busy":
            assert m.numbers == [28]
            m.apply(ev.BackfillEnded())
        assert (m.place, m.numbers) == ("Matched/Idle", [31])


@pytest.mark.parametrize(
    "stimulus",
    [ev.VacateCommanded(fast=False), ev.ShutdownBegun("graceful"), ev.DrainBegun(ORDER), ev.FoundBroken("fan")],
)
def test_filler_work_ends_when_the_slot_is_wanted_back(stimulus: ev.SlotEvent) -> None:
    d = filling()
    d.apply(stimulus, start_backfill=False)
    assert d.place == "Backfill/Killing"
    d.apply(ev.BackfillEnded())
    assert d.numbers[:2] == [29, 30]
    assert d.place in ("Unclaimed/Idle", "Drained/Retiring")


def test_a_job_leaves_with_its_checkpoint_where_the_claim_would_take_no_other() -> None:
    d = busy()
    d.apply(ev.Checkpointing(), worklife_s=None)
    assert not d.did(ev.SoftKill) and d.place == "Claimed/Busy"
    d.apply(ev.Checkpointing(), worklife_s=0)
    (kill,) = d.did(ev.SoftKill)
    assert kill.cause.code == 1025 and d.place == "Claimed/Busy"
    d.apply(GONE, worklife_s=0)
    assert d.did(ev.ClaimEnded)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("start", [busy, lambda: retiring(retirement_s=1e6)])
def test_a_slot_whose_ended_job_does_not_go_is_broken_at_last(start: Callable[[], Driven], fast: bool) -> None:
    """As one that is being preempted: else its claim would be held until retirement is over, or for ever."""
    d = start()
    d.apply(ev.KeptAlive())
    d.apply(ev.Deactivated(fast))
    kills = 0
    for _ in range(20):
        due = next_timer(d.slot, d.facts, d.now)
        if not isinstance(d.slot.state, Claimed) or due is None:
            break
        d.apply(ev.KeptAlive())
        d.apply(ev.Evaluate(), after=max(0.0, due - d.now))
        kills += len(d.did(ev.KillFamily))
    assert (kills, d.slot.broken_code) == (10, BrokenCode.HUNG_PROCESS)
    assert d.did(ev.ClaimEnded)[0].cause.code == VacateCode.BROKEN and d.place in ("Owner/Idle", "Unclaimed/Idle")


def test_cleaning_lies_between_the_last_report_and_the_end() -> None:
    d = busy()
    d.apply(ev.RunFinishing())
    assert d.place == "Claimed/Cleaning"
    d.apply(ev.Activated(Run("1.1#1", T0)))
    assert d.did(ev.ActivationRefused)[0].code == 1028
    d.apply(GONE)
    assert (d.numbers, d.place) == ([12], "Claimed/Idle")


@pytest.mark.parametrize("stimulus", [ev.Released(), ev.VacateCommanded(fast=True), ev.ShutdownBegun("fast")])
def test_what_arrives_in_cleaning_is_acted_on_at_its_end(stimulus: ev.SlotEvent) -> None:
    d = busy()
    d.apply(ev.RunFinishing())
    d.apply(stimulus)
    assert d.place == "Claimed/Cleaning" and isinstance(d.slot.state.doing, Cleaning)  # type: ignore[union-attr]
    d.apply(GONE)
    assert d.place in ("Unclaimed/Idle", "Owner/Idle")
    assert d.did(ev.ClaimEnded)


@pytest.mark.parametrize("start", [owner, unclaimed])
def test_a_dynamic_slot_with_nothing_to_do_is_deleted(start: Callable[[SlotKind], Driven]) -> None:
    d = start(SlotKind.DYNAMIC)
    d.poll()
    assert d.place == "Delete/None"
    assert d.did(ev.DeleteSlot)


def test_a_dynamic_slot_goes_with_its_claim() -> None:
    d = unclaimed(SlotKind.DYNAMIC)
    d.apply(ev.ClaimRequested(claim()))
    d.apply(ev.Released())
    assert d.place == "Delete/None"


def test_a_move_that_is_not_in_the_table_is_a_defect() -> None:
    with pytest.raises(InvariantError):
        TRANSITIONS.row((State.OWNER, Activity.IDLE), (State.CLAIMED, Activity.BUSY))


def test_every_number_of_the_diagram_is_in_the_table_once() -> None:
    assert [row.number for row in TRANSITIONS.rows if row.number] == list(range(1, 38))
    assert isinstance(owner().slot.state, Owner)
