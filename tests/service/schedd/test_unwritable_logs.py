"""Event logs that cannot be written for a while: no event is lost, no job that runs ends for it, and none leaves the
queue before its end is in its log. ``/dev/full`` is a log on a full disk."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import htcondor2
import pytest
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script


def numbers(log: Path) -> list[int]:
    return [int(event.type) for event in htcondor2.JobEventLog(str(log)).events(stop_after=0)]


class FullDisk:
    """A log that is moved to a full disk and back."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._aside = log.with_name("aside.log")

    def fill(self) -> None:
        self._log.rename(self._aside)
        self._log.symlink_to("/dev/full")

    def make_room(self) -> None:
        self._log.unlink()
        self._aside.rename(self._log)


@pytest.fixture
def disk(schedd: RunningAccessPoint) -> FullDisk:
    return FullDisk(schedd.home.root / "job.log")


async def until_job(schedd: RunningAccessPoint, constraint: str) -> Any:
    async def found() -> bool:
        return len(await schedd.jobs(constraint)) == 1

    await schedd.until(found, constraint)
    return (await schedd.jobs())[0]


async def completed_while_full(schedd: RunningAccessPoint, point: ExecutionPoint, disk: FullDisk) -> Any:
    """A job that ended while its log could not be written."""
    ends = asyncio.Event()
    point.script = lambda ad: Script(until=ends)
    await schedd.submit(UserLog="job.log")
    await schedd.negotiate(point.address)
    await until_job(schedd, "NumJobStarts == 1")
    await schedd.point.committer.logs_written()
    disk.fill()
    ends.set()
    return await until_job(schedd, "JobStatus == 4 && UserLogError =!= undefined")


async def test_a_job_stays_in_the_queue_until_its_end_is_in_its_log(
    schedd: RunningAccessPoint, point: ExecutionPoint, disk: FullDisk
) -> None:
    ad = await completed_while_full(schedd, point, disk)
    assert "job.log" in ad["UserLogError"] and "No space left" in ad["UserLogError"]
    assert "HoldReason" not in ad and not await schedd.history()
    assert schedd.point.log_waits.reasons_for("") == [ad["UserLogError"]]
    disk.make_room()
    await schedd.until_gone()
    assert numbers(schedd.home.root / "job.log") == [0, 1, 5]
    assert len(point.history) == 1
    (past,) = await schedd.history()
    assert past["JobStatus"] == 4 and "UserLogError" not in past
    assert schedd.point.log_waits.reasons_for("") == []


async def test_events_wait_while_the_schedd_is_not_there(
    schedd: RunningAccessPoint, point: ExecutionPoint, disk: FullDisk
) -> None:
    await completed_while_full(schedd, point, disk)
    await schedd.kill()
    await schedd.start()
    await until_job(schedd, "JobStatus == 4")
    disk.make_room()
    await schedd.until_gone()
    assert numbers(schedd.home.root / "job.log") == [0, 1, 5]
    assert len(await schedd.history()) == 1


async def test_a_job_that_runs_goes_on_when_its_log_cannot_be_opened(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    directory, away = schedd.home.root / "logs", schedd.home.root / "away"
    directory.mkdir()
    ends = asyncio.Event()
    point.script = lambda ad: Script(until=ends)
    await schedd.submit(UserLog="logs/job.log")
    directory.rename(away)
    await schedd.negotiate(point.address)
    ad = await until_job(schedd, "JobStatus == 2 && UserLogError =!= undefined")
    assert "logs/job.log" in ad["UserLogError"]
    ends.set()
    await until_job(schedd, "JobStatus == 4")
    away.rename(directory)
    await schedd.until_gone()
    assert numbers(directory / "job.log") == [0, 1, 5]
    assert len(point.history) == 1


async def test_a_held_job_gets_all_its_events_once_its_log_can_be_opened(schedd: RunningAccessPoint) -> None:
    await schedd.submit(UserLog="logs/job.log")
    ad = await until_job(schedd, "JobStatus == 5")
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (22, 2)
    (schedd.home.root / "logs").mkdir()
    await until_job(schedd, "JobStatus == 5 && UserLogError =?= undefined")
    await schedd.act("RELEASE", "true")
    await schedd.point.committer.logs_written()
    assert numbers(schedd.home.root / "logs" / "job.log") == [0, 12, 13]


async def test_the_user_removes_a_completed_job_that_waits_for_its_log(
    schedd: RunningAccessPoint, point: ExecutionPoint, disk: FullDisk
) -> None:
    await completed_while_full(schedd, point, disk)
    await schedd.act("REMOVE", "true")
    await schedd.until_gone()
    disk.make_room()

    def logged() -> bool:
        return numbers(schedd.home.root / "job.log") == [0, 1, 5]

    await schedd.until(logged, "its end is logged none the less")


async def test_an_administrator_bounds_how_long_jobs_wait_for_their_logs(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "home").start(SLOTWISE_USERLOG_PATIENCE="0.5")
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token, slots=1)
    await point.start()
    disk = FullDisk(schedd.home.root / "job.log")
    try:
        await completed_while_full(schedd, point, disk)
        await schedd.until_gone()
        disk.make_room()
        assert numbers(schedd.home.root / "job.log") == [0, 1]
        assert schedd.point.committer.backlog.next_at() is None
    finally:
        await schedd.stop()
        await point.stop()


async def test_a_job_that_gets_another_log_waits_no_more_for_the_former(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    await schedd.submit(UserLog=str(schedd.home.root / "logs/job.log"))
    await until_job(schedd, "JobStatus == 5")
    request = schedd_pb2.EditRequest(set={"UserLog": f'"{schedd.home.root}/other.log"'})
    request.jobs.constraint = "true"
    await schedd.stub.Edit(request, metadata=schedd.user)
    await schedd.act("RELEASE", "true")
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    assert numbers(schedd.home.root / "other.log") == [33, 13, 1, 5]
