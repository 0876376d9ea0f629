"""The transfer queue of outputs (MAX_CONCURRENT_DOWNLOADS): users with the fewest transfers go first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, PretendedRun, Script


async def test_so_many_outputs_move_at_once_and_no_more(tmp_path: Path, point: ExecutionPoint) -> None:
    schedd = await RunningAccessPoint(tmp_path / "ap").start(MAX_CONCURRENT_DOWNLOADS="1")
    try:
        point.script = lambda ad: Script(until_killed=True)
        await schedd.submit(2)
        assert await schedd.negotiate(point.address) == 2

        async def both_run() -> bool:
            return len(point.runs) == 2 and all(run.started for run in point.runs.values())

        await schedd.until(both_run)
        first, second = point.runs.values()
        assert first.offers_turns and second.offers_turns

        async def turns(*wanted: int) -> None:
            async def given() -> bool:
                return (first.turns, second.turns) == wanted

            await schedd.until(given)

        def wait(run: PretendedRun) -> None:
            point.say(run, outputs_wait=schedd_pb2.OutputsWait(bytes=5 * 1048576))

        wait(first)
        await turns(1, 0)
        wait(second)

        async def waits() -> bool:
            ad: Mapping[str, Any] = schedd.point.own_ads.scheduler()
            return bool(ad["TransferQueueNumWaitingToDownload"] == 1)

        await schedd.until(waits)
        ad: Mapping[str, Any] = schedd.point.own_ads.scheduler()
        names = ("TransferQueueMaxDownloading", "TransferQueueNumDownloading", "FileTransferMBWaitingToDownload")
        assert [ad[name] for name in names] == [1, 1, 5.0]
        assert second.turns == 0
        await schedd.act("REMOVE", f'GlobalJobId == "{first.ad["GlobalJobId"]}"')
        await turns(1, 1)
        assert schedd.point.own_ads.scheduler()["TransferQueueNumWaitingToDownload"] == 0
    finally:
        await schedd.stop()


async def test_without_a_limit_nothing_waits(tmp_path: Path, point: ExecutionPoint) -> None:
    schedd = await RunningAccessPoint(tmp_path / "ap").start(MAX_CONCURRENT_DOWNLOADS="0")
    try:
        point.script = lambda ad: Script(until_killed=True)
        await schedd.submit(1)
        await schedd.negotiate(point.address)

        async def runs() -> bool:
            return any(run.started for run in point.runs.values())

        await schedd.until(runs)
        assert not any(run.offers_turns for run in point.runs.values())
    finally:
        await schedd.stop()
