"""The transfer queue of outputs (MAX_CONCURRENT_DOWNLOADS), and outputs of jobs that are removed (rm -transfer)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from slotwise.model.reason_codes import Vacate
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.command import command
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


async def test_outputs_of_a_removed_job_come_back_when_that_is_asked_for(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(
        until_killed=True,
        outputs={"part": b"so far"},
        how=schedd_pb2.RunEnded.EVICTED,
        reason_code=int(Vacate.JOB_REMOVED),
    )
    cluster = await schedd.submit(1)
    await schedd.negotiate(point.address)

    async def runs() -> bool:
        return any(run.started for run in point.runs.values())

    await schedd.until(runs)
    (run,) = point.runs.values()
    done = await command(schedd.home.root, "rm", "-transfer", f"{cluster}.0")
    assert (done.status, done.out) == (0, f"Job {cluster}.0 marked for removal after file transfer\n")
    await schedd.until_gone()
    assert run.with_outputs
    assert (schedd.home.root / "part").read_bytes() == b"so far"
    (ad,) = await schedd.history()
    assert (ad["JobStatus"], ad["RemoveReason"]) == (3, f"via condor_rm -transfer (by user {schedd.owner})")


@pytest.mark.parametrize("action", ["VACATE", "REMOVE"])
async def test_files_of_evicted_jobs_go_to_their_place_when_they_are_not_to_be_spooled(
    schedd: RunningAccessPoint, point: ExecutionPoint, action: str
) -> None:
    """SpoolOnEvict = false."""
    point.script = lambda ad: Script(until_killed=True, outputs={"part": b"so far"})
    kept = await schedd.submit(1, WhenToTransferOutput="ON_EXIT_OR_EVICT")
    cluster = await schedd.submit(1, WhenToTransferOutput="ON_EXIT_OR_EVICT", SpoolOnEvict=False)
    await schedd.negotiate(point.address)

    async def run() -> bool:
        return sum(run.started for run in point.runs.values()) == 2

    await schedd.until(run)
    await schedd.act(action, f"ClusterId == {kept}")
    await schedd.until(lambda: over(schedd, kept))
    assert not (schedd.home.root / "part").exists()
    await schedd.act(action, f"ClusterId == {cluster}")
    await schedd.until(lambda: over(schedd, cluster))
    assert (schedd.home.root / "part").read_bytes() == b"so far"


async def over(schedd: RunningAccessPoint, cluster: int) -> bool:
    """Whether the first run of a job is over."""
    return f"{cluster}.0#1" not in schedd.point.claiming.claim_table.runs
