"""Laws of a run's life, whatever happens in whatever order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from slotwise.starter import lifecycle as life
from slotwise.starter.facts import JobFacts, read_job
from slotwise.starter.keeper_spec import KeeperResult
from slotwise.starter.lifecycle import Phase, RunState
from slotwise.starter.verdict import How, Kill, MemoryRule, held

JOBS = [
    read_job({"WhenToTransferOutput": when, "HoldKillSig": 12}.get)
    for when in ("ON_EXIT", "ON_SUCCESS", "ON_EXIT_OR_EVICT")
]
RESULTS = [
    KeeperResult("exited"),
    KeeperResult("exited", code=1),
    KeeperResult("signaled", code=9, ended_by="hard"),
    KeeperResult("signaled", code=9, oom_kills=1),
    KeeperResult("failed", stage="exec", errno=2),
    KeeperResult("lost"),
    KeeperResult("exited", ended_by="lease"),
]
kills = st.builds(
    Kill, fast=st.booleans(), code=st.sampled_from([0, 21, 1010, 1023]), hold=st.booleans(), want_outputs=st.booleans()
)


def events(job: JobFacts) -> st.SearchStrategy[life.Event]:
    return st.one_of(
        st.builds(life.Accepted, st.booleans()),
        st.sampled_from([life.InputsDone(), life.InputsDone("no file", 13, 2)]),
        st.just(life.Started(7)),
        st.builds(life.KeeperEnded, st.sampled_from(RESULTS), st.just(MemoryRule(10)), st.just(job)),
        st.just(life.Failed(held("disk", 34, 104))),
        st.builds(life.KillAsked, kills),
        st.builds(life.SuspendAsked, st.booleans()),
        st.sampled_from([life.OutputsSent(), life.OutputsSent(held("missing", 12, 2))]),
        st.sampled_from([life.LinkLost(), life.LinkBack(True), life.LinkBack(False)]),
        st.just(life.Acked()),
        st.builds(life.Unwanted, st.booleans()),
    )


@settings(max_examples=400)
@given(st.data())
def test_laws(data: st.DataObject) -> None:
    job = data.draw(st.sampled_from(JOBS))
    state, told_gone, discarded, launched = RunState(), 0, 0, 0
    order = list(Phase)
    for event in data.draw(st.lists(events(job), max_size=25)):
        former = state
        state, actions = life.step(state, event, job)
        launched += sum(isinstance(a, life.Launch) for a in actions)
        told_gone += sum(isinstance(a, life.TellGone) for a in actions)
        discarded += sum(isinstance(a, life.Discard) for a in actions)
        # A job is started at most once, its slot is freed at most once, its directory removed once and last.
        assert launched <= 1 and told_gone <= 1 and discarded <= 1
        assert discarded == (state.phase is Phase.GONE)
        # The slot is not free while processes live.
        if told_gone:
            assert state.phase in (Phase.OUTPUT, Phase.ENDED, Phase.GONE)
        # A run never goes back, but for sending its outputs once more.
        if order.index(state.phase) < order.index(former.phase):
            assert (former.phase, state.phase) == (Phase.ENDED, Phase.OUTPUT)
        if state.phase is Phase.ENDED:
            assert state.end is not None and told_gone == 1
        if any(isinstance(a, life.SendEnd) for a in actions):
            assert state.end is not None and state.phase is Phase.ENDED
    # From wherever it is, a run can be brought to its end.
    job_end = life.KeeperEnded(KeeperResult("signaled", code=9, ended_by="hard"), MemoryRule(10), job)
    for event in (life.Unwanted(True), job_end):
        state, _ = life.step(state, event, job)
    assert state.phase is Phase.GONE


@given(kills, st.sampled_from(RESULTS))
def test_a_job_told_to_go_comes_to_a_settled_end(kill: Kill, result: KeeperResult) -> None:
    job = JOBS[0]
    state = RunState(phase=Phase.RUNNING, pid=7)
    state, actions = life.step(state, life.KillAsked(kill), job)
    assert any(isinstance(a, life.StopHard if kill.fast else life.StopSoft) for a in actions)
    state, actions = life.step(state, life.KeeperEnded(result, MemoryRule(10), job), job)
    if state.phase is Phase.OUTPUT:
        state, actions = life.step(state, life.OutputsSent(), job)
    assert state.phase is Phase.ENDED and state.end is not None
    assert isinstance(state.end.how, How)
    state, actions = life.step(state, life.Acked(), job)
    assert actions == [life.Discard()]


def test_more_urgent_wishes_win() -> None:
    job = JOBS[0]
    state = RunState(phase=Phase.RUNNING, pid=7)
    state, _ = life.step(state, life.KillAsked(Kill(fast=True, code=1)), job)
    state, actions = life.step(state, life.KillAsked(Kill(fast=False, code=2)), job)
    assert actions == [] and state.kill is not None and state.kill.code == 1


def test_signals_for_each_kind_of_kill() -> None:
    job = read_job({"KillSig": "SIGINT", "RemoveKillSig": "SIGUSR1", "HoldKillSig": "SIGUSR2"}.get)
    running = RunState(phase=Phase.RUNNING, pid=7)
    for kill, number in (
        (Kill(False, code=1010), 2),
        (Kill(False, code=1023), 10),
        (Kill(False, code=21, hold=True), 12),
    ):
        _, actions = life.step(running, life.KillAsked(kill), job)
        assert [a.signal for a in actions if isinstance(a, life.StopSoft)] == [number]
