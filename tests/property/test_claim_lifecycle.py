"""Laws of a claim's life at the schedd, whatever happens in whatever order."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotwise.errors import InvariantError
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.lifecycle import claim_events as events
from slotwise.schedd.lifecycle import claim_instructions as do
from slotwise.schedd.lifecycle.claim import TRANSITIONS, serves, step
from slotwise.schedd.lifecycle.claim_states import (
    STATES,
    ClaimState,
    Closing,
    Disconnected,
    EndedByStartd,
    Gone,
    Idle,
    Requested,
    Reserved,
    Running,
)
from slotwise.schedd.lifecycle.replay import CLAIMS, retold

JOB = Job(Cluster(1, "u", "u@x", "u@x", 1000, {}), 0, Status.IDLE)
moments = st.sampled_from([10.0, 100.0])
run_ids = st.sampled_from(["1.0#1", "1.1#1"])
beyond = st.sampled_from([None, events.BeyondShare(), events.BeyondShare(500.0, "drained for a large job")])
FIRST: list[ClaimState] = [Requested(), Disconnected(""), Disconnected("1.0#1")]


def any_event() -> st.SearchStrategy[events.ClaimEvent]:
    return st.one_of(
        st.sampled_from([events.Granted(), events.Granted(JOB)]),
        st.just(events.Withdrawn()),
        st.just(events.JobReserved(JOB, 2.0)),
        st.just(events.StartDue()),
        st.builds(events.RunBegun, run_ids),
        st.builds(
            events.RunEnded,
            run_ids,
            moments,
            st.integers(0, 3),
            st.sampled_from([0, 30]),
            beyond,
            st.sampled_from([None, JOB]),
            st.sampled_from([0, 20]),
        ),
        st.builds(events.NoJobFound, moments, st.sampled_from([0, 30]), st.just("none left")),
        st.builds(events.KeepCheck, moments),
        st.builds(events.ClaimListed, run_ids, st.booleans()),
        st.just(events.ClaimUnlisted()),
        st.just(events.SlotRetires()),
        st.sampled_from([events.ClaimEnded(), events.ClaimEnded(EndedByStartd("preempted", 1004))]),
        st.just(events.LinkLost()),
        st.builds(events.Released, st.just("why"), st.booleans()),
    )


def legal(state: ClaimState, event: events.ClaimEvent) -> bool:
    ended = isinstance(event, events.RunEnded) and not isinstance(state, Gone)
    return TRANSITIONS.allows(type(state), type(event)) and not (ended and event.run_id != state.run_id)  # type: ignore[union-attr]


@settings(max_examples=250)
@given(st.data())
def test_laws(data: st.DataObject) -> None:
    state = data.draw(st.sampled_from(FIRST))
    released = False
    for event in data.draw(st.lists(any_event(), max_size=25)):
        former = state
        if not legal(former, event):
            with pytest.raises(InvariantError):
                step(former, event)
            continue
        state, done = step(former, event)
        # A claim that is gone stays gone, and one that goes leaves the store.
        assert isinstance(state, Gone) or not isinstance(former, Gone)
        if isinstance(state, Gone) and not isinstance(former, Gone | Requested):
            assert sum(isinstance(one, do.Discard) for one in done) == 1
        # The startd hears of it, unless it said so itself.
        said = isinstance(event, events.ClaimEnded | events.ClaimUnlisted | events.Withdrawn)
        if isinstance(state, Gone) and not isinstance(former, Gone) and not said:
            assert any(isinstance(one, do.SendRelease) for one in done)
        released = released or any(isinstance(one, do.SendRelease) for one in done)
        assert isinstance(state, Gone) or not released
        # Jobs start on claims that have none, and none after the startd has begun to take the slot back.
        if any(isinstance(one, do.StartNext) for one in done):
            assert state == Idle() and not isinstance(former, Closing | Gone)
        # The job that waited is started, still waits, or is returned.
        if isinstance(former, Reserved):
            kept = state == former
            begun = any(isinstance(one, do.StartNext) and one.preferred is former.job for one in done)
            returned = do.ReturnJob(former.job) in done
            assert kept + begun + returned == 1
        # A run that loses its claim is looked after.
        if former.run_id and isinstance(state, Gone) and not isinstance(former, Gone):
            ended_or_released = isinstance(event, events.RunEnded | events.Released)
            assert ended_or_released or any(isinstance(one, do.AwaitRunEnd) for one in done)
            assert ended_or_released or state.run_id == former.run_id
    # From wherever it is, a claim can be given back.
    state, done = step(state, events.Released("over"))
    assert isinstance(state, Gone) and any(isinstance(one, do.SendRelease) for one in done)
    assert not serves(state, {"1.0#1", "1.1#1"})


@settings(max_examples=60)
@given(st.data())
def test_a_recorded_step_taken_again_ends_in_the_same_state(data: st.DataObject) -> None:
    names = {"slot": "slot1@host", "id": "<10.0.0.7:9618>#1#1#x"}
    state = data.draw(st.sampled_from(FIRST))
    for event in data.draw(st.lists(any_event(), max_size=12)):
        outcome = None
        with contextlib.suppress(InvariantError):
            outcome = step(state, event)
        taken = retold(json.dumps(CLAIMS.record(1e9, names, state, event, outcome)))
        assert taken.same and (taken.kind, taken.stimulus) == ("claim", type(event).__name__)
        assert taken.after == (type(outcome[0]).__name__ if outcome is not None else "illegal")
        state = outcome[0] if outcome is not None else state


@pytest.mark.parametrize("state", STATES)
def test_a_claim_can_be_given_back_in_every_state(state: type[ClaimState]) -> None:
    assert TRANSITIONS.allows(state, events.Released)


@pytest.mark.parametrize("state", [state for state in STATES if state is not Requested])
def test_what_a_startd_says_of_a_claim_is_legal_in_every_state_but_before_its_answer(state: type[ClaimState]) -> None:
    said = (events.ClaimListed, events.ClaimUnlisted, events.SlotRetires, events.ClaimEnded, events.LinkLost)
    assert all(TRANSITIONS.allows(state, event) for event in said)


def test_every_state_can_be_reached() -> None:
    seen: set[type[ClaimState]] = {Requested, Disconnected}
    while True:
        ahead = {after for row in TRANSITIONS.rows if seen & set(row.before) for after in row.after}
        if ahead <= seen:
            break
        seen |= ahead
    assert seen == set(STATES)


def test_a_claim_with_failing_runs_serves_no_further_job() -> None:
    assert step(Running("1.0#1"), events.RunEnded("1.0#1", 5.0, failures=1))[0] == Idle()
    state, done = step(Running("1.0#1"), events.RunEnded("1.0#1", 5.0, failures=2))
    assert state == Gone() and do.SendRelease("no job is left for the slot") in done
    assert step(Running("1.0#1"), events.RunEnded("1.0#1", 5.0, failures=2, keep_s=30))[0] == Idle(5.0, 30)


def test_a_claim_beyond_its_submitters_share_takes_only_a_job_that_ends_in_time() -> None:
    over = events.RunEnded("1.0#1", 5.0, keep_s=30, beyond=events.BeyondShare(900.0, "a large job waits"))
    assert step(Running("1.0#1"), over) == (Idle(), [do.StartNext(ends_by=900.0, reason="a large job waits")])
    none = events.NoJobFound(6.0, 0, "a large job waits")
    assert step(Idle(), none)[0] == Gone()
    at_once = events.RunEnded("1.0#1", 5.0, keep_s=30, beyond=events.BeyondShare())
    assert step(Running("1.0#1"), at_once)[0] == Gone()


def test_a_claim_is_kept_for_KeepClaimIdle_from_when_no_job_was_found() -> None:
    state, done = step(Idle(), events.NoJobFound(100.0, 30, "no job"))
    assert (state, done) == (Idle(100.0, 30), ())
    assert step(state, events.KeepCheck(129.9)) == (state, ())
    assert step(state, events.KeepCheck(130.0))[0] == Gone()


def test_a_claim_without_a_run_goes_with_its_lease_when_its_startd_stays_away_after_a_restart() -> None:
    state = Disconnected("", 100.0)
    assert step(state, events.KeepCheck(99.9)) == (state, ())
    after, done = step(state, events.KeepCheck(100.0))
    assert after == Gone() and [type(one) for one in done] == [do.SendRelease, do.Discard]
    assert step(Disconnected("1.0#1"), events.KeepCheck(1e9)) == (Disconnected("1.0#1"), ())


def test_a_claim_that_lived_through_a_restart_takes_a_job_once_its_startd_has_listed_it() -> None:
    state, done = step(Disconnected(""), events.ClaimListed("", active=False))
    assert state == Idle() and [type(one) for one in done] == [do.StartNext]
    state, done = step(Disconnected("1.0#1"), events.ClaimListed("1.0#1", active=True))
    assert (state, done) == (Running("1.0#1"), [do.CheckRun("1.0#1", active=True)])
    assert step(state, events.ClaimListed("1.1#1", active=True))[1] == [do.CheckRun("1.0#1", active=False)]


def test_the_end_of_another_run_is_an_error() -> None:
    with pytest.raises(InvariantError, match=r"1\.1#1"):
        step(Running("1.0#1"), events.RunEnded("1.1#1", 5.0))
