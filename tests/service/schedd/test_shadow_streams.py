"""The streams of starters: who replaces whose, and whose word ends a run."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from slotwise.wire import channel
from slotwise.wire.credential import bearer
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.run_tokens import for_stream

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script, _StarterSide


@pytest.fixture
async def other(schedd: RunningAccessPoint, tmp_path: Path) -> AsyncIterator[ExecutionPoint]:
    """A second execution point, whose jobs run until they are killed."""
    point = ExecutionPoint(tmp_path / "other.sock", schedd.daemon_token, name="other")
    point.script = lambda ad: Script(until_killed=True)
    await point.start()
    yield point
    await point.stop()


async def one_runs(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    """Start a job there."""
    await schedd.submit()
    await schedd.negotiate(point.address, slots=1, name=point.name)

    async def started() -> bool:
        runs = schedd.point.claiming.claim_table.runs.values()
        return any(run.executing_at and run.claim.startd == point.address for run in runs)

    await schedd.until(started)


def side(point: ExecutionPoint) -> _StarterSide:
    (only,) = point._starters.values()
    return only


async def ends(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    """Have the starter end its runs, and wait until their ends are taken over."""
    ended = list(point.runs.values())
    assert ended
    for run in ended:
        run.killed.set()

    async def taken_over() -> bool:
        return not any(run.run_id in schedd.point.claiming.claim_table.runs for run in ended)

    await schedd.until(taken_over)


async def test_a_starter_that_gives_the_address_of_another_does_not_silence_it(
    schedd: RunningAccessPoint, point: ExecutionPoint, other: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(until_killed=True)
    await one_runs(schedd, other)
    await one_runs(schedd, point)
    (victim,) = [run for run in schedd.point.claiming.claim_table.runs.values() if run.claim.startd == point.address]
    stream = victim.stream
    listed = schedd_pb2.RunList(starter_address=point.starter)
    out = side(other).out
    assert out is not None
    out.put_nowait(schedd_pb2.StarterMessage(runs=listed))
    side(other).begin(next(iter(other.runs.values())))  # says hello once more, with the token of its own run
    shadows = schedd.point.shadows

    async def heard() -> bool:
        return sum(one.starter == point.starter for one in shadows._streams) == 2

    await schedd.until(heard)
    await one_runs(schedd, point)
    assert victim.stream is stream and stream is not None and not stream.closed
    await ends(schedd, point)


async def test_two_starters_with_one_address_are_both_heard(
    schedd: RunningAccessPoint, point: ExecutionPoint, other: ExecutionPoint
) -> None:
    other.starter = point.starter
    point.script = lambda ad: Script(until_killed=True)
    await one_runs(schedd, other)
    await one_runs(schedd, point)
    for one in (other, point):
        await ends(schedd, one)


async def test_a_new_stream_of_a_starter_ends_the_call_of_its_old_one(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(until_killed=True)
    await one_runs(schedd, point)
    (run,) = schedd.point.claiming.claim_table.runs.values()
    old = run.stream
    again = _StarterSide(point, side(point).address)

    async def talk() -> None:
        with contextlib.suppress(grpc.RpcError):
            async with channel.open_async(again.address) as opened:
                token = for_stream(again.token())
                await again.converse(schedd_pb2_grpc.ScheddStub(opened).Shadow(metadata=bearer(token)))

    point.spawn(talk())

    async def replaced() -> bool:
        return old not in schedd.point.shadows._streams and run.stream is not None and not run.stream.closed

    await schedd.until(replaced)
    assert run.stream is not old
    await ends(schedd, point)


@pytest.mark.parametrize("what", ["ended", "hello"])
async def test_a_failed_run_is_ended_by_its_own_starter_alone(
    schedd: RunningAccessPoint, point: ExecutionPoint, other: ExecutionPoint, what: str
) -> None:
    point.script = lambda ad: Script(until_killed=True)
    await one_runs(schedd, other)
    await one_runs(schedd, point)
    runs = schedd.point.claiming.claim_table.runs
    (run,) = [run for run in runs.values() if run.claim.startd == point.address]
    point.side_take = lambda side, message: None  # its starter does not hear that the run is to end
    schedd.point.claiming.failures.run(run, RuntimeError("a failure of the access point"))
    out = side(other).out
    assert out is not None
    if what == "ended":
        out.put_nowait(schedd_pb2.StarterMessage(run_id=run.id, ended=schedd_pb2.RunEnded()))
    else:
        out.put_nowait(schedd_pb2.StarterMessage(run_id=run.id, hello=schedd_pb2.RunHello(token="guessed")))
    await ends(schedd, other)  # said behind it, on the same stream
    assert run.failed and runs.get(run.id) is run
    point.side_take = lambda side, message: side.take(message)
    await ends(schedd, point)
