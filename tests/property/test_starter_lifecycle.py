"""Laws of a run's life, whatever happens in whatever order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotwise.execution.facts import JobFacts, read_job
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.execution.verdict import How, Kill, MemoryRule, held
from slotwise.starter.run import lifecycle_types
from slotwise.starter.run.lifecycle import step
from slotwise.starter.run.lifecycle_types import Phase, RunState

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
kills = st.builds(
    Kill, fast=st.booleans(), code=st.sampled_from([0, 21, 1010, 1023]), hold=st.booleans(), want_outputs=st.booleans()
)


def events(job: JobFacts) -> st.SearchStrategy[lifecycle_types.Event]:
    return st.one_of(
        st.builds(lifecycle_types.Accepted, st.booleans(), st.booleans()),
        st.builds(lifecycle_types.Prepared, st.booleans()),
        st.sampled_from([lifecycle_types.InputsDone(), lifecycle_types.InputsDone("no file", 13, 2)]),
        st.just(lifecycle_types.Started(7)),
        st.builds(lifecycle_types.KeeperEnded, st.sampled_from(RESULTS), st.just(MemoryRule(10)), st.just(job)),
        st.just(lifecycle_types.Failed(held("disk", 34, 104))),
        st.builds(lifecycle_types.KillAsked, kills),
        st.builds(lifecycle_types.SuspendAsked, st.booleans()),
        st.sampled_from([lifecycle_types.OutputsSent(), lifecycle_types.OutputsSent(held("missing", 12, 2))]),
        st.sampled_from([lifecycle_types.CheckpointKept(), lifecycle_types.CheckpointKept(held("no room", 12, 28))]),
        st.sampled_from([lifecycle_types.LinkLost(), lifecycle_types.LinkBack(True), lifecycle_types.LinkBack(False)]),
        st.just(lifecycle_types.Acked()),
        st.builds(lifecycle_types.Unwanted, st.booleans()),
        st.just(lifecycle_types.Forgotten()),
    )


@settings(max_examples=400)
@given(st.data())
def test_laws(data: st.DataObject) -> None:
    job = data.draw(st.sampled_from(JOBS))
    state, told_gone, discarded, launched = RunState(), 0, 0, 0
    order, forgotten = list(Phase), False
    for event in data.draw(st.lists(events(job), max_size=25)):
        former = state
        state, actions = step(state, event, job)
        launched += sum(isinstance(a, lifecycle_types.Launch) for a in actions)
        told_gone += sum(isinstance(a, lifecycle_types.TellGone) for a in actions)
        discarded += sum(isinstance(a, lifecycle_types.Discard) for a in actions)
        # A job is started at most once, its slot is freed at most once, its directory removed once and last.
        assert launched <= 1 and told_gone <= 1 and discarded <= 1
        assert discarded == (state.phase is Phase.GONE)
        # The slot is not free while processes live.
        if told_gone:
            assert state.phase in (Phase.OUTPUT, Phase.ENDED, Phase.GONE)
        # A run never goes back, but for sending its outputs once more, and for going on from a checkpoint.
        if order.index(state.phase) < order.index(former.phase):
            back = (former.phase, state.phase)
            assert back in ((Phase.ENDED, Phase.OUTPUT), (Phase.CHECKPOINT, Phase.STARTING))
        if any(isinstance(a, lifecycle_types.Relaunch) for a in actions):
            assert former.phase is Phase.CHECKPOINT and former.kill is None and job.checkpoint is not None
        forgotten = forgotten or isinstance(event, lifecycle_types.Forgotten)
        if state.phase is Phase.ENDED:
            assert state.end is not None and (told_gone == 1 or forgotten)
        if any(isinstance(a, lifecycle_types.SendEnd) for a in actions):
            assert state.end is not None and state.phase is Phase.ENDED
    # From wherever it is, a run can be brought to its end.
    job_end = lifecycle_types.KeeperEnded(KeeperResult("signaled", code=9, ended_by="hard"), MemoryRule(10), job)
    for event in (lifecycle_types.Unwanted(True), lifecycle_types.Prepared(), job_end):
        state, _ = step(state, event, job)
    assert state.phase is Phase.GONE


@given(kills, st.sampled_from(RESULTS))
def test_a_job_told_to_go_comes_to_a_settled_end(kill: Kill, result: KeeperResult) -> None:
    job = JOBS[0]
    state = RunState(phase=Phase.RUNNING, pid=7)
    state, actions = step(state, lifecycle_types.KillAsked(kill), job)
    assert any(isinstance(a, lifecycle_types.StopHard if kill.fast else lifecycle_types.StopSoft) for a in actions)
    state, actions = step(state, lifecycle_types.KeeperEnded(result, MemoryRule(10), job), job)
    if state.phase is Phase.OUTPUT:
        state, actions = step(state, lifecycle_types.OutputsSent(), job)
    assert state.phase is Phase.ENDED and state.end is not None
    assert isinstance(state.end.how, How)
    state, actions = step(state, lifecycle_types.Acked(), job)
    assert actions == [lifecycle_types.Discard()]


def test_inputs_are_asked_for_when_the_hook_before_the_transfer_is_done() -> None:
    job = JOBS[0]
    state, actions = step(RunState(), lifecycle_types.Accepted(transfers=True, hooked=True), job)
    assert (state.phase, actions) == (Phase.PREPARING, [lifecycle_types.TellPhase(), lifecycle_types.RunHook()])
    for event in (
        lifecycle_types.LinkLost(),
        lifecycle_types.LinkBack(),
        lifecycle_types.InputsDone(),
    ):  # the hook goes on
        state, actions = step(state, event, job)
        assert (state.phase, actions) == (Phase.PREPARING, [])
    asking, actions = step(state, lifecycle_types.Prepared(transfers=True), job)
    assert (asking.phase, actions) == (Phase.INPUT, [lifecycle_types.TellPhase(), lifecycle_types.AskInputs()])
    assert step(state, lifecycle_types.Prepared(transfers=False), job)[1] == [lifecycle_types.Launch()]
    # Who is told to leave meanwhile leaves for that reason, once the hook has gone.
    leaving, actions = step(state, lifecycle_types.KillAsked(Kill(False, "drained", 1012)), job)
    assert (leaving.phase, actions) == (Phase.PREPARING, [lifecycle_types.StopHard()])
    for event in (lifecycle_types.Prepared(), lifecycle_types.Failed(held("died with signal 9", 19))):
        gone, actions = step(leaving, event, job)
        assert gone.end is not None and (gone.end.how, gone.end.reason_code) == (How.EVICTED, 1012)
        assert lifecycle_types.TellGone() in actions


@pytest.mark.parametrize("outputs", ["all", "none"])
def test_a_start_that_a_break_swallowed_is_told_before_the_end(outputs: str) -> None:
    end = held("x", 1)
    for phase in (Phase.OUTPUT, Phase.ENDED):
        state = RunState(phase=phase, executed=True, end=end, outputs=outputs)
        assert step(state, lifecycle_types.LinkBack(True), JOBS[0])[1][0] == lifecycle_types.SendStarted()
        never = replace(state, executed=False)
        assert lifecycle_types.SendStarted() not in step(never, lifecycle_types.LinkBack(True), JOBS[0])[1]


def test_a_checkpoint_is_kept_before_the_job_goes_on() -> None:
    job = JOBS[-1]
    running = RunState(phase=Phase.RUNNING, pid=7, executed=True)
    at_checkpoint = lifecycle_types.KeeperEnded(KeeperResult("exited", code=85), MemoryRule(10), job)
    kept, actions = step(running, at_checkpoint, job)
    assert actions == [lifecycle_types.TellPhase(), lifecycle_types.SendCheckpoint()]
    again, actions = step(kept, lifecycle_types.LinkBack(True), job)
    assert (again, actions) == (kept, [lifecycle_types.SendStarted(), lifecycle_types.SendCheckpoint()])
    state, actions = step(kept, lifecycle_types.CheckpointKept(), job)
    assert (state.phase, actions) == (Phase.STARTING, [lifecycle_types.Relaunch()])
    # Who is told to leave meanwhile leaves with the checkpoint, and is evicted, not done.
    leaving, actions = step(kept, lifecycle_types.KillAsked(Kill(False, code=1010)), job)
    assert actions == []
    state, _ = step(leaving, lifecycle_types.CheckpointKept(), job)
    assert state.phase is Phase.ENDED and state.end is not None
    assert (state.end.how, state.end.reason_code) == (How.EVICTED, 1010)
    # Its last exit is its end.
    state, _ = step(running, lifecycle_types.KeeperEnded(KeeperResult("exited"), MemoryRule(10), job), job)
    assert state.phase is Phase.OUTPUT


def test_more_urgent_wishes_win() -> None:
    job = JOBS[0]
    state = RunState(phase=Phase.RUNNING, pid=7)
    state, _ = step(state, lifecycle_types.KillAsked(Kill(fast=True, code=1)), job)
    state, actions = step(state, lifecycle_types.KillAsked(Kill(fast=False, code=2)), job)
    assert actions == [] and state.kill is not None and state.kill.code == 1


def test_signals_for_each_kind_of_kill() -> None:
    job = read_job({"KillSig": "SIGINT", "RemoveKillSig": "SIGUSR1", "HoldKillSig": "SIGUSR2"}.get, "ann@here")
    running = RunState(phase=Phase.RUNNING, pid=7, executed=True)
    for kill, number in (
        (Kill(False, code=1010), 2),
        (Kill(False, code=1023), 10),
        (Kill(False, code=21, hold=True), 12),
    ):
        _, actions = step(running, lifecycle_types.KillAsked(kill), job)
        assert [a.signal for a in actions if isinstance(a, lifecycle_types.StopSoft)] == [number]
