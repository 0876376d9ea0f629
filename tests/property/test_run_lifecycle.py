"""Laws of a run's life at the access point, whatever happens in whatever order."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotwise.errors import InvariantError
from slotwise.model.reason_codes import Hold
from slotwise.schedd.jobs.decision import Kill, RunOutcome
from slotwise.schedd.lifecycle import run_events as events
from slotwise.schedd.lifecycle import run_instructions as do
from slotwise.schedd.lifecycle.claim_states import EndedByStartd
from slotwise.schedd.lifecycle.replay import RUNS, retold
from slotwise.schedd.lifecycle.run import (
    ASK_AGAIN_S,
    FAILED_PATIENCE_S,
    GRACE_S,
    HELLO_S,
    TRANSITIONS,
    begun,
    lost,
    restored,
    step,
)
from slotwise.schedd.lifecycle.run_states import (
    STATES,
    Accepted,
    AtStarter,
    Ending,
    Executing,
    Failed,
    Over,
    Reconnecting,
    RunState,
    Silence,
    Starting,
)

KILL = Kill("1.0#1", False, "held", 1)
FAILURE = Kill("1.0#1", True, "KeyError", 1010)
END = events.EndReport(RunOutcome.EXITED)
FIRST: list[RunState] = [
    begun(10.0, 1200),
    restored(0.0, 10.0, 1200, claim_gone=False, logged=False),
    restored(5.0, 10.0, 1200, claim_gone=True, logged=True),
]
moments = st.floats(10.0, 2000.0)
whereabouts = st.sampled_from(AtStarter)
claims = st.sampled_from(
    [
        events.EndOfClaim(),
        events.EndOfClaim(True),
        events.EndOfClaim(True, EndedByStartd("preempted", 1004)),
        events.EndOfClaim(True, EndedByStartd("too much memory", 34, 102, hold=True)),
    ]
)


def any_event() -> st.SearchStrategy[events.RunEvent]:
    return st.one_of(
        st.builds(events.ActivationDue, st.booleans()),
        st.just(events.Activated()),
        st.builds(events.ActivationRefused, moments, st.just("no"), st.sampled_from([0, 1003])),
        st.builds(events.Hello, st.booleans(), st.booleans()),
        st.builds(events.BeganAnew, claims),
        st.just(events.JobSent()),
        st.just(events.Started(50.0)),
        st.just(events.EndReported(END)),
        st.just(events.EndRecorded()),
        st.builds(events.StreamLost, moments, st.just(1200.0), st.booleans(), st.booleans(), st.just("closed")),
        st.builds(events.ClaimLost, moments, whereabouts, claims),
        st.builds(events.StarterListed, whereabouts, claims),
        st.just(events.SlotBusy()),
        st.builds(events.SlotIdle, moments, whereabouts, claims),
        st.builds(events.SlotFreed, moments),
        st.builds(events.PatienceOver, moments, claims),
        st.just(events.KillRequested(KILL)),
        st.builds(events.AccessPointFailed, moments, st.just(FAILURE), st.booleans()),
    )


@settings(max_examples=250)
@given(st.data())
def test_laws(data: st.DataObject) -> None:
    state = data.draw(st.sampled_from(FIRST))
    disconnected = state.disconnect_logged
    for event in data.draw(st.lists(any_event(), max_size=25)):
        former = state
        unheard = isinstance(event, events.JobSent) and former.silence is not None
        if unheard or not TRANSITIONS.allows(type(former), type(event)):
            with pytest.raises(InvariantError):
                step(former, event)
            continue
        state, done = step(former, event)
        # Only a recorded end ends a run, and for ever; giving it up does not.
        assert isinstance(state, Over) == (isinstance(former, Over) or isinstance(event, events.EndRecorded))
        given_up = [one for one in done if isinstance(one, do.GiveUp | do.Abandon)]
        assert len(given_up) <= 1
        # The job is given to its starter before anything else moves, and executes only once that has it.
        if isinstance(state, Starting):
            assert not any(isinstance(one, do.BeginTransfer | do.LogExecuting | do.TakeEnd) for one in done)
            assert not state.executing_at
        # A run that executes does not go back to one that does not, and its event is written once.
        assert state.executing_at == former.executing_at or not former.executing_at
        if any(isinstance(one, do.LogExecuting) for one in done):
            assert state.executing_at and not former.executing_at
        # A run that has a starter's word is not given up for its silence.
        silent = isinstance(event, events.PatienceOver | events.SlotIdle | events.StarterListed | events.ClaimLost)
        if former.silence is None and silent:
            assert not given_up or isinstance(former, Failed)
        # Nothing is sent to a starter that cannot be reached.
        if state.silence is not None:
            assert not any(isinstance(one, do.SendKill | do.SendAccepted | do.BeginTransfer) for one in done)
        assert isinstance(state, Reconnecting) <= (state.silence is not None)
        assert isinstance(state, Accepted | Executing) <= (state.silence is None)
        # 022 and 023 alternate.
        for one in done:
            if isinstance(one, do.LogDisconnected):
                assert not disconnected
                disconnected = True
            elif isinstance(one, do.LogReconnected):
                assert disconnected
                disconnected = False
        if isinstance(state, Failed) and not isinstance(former, Failed | Starting):
            told = any(isinstance(one, do.SendKill | do.Abandon) for one in done)
            assert told or state.silence is not None
    # From wherever it is, a run at which the access point fails comes to its end.
    state, done = step(state, events.AccessPointFailed(3000.0, FAILURE, ended=True))
    assert any(isinstance(one, do.Abandon) for one in done)
    assert isinstance(step(state, events.EndRecorded())[0], Over)


@settings(max_examples=60)
@given(st.data())
def test_a_recorded_step_taken_again_ends_in_the_same_state(data: st.DataObject) -> None:
    names = {"id": "1.0#1"}
    state = data.draw(st.sampled_from(FIRST))
    for event in data.draw(st.lists(any_event(), max_size=12)):
        outcome = None
        with contextlib.suppress(InvariantError):
            outcome = step(state, event)
        taken = retold(json.dumps(RUNS.record(1e9, names, state, event, outcome)))
        assert taken.same and (taken.kind, taken.stimulus) == ("run", type(event).__name__)
        assert taken.after == (type(outcome[0]).__name__ if outcome is not None else "illegal")
        state = outcome[0] if outcome is not None else state


@pytest.mark.parametrize("state", STATES)
def test_a_failure_of_the_access_point_and_a_recorded_end_are_legal_in_every_state(state: type[RunState]) -> None:
    assert TRANSITIONS.allows(state, events.AccessPointFailed) and TRANSITIONS.allows(state, events.EndRecorded)


@pytest.mark.parametrize("state", [state for state in STATES if state is not Over])
def test_what_startds_say_of_a_run_is_legal_until_it_is_over(state: type[RunState]) -> None:
    said = (
        events.Activated,
        events.ActivationRefused,
        events.ClaimLost,
        events.StarterListed,
        events.SlotBusy,
        events.SlotIdle,
        events.SlotFreed,
        events.KillRequested,
    )
    assert all(TRANSITIONS.allows(state, event) for event in said)


def test_a_run_is_accepted_once_its_starter_has_been_given_the_job() -> None:
    state, done = step(begun(10.0, 1200), events.Hello(resume=False, asks=True))
    assert isinstance(state, Starting) and done == [do.SendAccepted(with_job=True, asks=True)]
    state, done = step(state, events.JobSent(asks=True))
    assert isinstance(state, Accepted) and done == [do.BeginTransfer(executing=False, asks=True)]
    state, _ = step(state, events.Started(50.0))
    assert isinstance(state, Executing) and state.executing_at == 50.0


def test_a_kill_reaches_a_silent_run_by_the_startd_and_its_starter_when_that_is_back() -> None:
    state, done = step(restored(5.0, 10.0, 1200, claim_gone=False, logged=True), events.KillRequested(KILL))
    assert done == [do.Deactivate(KILL)]
    state, done = step(state, events.SlotBusy())
    assert done == [do.Deactivate(KILL)]
    state, done = step(state, events.Hello(resume=True))
    assert isinstance(state, Executing)
    assert done == [do.LogReconnected(), do.SendAccepted(False), do.SendKill(KILL), do.BeginTransfer(True)]


def test_a_run_that_has_not_executed_waits_for_a_starter_with_its_kill() -> None:
    state, done = step(begun(10.0, 1200), events.KillRequested(KILL))
    assert not done
    state, _ = step(state, events.Hello(resume=False))
    assert step(state, events.JobSent())[1] == [do.SendKill(KILL), do.BeginTransfer(False)]


def test_silence_is_borne_for_the_lease_and_shorter_once_the_claim_is_gone() -> None:
    running = Executing(5.0)
    state, _ = step(running, events.StreamLost(100.0, 1200.0, False, True, "closed"))
    assert state.silence == Silence(1300.0, 1300.0)
    state, _ = step(state, events.ClaimLost(110.0, AtStarter.UNKNOWN, events.EndOfClaim(True)))
    assert state.silence == Silence(110.0 + GRACE_S, 1300.0)
    state, _ = step(state, events.SlotFreed(111.0))
    assert state.silence == Silence(111.0 + ASK_AGAIN_S, 1300.0)
    state, _ = step(running, events.StreamLost(100.0, 1200.0, True, True, "closed"))
    assert state.silence == Silence(100.0 + GRACE_S, 1300.0)
    assert begun(10.0, 1200).silence == Silence(10.0 + HELLO_S, 1210.0)
    failed, _ = step(state, events.AccessPointFailed(101.0, FAILURE))
    assert failed.silence is not None and failed.silence.until <= 101.0 + FAILED_PATIENCE_S


def test_a_run_is_given_up_only_when_neither_side_has_it() -> None:
    silent = restored(5.0, 10.0, 1200, claim_gone=True, logged=True)
    for known in (AtStarter.UNKNOWN, AtStarter.LISTED):
        assert not step(silent, events.StarterListed(known, events.EndOfClaim(True)))[1]
    assert not step(silent, events.StarterListed(AtStarter.MISSING, events.EndOfClaim()))[1]
    ((given_up),) = step(silent, events.StarterListed(AtStarter.MISSING, events.EndOfClaim(True)))[1]
    assert isinstance(given_up, do.GiveUp) and given_up.how == RunOutcome.LOST


def test_the_startds_own_cause_is_preferred_for_a_run_that_is_lost() -> None:
    executed = Reconnecting(5.0, Silence(1.0, 2.0))
    held = events.EndOfClaim(True, EndedByStartd("too much memory", 34, 102, hold=True))
    assert lost(executed, held, "silence") == do.GiveUp(
        RunOutcome.HELD, "too much memory", int(Hold.STARTD_HELD_JOB), 102
    )
    evicted = events.EndOfClaim(True, EndedByStartd("PREEMPT was true", 1011))
    assert lost(executed, evicted, "silence").how == RunOutcome.EVICTED
    assert lost(Starting(silence=Silence(1.0, 2.0)), evicted, "silence").how == RunOutcome.NOT_STARTED


def test_an_end_that_is_reported_again_is_taken_once() -> None:
    state, done = step(Executing(5.0), events.EndReported(END))
    assert isinstance(state, Ending) and done == [do.TakeEnd(END)]
    assert step(state, events.EndReported(END)) == (state, ())


def test_an_activation_that_is_refused_after_a_break_leaves_its_starter_time_to_report_the_end() -> None:
    silent = Reconnecting(5.0, Silence(900.0, 1200.0))
    state, done = step(silent, events.ActivationRefused(100.0, "the claim is gone"))
    assert state.silence == Silence(100.0 + GRACE_S, 1200.0) and done == [do.ReleaseClaim("the claim is gone")]
    _, (given_up,) = step(begun(10.0, 1200), events.ActivationRefused(100.0, "no", 0))
    assert isinstance(given_up, do.GiveUp) and given_up.how == RunOutcome.NOT_STARTED
