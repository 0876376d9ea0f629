"""Laws of a run's life, whatever happens in whatever order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotwise.execution.facts import JobFacts, read_job
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.execution.verdict import How, Kill, MemoryRule, held
from slotwise.starter import moves
from slotwise.starter.lifecycle import step
from slotwise.starter.moves import Phase, RunState

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


def events(job: JobFacts) -> st.SearchStrategy[moves.Event]:
    return st.one_of(
        st.builds(moves.Accepted, st.booleans(), st.booleans()),
        st.builds(moves.Prepared, st.booleans()),
        st.sampled_from([moves.InputsDone(), moves.InputsDone("no file", 13, 2)]),
        st.just(moves.Started(7)),
        st.builds(moves.KeeperEnded, st.sampled_from(RESULTS), st.just(MemoryRule(10)), st.just(job)),
        st.just(moves.Failed(held("disk", 34, 104))),
        st.builds(moves.KillAsked, kills),
        st.builds(moves.SuspendAsked, st.booleans()),
        st.sampled_from([moves.OutputsSent(), moves.OutputsSent(held("missing", 12, 2))]),
        st.sampled_from([moves.CheckpointKept(), moves.CheckpointKept(held("no room", 12, 28))]),
        st.sampled_from([moves.LinkLost(), moves.LinkBack(True), moves.LinkBack(False)]),
        st.just(moves.Acked()),
        st.builds(moves.Unwanted, st.booleans()),
        st.just(moves.Forgotten()),
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
        launched += sum(isinstance(a, moves.Launch) for a in actions)
        told_gone += sum(isinstance(a, moves.TellGone) for a in actions)
        discarded += sum(isinstance(a, moves.Discard) for a in actions)
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
        if any(isinstance(a, moves.Relaunch) for a in actions):
            assert former.phase is Phase.CHECKPOINT and former.kill is None and job.checkpoint is not None
        forgotten = forgotten or isinstance(event, moves.Forgotten)
        if state.phase is Phase.ENDED:
            assert state.end is not None and (told_gone == 1 or forgotten)
        if any(isinstance(a, moves.SendEnd) for a in actions):
            assert state.end is not None and state.phase is Phase.ENDED
    # From wherever it is, a run can be brought to its end.
    job_end = moves.KeeperEnded(KeeperResult("signaled", code=9, ended_by="hard"), MemoryRule(10), job)
    for event in (moves.Unwanted(True), moves.Prepared(), job_end):
        state, _ = step(state, event, job)
    assert state.phase is Phase.GONE


@given(kills, st.sampled_from(RESULTS))
def test_a_job_told_to_go_comes_to_a_settled_end(kill: Kill, result: KeeperResult) -> None:
    job = JOBS[0]
    state = RunState(phase=Phase.RUNNING, pid=7)
    state, actions = step(state, moves.KillAsked(kill), job)
    assert any(isinstance(a, moves.StopHard if kill.fast else moves.StopSoft) for a in actions)
    state, actions = step(state, moves.KeeperEnded(result, MemoryRule(10), job), job)
    if state.phase is Phase.OUTPUT:
        state, actions = step(state, moves.OutputsSent(), job)
    assert state.phase is Phase.ENDED and state.end is not None
    assert isinstance(state.end.how, How)
    state, actions = step(state, moves.Acked(), job)
    assert actions == [moves.Discard()]


def test_inputs_are_asked_for_when_the_hook_before_the_transfer_is_done() -> None:
    job = JOBS[0]
    state, actions = step(RunState(), moves.Accepted(transfers=True, hooked=True), job)
    assert (state.phase, actions) == (Phase.PREPARING, [moves.TellPhase(), moves.RunHook()])
    for event in (moves.LinkLost(), moves.LinkBack(), moves.InputsDone()):  # the hook goes on
        state, actions = step(state, event, job)
        assert (state.phase, actions) == (Phase.PREPARING, [])
    asking, actions = step(state, moves.Prepared(transfers=True), job)
    assert (asking.phase, actions) == (Phase.INPUT, [moves.TellPhase(), moves.AskInputs()])
    assert step(state, moves.Prepared(transfers=False), job)[1] == [moves.Launch()]
    # Who is told to leave meanwhile leaves for that reason, once the hook has gone.
    leaving, actions = step(state, moves.KillAsked(Kill(False, "drained", 1012)), job)
    assert (leaving.phase, actions) == (Phase.PREPARING, [moves.StopHard()])
    for event in (moves.Prepared(), moves.Failed(held("died with signal 9", 19))):
        gone, actions = step(leaving, event, job)
        assert gone.end is not None and (gone.end.how, gone.end.reason_code) == (How.EVICTED, 1012)
        assert moves.TellGone() in actions


@pytest.mark.parametrize("outputs", ["all", "none"])
def test_a_start_that_a_break_swallowed_is_told_before_the_end(outputs: str) -> None:
    end = held("x", 1)
    for phase in (Phase.OUTPUT, Phase.ENDED):
        state = RunState(phase=phase, executed=True, end=end, outputs=outputs)
        assert step(state, moves.LinkBack(True), JOBS[0])[1][0] == moves.SendStarted()
        never = replace(state, executed=False)
        assert moves.SendStarted() not in step(never, moves.LinkBack(True), JOBS[0])[1]


def test_a_checkpoint_is_kept_before_the_job_goes_on() -> None:
    job = JOBS[-1]
    running = RunState(phase=Phase.RUNNING, pid=7, executed=True)
    at_checkpoint = moves.KeeperEnded(KeeperResult("exited", code=85), MemoryRule(10), job)
    kept, actions = step(running, at_checkpoint, job)
    assert actions == [moves.TellPhase(), moves.SendCheckpoint()]
    again, actions = step(kept, moves.LinkBack(True), job)
    assert (again, actions) == (kept, [moves.SendStarted(), moves.SendCheckpoint()])
    state, actions = step(kept, moves.CheckpointKept(), job)
    assert (state.phase, actions) == (Phase.STARTING, [moves.Relaunch()])
    # Who is told to leave meanwhile leaves with the checkpoint, and is evicted, not done.
    leaving, actions = step(kept, moves.KillAsked(Kill(False, code=1010)), job)
    assert actions == []
    state, _ = step(leaving, moves.CheckpointKept(), job)
    assert state.phase is Phase.ENDED and state.end is not None
    assert (state.end.how, state.end.reason_code) == (How.EVICTED, 1010)
    # Its last exit is its end.
    state, _ = step(running, moves.KeeperEnded(KeeperResult("exited"), MemoryRule(10), job), job)
    assert state.phase is Phase.OUTPUT


def test_more_urgent_wishes_win() -> None:
    job = JOBS[0]
    state = RunState(phase=Phase.RUNNING, pid=7)
    state, _ = step(state, moves.KillAsked(Kill(fast=True, code=1)), job)
    state, actions = step(state, moves.KillAsked(Kill(fast=False, code=2)), job)
    assert actions == [] and state.kill is not None and state.kill.code == 1


def test_signals_for_each_kind_of_kill() -> None:
    job = read_job({"KillSig": "SIGINT", "RemoveKillSig": "SIGUSR1", "HoldKillSig": "SIGUSR2"}.get, "ann@here")
    running = RunState(phase=Phase.RUNNING, pid=7, executed=True)
    for kill, number in (
        (Kill(False, code=1010), 2),
        (Kill(False, code=1023), 10),
        (Kill(False, code=21, hold=True), 12),
    ):
        _, actions = step(running, moves.KillAsked(kill), job)
        assert [a.signal for a in actions if isinstance(a, moves.StopSoft)] == [number]
