"""Actions on very many jobs are answered at once and go on; here, very many are more than four."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.schedd.api.background_actions import PendingAction, packed, unpacked
from slotwise.schedd.api.requests import Action
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.command import Result, command
from tests.support.execution_point import ExecutionPoint, Script

IDLE, REMOVED, HELD = 1, 3, 5


class Gate:
    """Actions of an access point wait until it is opened."""

    def __init__(self, running: RunningAccessPoint) -> None:
        self.open = asyncio.Event()
        background = running.point.actions.background
        carry_out = background._carry_out

        async def gated(pending: PendingAction) -> None:
            await self.open.wait()
            await carry_out(pending)

        background._carry_out = gated  # type: ignore[method-assign]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningAccessPoint]:
    access_point = await RunningAccessPoint(tmp_path / "pool").start(SLOTWISE_BACKGROUND_ACTION_JOBS="4")
    yield access_point
    await access_point.stop()


async def act(running: RunningAccessPoint, what: str, *ids: str, constraint: str = "") -> schedd_pb2.ActReply:
    jobs = schedd_pb2.JobSelection(ids=ids, constraint=constraint, all=not (ids or constraint))
    reply: schedd_pb2.ActReply = await running.stub.Act(
        schedd_pb2.ActRequest(action=what, jobs=jobs), metadata=running.user
    )
    return reply


async def states(running: RunningAccessPoint) -> list[int]:
    return [ad["JobStatus"] for ad in await running.jobs()]


async def until_done(running: RunningAccessPoint) -> None:
    async def done() -> bool:
        return not running.point.actions.background.ads()

    await running.until(done)
    running.point.queue.validate()


async def q(running: RunningAccessPoint, *words: str) -> Result:
    return await command(running.home.root, *words, token=running.token_file(running.owner))


@pytest.mark.parametrize("how", ["all", "constraint", "cluster"])
async def test_the_answer_comes_before_the_jobs_are_held(running: RunningAccessPoint, how: str) -> None:
    gate, cluster = Gate(running), await running.submit(20)
    selection: dict[str, Any] = {"constraint": "ProcId >= 0"} if how == "constraint" else {}
    reply = await act(running, "HOLD", *([str(cluster)] if how == "cluster" else []), **selection)
    assert (reply.background, dict(reply.totals)) == (1, {"success": 20})
    assert [(one.id, one.result) for one in reply.jobs] == ([(str(cluster), "success")] if how == "cluster" else [])
    assert await states(running) == [IDLE] * 20
    table = (await q(running, "q", "-actions")).out
    assert f"1 {running.owner}@here hold" in table and " 20 " in table
    (ad,) = json.loads((await q(running, "q", "-actions", "-json")).out)
    assert (ad["Action"], ad["JobsTotal"], ad["JobsDone"]) == ("hold", 20, 0)
    gate.open.set()
    await until_done(running)
    assert await states(running) == [HELD] * 20
    assert (await running.jobs())[0]["HoldReason"] == f"via condor_hold (by user {running.owner})"


async def test_few_jobs_are_acted_on_before_the_answer(running: RunningAccessPoint) -> None:
    await running.submit(4)
    reply = await act(running, "HOLD")
    assert reply.background == 0
    assert await states(running) == [HELD] * 4


async def test_no_job_starts_that_is_about_to_be_held(running: RunningAccessPoint, tmp_path: Path) -> None:
    point = ExecutionPoint(tmp_path / "ep.sock", running.daemon_token, slots=20)
    point.script = lambda ad: Script(until_killed=True)
    await point.start()
    try:
        gate = Gate(running)
        await running.submit(20)
        await act(running, "HOLD")
        assert await running.negotiate(point.address, slots=20) == 0
        gate.open.set()
        await until_done(running)
        assert point.history == [] and await states(running) == [HELD] * 20
    finally:
        await point.stop()


async def test_it_goes_on_where_it_was_after_a_restart(running: RunningAccessPoint, tmp_path: Path) -> None:
    Gate(running)
    cluster = await running.submit(20)
    await act(running, "REMOVE")
    await act(running, "HOLD", f"{cluster}.3")  # it is being removed already
    later = await running.submit(1)
    assert len(await running.jobs()) == 20
    await running.kill()
    await running.start(SLOTWISE_BACKGROUND_ACTION_JOBS="4")
    await until_done(running)
    assert [ad["ClusterId"] for ad in await running.jobs()] == [later]
    assert len(await running.history()) == 20
    await running.kill()
    await running.start()
    assert running.point.actions.background.ads() == []


async def test_jobs_that_were_reached_before_a_restart_are_left_alone(running: RunningAccessPoint) -> None:
    cluster = await running.submit(8)
    await act(running, "HOLD")
    await until_done(running)
    Gate(running)
    await act(running, "RELEASE")
    pending = running.point.actions.background._pending[0]
    from slotwise.schedd.jobs.decision import Decision
    from slotwise.schedd.storage.store import Batch

    batch = Batch()
    batch.note_action(pending.id, 5)
    await running.point.committer.commit(Decision(0.0), batch)
    await running.kill()
    await running.start(SLOTWISE_BACKGROUND_ACTION_JOBS="4")
    await until_done(running)
    assert [ad["JobStatus"] for ad in await running.jobs(f"ClusterId == {cluster}")] == [HELD] * 5 + [IDLE] * 3


async def test_actions_take_effect_in_the_order_in_which_they_were_asked_for(running: RunningAccessPoint) -> None:
    gate = Gate(running)
    await running.submit(20)
    assert (await act(running, "HOLD")).background == 1
    reply = await act(running, "RELEASE")
    assert (reply.background, dict(reply.totals)) == (2, {"success": 20})
    assert (await act(running, "RELEASE")).totals == {}  # nothing will be on hold
    gate.open.set()
    await until_done(running)
    ads = await running.jobs()
    assert {ad["JobStatus"] for ad in ads} == {IDLE} and {ad["NumHolds"] for ad in ads} == {1}
    assert sum(running.point.queue.runnable.count(name) for name in running.point.queue.runnable.submitters()) == 20


async def test_whoever_acts_on_one_of_the_jobs_finds_the_action_done(running: RunningAccessPoint) -> None:
    gate = Gate(running)
    cluster = await running.submit(20)
    await act(running, "HOLD")
    reply = await act(running, "RELEASE", f"{cluster}.3")
    assert [(one.id, one.result) for one in reply.jobs] == [(f"{cluster}.3", "success")]
    gate.open.set()
    await until_done(running)
    assert await states(running) == [HELD] * 3 + [IDLE] + [HELD] * 16


async def test_jobs_of_others_are_left_alone(running: RunningAccessPoint) -> None:
    await running.submit(20)
    jobs = schedd_pb2.JobSelection(all=True)
    reply = await running.stub.Act(
        schedd_pb2.ActRequest(action="REMOVE", jobs=jobs), metadata=running.as_user("mallory")
    )
    assert (reply.background, dict(reply.totals)) == (0, {"permission_denied": 20})
    assert await states(running) == [IDLE] * 20


async def test_what_is_durable_goes_on_for_a_caller_that_has_gone(running: RunningAccessPoint) -> None:
    await running.submit(20)
    commit = running.point.committer.commit

    def gone(*args: Any, **kwargs: Any) -> asyncio.Future[None]:
        done = commit(*args, **kwargs)
        if kwargs.get("may_fail"):
            caller.cancel()
        return done

    running.point.committer.commit = gone  # type: ignore[method-assign]
    jobs = running.point.queue.jobs()
    background = running.point.actions.background
    caller = asyncio.ensure_future(background.begin("alice@here", Action.HOLD, "why", 0, list(jobs)))
    with pytest.raises(asyncio.CancelledError):
        await caller
    running.point.committer.commit = commit  # type: ignore[method-assign]
    await running.until(lambda: held(running))
    await until_done(running)
    await running.submit(1)
    await running.kill()
    await running.start(SLOTWISE_BACKGROUND_ACTION_JOBS="4")
    assert running.point.actions.background.ads() == []
    assert await states(running) == [HELD] * 20 + [IDLE]


async def held(running: RunningAccessPoint) -> bool:
    return HELD in await states(running)


async def test_a_user_has_few_actions_that_wait(running: RunningAccessPoint) -> None:
    gate = Gate(running)
    await running.submit(20)
    for number in range(10):
        assert (await act(running, "RELEASE" if number % 2 else "HOLD")).background == number + 1
    with pytest.raises(grpc.aio.AioRpcError, match=r"10 actions of .* go on already") as refused:
        await act(running, "HOLD")
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    gate.open.set()
    await until_done(running)
    assert (await act(running, "HOLD")).background == 11
    await until_done(running)
    assert await states(running) == [HELD] * 20


def in_ranges(keys: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return list(unpacked(packed(keys)))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9))))
def test_ids_are_kept_in_their_order(keys: list[tuple[int, int]]) -> None:
    assert in_ranges(keys) == keys
