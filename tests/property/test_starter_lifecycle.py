"""Laws of a run's life, whatever happens in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from slotwise.errors import InvariantError
from slotwise.execution.exit_status import How, Kill, MemoryRule, held
from slotwise.execution.job_view import JobView, read_job
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.starter.run import actions, events
from slotwise.starter.run.lifecycle import TRANSITIONS, soft_kill, step
from slotwise.starter.run.states import Phase, RunState

JOBS = [
    read_job({"WhenToTransferOutput": when, "HoldKillSig": 12}.get, "ann@here")
    for when in ("ON_EXIT", "ON_SUCCESS", "ON_EXIT_OR_EVICT")
]
JOBS.append(read_job({"WantFTOnCheckpoint": True, "SuccessCheckpointExitCode": 85}.get, "ann@here"))
RESULTS = [
    KeeperResult("exited"),
    KeeperResult("exited", code=1),
    KeeperResult("exited", code=85),
    KeeperResult("signaled", code=9, ended_by="hard"),
    KeeperResult("signaled", code=9, oom_kills=1),
    KeeperResult("failed", stage="exec", errno=2),
    KeeperResult("lost"),
    KeeperResult("exited", ended_by="lease"),
]
#: What can happen in which phase.
LEGAL = {(phase, row.event) for row in TRANSITIONS.rows for phase in row.before}
kills = st.builds(
    Kill, fast=st.booleans(), code=st.sampled_from([0, 21, 1010, 1023]), hold=st.booleans(), want_outputs=st.booleans()
)


def any_event(job: JobView) -> st.SearchStrategy[events.Event]:
    return st.one_of(
        st.builds(events.Accepted, st.booleans(), st.booleans(), st.booleans()),
        st.builds(events.Prepared, st.booleans()),
        st.sampled_from([events.InputsDone(), events.InputsDone("no file", 13, 2)]),
        st.just(events.Started(7)),
        st.builds(events.KeeperEnded, st.sampled_from(RESULTS), st.just(MemoryRule(10)), st.just(job)),
        st.just(events.Failed(held("disk", 34, 104))),
        st.builds(events.KillRequested, kills),
        st.builds(events.SuspendRequested, st.booleans()),
        st.sampled_from([events.OutputsSent(), events.OutputsSent(held("missing", 12, 2))]),
        st.sampled_from([events.CheckpointStored(), events.CheckpointStored(held("no room", 12, 28))]),
        st.sampled_from([events.LinkLost(), events.LinkBack(True), events.LinkBack(False)]),
        st.just(events.EndAcknowledged()),
        st.builds(events.Unwanted, st.booleans()),
        st.just(events.ClaimGone()),
    )


@settings(max_examples=400)
@given(st.data())
def test_laws(data: st.DataObject) -> None:
    job = data.draw(st.sampled_from(JOBS))
    state, reported_gone, discarded, launched = RunState(), 0, 0, 0
    order, forgotten = list(Phase), False
    for event in data.draw(st.lists(any_event(job), max_size=25)):
        former = state
        if (former.phase, type(event)) not in LEGAL:
            with pytest.raises(InvariantError):
                step(state, event)
            continue
        state, done = step(state, event)
        launched += sum(isinstance(a, actions.Launch) for a in done)
        reported_gone += sum(isinstance(a, actions.ReportGone) for a in done)
        discarded += sum(isinstance(a, actions.Discard) for a in done)
        # A job is started at most once, its slot is freed at most once, its directory removed once and last.
        assert launched <= 1 and reported_gone <= 1 and discarded <= 1
        assert discarded == (state.phase is Phase.GONE)
        # The slot is not free while processes live.
        if reported_gone:
            assert state.phase in (Phase.OUTPUT, Phase.ENDED, Phase.GONE)
        # A run never goes back, but for sending its outputs once more, and for going on from a checkpoint.
        if order.index(state.phase) < order.index(former.phase):
            back = (former.phase, state.phase)
            assert back in ((Phase.ENDED, Phase.OUTPUT), (Phase.CHECKPOINT, Phase.STARTING))
        if any(isinstance(a, actions.Relaunch) for a in done):
            assert former.phase is Phase.CHECKPOINT and former.kill is None and job.checkpoint is not None
        forgotten = forgotten or isinstance(event, events.ClaimGone)
        if state.phase is Phase.ENDED:
            assert state.end is not None and (reported_gone == 1 or forgotten)
        if any(isinstance(a, actions.SendEnd) for a in done):
            assert state.end is not None and state.phase is Phase.ENDED
    # From wherever it is, a run can be brought to its end.
    job_end = events.KeeperEnded(KeeperResult("signaled", code=9, ended_by="hard"), MemoryRule(10), job)
    for event in (events.Unwanted(True), events.Prepared(), job_end):
        if (state.phase, type(event)) in LEGAL:
            state, _ = step(state, event)
    assert state.phase is Phase.GONE


@pytest.mark.parametrize("phase", Phase)
def test_what_others_send_and_what_ends_a_run_is_legal_in_every_phase(phase: Phase) -> None:
    from_others = (
        events.KillRequested,
        events.SuspendRequested,
        events.ClaimGone,
        events.Unwanted,
        events.Failed,
        events.LinkLost,
    )
    assert {(phase, event) for event in from_others} <= LEGAL


def test_no_event_has_two_rows_in_a_phase() -> None:
    pairs = [(phase, row.event) for row in TRANSITIONS.rows for phase in row.before]
    assert len(pairs) == len(set(pairs))


@given(st.sampled_from(JOBS))
def test_a_job_that_is_over_before_the_notice_of_its_start_is_reported_as_started_first(job: JobView) -> None:
    state, _ = step(RunState(phase=Phase.STARTING), events.LinkBack(True))
    result = KeeperResult("exited", started_at=100.0, ended_at=100.0)
    state, done = step(state, events.KeeperEnded(result, MemoryRule(10), job))
    assert done[0] == actions.SendStarted() and state.executed
    _, late = step(state, events.Started(7))
    assert late == []


def test_a_job_that_never_executed_is_not_reported_as_started() -> None:
    result = KeeperResult("failed", stage="exec", errno=2)
    state, done = step(RunState(phase=Phase.STARTING), events.KeeperEnded(result, MemoryRule(10), JOBS[0]))
    assert actions.SendStarted() not in done and not state.executed


@given(kills, st.sampled_from(RESULTS))
def test_a_job_told_to_go_comes_to_a_settled_end(kill: Kill, result: KeeperResult) -> None:
    job = JOBS[0]
    state = RunState(phase=Phase.RUNNING, pid=7)
    state, done = step(state, events.KillRequested(kill))
    assert any(isinstance(a, actions.StopHard if kill.fast else actions.StopSoft) for a in done)
    state, done = step(state, events.KeeperEnded(result, MemoryRule(10), job))
    if state.phase is Phase.OUTPUT:
        state, done = step(state, events.OutputsSent())
    assert state.phase is Phase.ENDED and state.end is not None
    assert isinstance(state.end.how, How)
    state, done = step(state, events.EndAcknowledged())
    assert done == [actions.Discard()]


def test_inputs_are_asked_for_when_the_hook_before_the_transfer_is_done() -> None:
    state, done = step(RunState(), events.Accepted(transfers=True, hooked=True))
    assert (state.phase, done) == (Phase.PREPARING, [actions.ReportPhase(), actions.RunHook()])
    for event in (
        events.LinkLost(),
        events.LinkBack(),
        events.InputsDone(),
    ):  # the hook goes on
        state, done = step(state, event)
        assert (state.phase, done) == (Phase.PREPARING, [])
    asking, done = step(state, events.Prepared(transfers=True))
    assert (asking.phase, done) == (Phase.INPUT, [actions.ReportPhase(), actions.RequestInputs()])
    assert step(state, events.Prepared(transfers=False))[1] == [actions.Launch()]
    # Who is told to leave meanwhile leaves for that reason, once the hook has gone.
    leaving, done = step(state, events.KillRequested(Kill(False, "drained", 1012)))
    assert (leaving.phase, done) == (Phase.PREPARING, [actions.StopHard()])
    for end in (events.Prepared(), events.Failed(held("died with signal 9", 19))):
        gone, done = step(leaving, end)
        assert gone.end is not None and (gone.end.how, gone.end.reason_code) == (How.EVICTED, 1012)
        assert actions.ReportGone() in done


def test_what_a_job_that_is_not_started_names_goes_back_and_does_not_change_why_it_ends() -> None:
    asking, _ = step(RunState(), events.Accepted(transfers=True, tells_why=True))
    starting, _ = step(asking, events.InputsDone())
    for state, event in (
        (asking, events.InputsDone("no file", 13, 2)),
        (starting, events.Failed(held("no file", 13, 2))),
    ):
        sending, done = step(state, event)
        assert (sending.phase, done) == (Phase.OUTPUT, [actions.ReportPhase(), actions.SendOutputs()])
        ended, done = step(sending, events.OutputsSent(held("missing", 12, 2)))
        assert (ended.phase, ended.end) == (Phase.ENDED, held("no file", 13, 2)) and actions.SendEnd() in done
        assert actions.SendOutputs() in step(ended, events.LinkBack(True))[1]
        # Who names nothing, runs already or is told to leave has nothing of the kind to send.
        executed, _ = step(replace(state, executed=True), event)
        silent, _ = step(replace(state, tells_why=False), event)
        told, _ = step(replace(state, kill=Kill(False, "drained", 1012)), event)
        assert [each.phase for each in (executed, silent, told)] == [Phase.ENDED] * 3


@pytest.mark.parametrize("outputs", ["all", "none"])
def test_a_start_that_a_break_swallowed_is_told_before_the_end(outputs: str) -> None:
    end = held("x", 1)
    for phase in (Phase.OUTPUT, Phase.ENDED):
        state = RunState(phase=phase, executed=True, end=end, outputs=outputs)
        assert step(state, events.LinkBack(True))[1][0] == actions.SendStarted()
        never = replace(state, executed=False)
        assert actions.SendStarted() not in step(never, events.LinkBack(True))[1]


def test_a_checkpoint_is_kept_before_the_job_goes_on() -> None:
    job = JOBS[-1]
    running = RunState(phase=Phase.RUNNING, pid=7, executed=True)
    at_checkpoint = events.KeeperEnded(KeeperResult("exited", code=85), MemoryRule(10), job)
    kept, done = step(running, at_checkpoint)
    assert done == [actions.ReportPhase(), actions.SendCheckpoint()]
    again, done = step(kept, events.LinkBack(True))
    assert (again, done) == (kept, [actions.SendStarted(), actions.SendCheckpoint()])
    state, done = step(kept, events.CheckpointStored())
    assert (state.phase, done) == (Phase.STARTING, [actions.Relaunch()])
    # Who is told to leave meanwhile leaves with the checkpoint, and is evicted, not done.
    leaving, done = step(kept, events.KillRequested(Kill(False, code=1010)))
    assert done == []
    state, _ = step(leaving, events.CheckpointStored())
    assert state.phase is Phase.ENDED and state.end is not None
    assert (state.end.how, state.end.reason_code) == (How.EVICTED, 1010)
    # Its last exit is its end.
    state, _ = step(running, events.KeeperEnded(KeeperResult("exited"), MemoryRule(10), job))
    assert state.phase is Phase.OUTPUT


def test_more_urgent_wishes_win() -> None:
    state = RunState(phase=Phase.RUNNING, pid=7)
    state, _ = step(state, events.KillRequested(Kill(fast=True, code=1)))
    state, done = step(state, events.KillRequested(Kill(fast=False, code=2)))
    assert done == [] and state.kill is not None and state.kill.code == 1


def test_signals_for_each_kind_of_kill() -> None:
    job = read_job({"KillSig": "SIGINT", "RemoveKillSig": "SIGUSR1", "HoldKillSig": "SIGUSR2"}.get, "ann@here")
    for kill, number in (
        (Kill(False, code=1010), 2),
        (Kill(False, code=1023), 10),
        (Kill(False, code=21, hold=True), 12),
    ):
        assert soft_kill(kill, job.kill) == (number, None)
        _, done = step(RunState(phase=Phase.RUNNING, pid=7, executed=True), events.KillRequested(kill))
        assert done == [actions.StopSoft(kill)]
    assert soft_kill(Kill(False, vacate_s=20), job.kill) == (2, 20)
