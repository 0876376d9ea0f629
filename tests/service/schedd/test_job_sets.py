"""Job sets (submit command ``jobset``, USE_JOBSETS), as HTCondor 25.14 keeps them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.access_point import RunningAccessPoint
from tests.support.command import command
from tests.support.execution_point import ExecutionPoint


@pytest.fixture
async def schedd(tmp_path: Path) -> AsyncIterator[RunningAccessPoint]:
    running = await RunningAccessPoint(tmp_path / "pool").start(USE_JOBSETS="true")
    try:
        yield running
    finally:
        await running.stop()


async def sets(schedd: RunningAccessPoint, *words: str) -> list[dict[str, Any]]:
    found = await command(schedd.home.root, "q", "-jobset", "-json", *words)
    ads: list[dict[str, Any]] = json.loads(found.out or "[]")
    return ads


async def test_clusters_of_one_name_are_one_set(schedd: RunningAccessPoint) -> None:
    first = await schedd.submit(2, JobSetName="Alpha")
    second = await schedd.submit(1, JobSetName="alpha")
    third = await schedd.submit(1, JobSetName="Beta", JobStatus=5)
    await schedd.submit(1)
    alpha, beta = await sets(schedd)
    me = schedd.owner
    assert {name: alpha[name] for name in alpha if name != "ServerTime"} == {
        "MyType": "JobSet", "JobSetId": first, "JobSetName": "Alpha", "Owner": me, "User": f"{me}@here",
        "RefCount": 5, "NumJobs": 3, "NumIdle": 3, "NumRunning": 0, "NumHeld": 0, "NumCompleted": 0, "NumRemoved": 0,
        "NumSuspended": 0, "NumSchedulerJobs": 0, "NumSchedulerIdle": 0, "NumSchedulerRunning": 0,
        "NumSchedulerHeld": 0, "NumSchedulerCompleted": 0, "NumSchedulerRemoved": 0,
    }  # fmt: skip
    assert (beta["JobSetId"], beta["NumHeld"], beta["NumIdle"]) == (third, 1, 0)
    ads = {ad["ClusterId"]: (ad.get("JobSetId"), ad.get("JobSetName")) for ad in await schedd.jobs()}
    assert ads[first] == (first, "Alpha") and ads[second] == (first, "alpha") and ads[third] == (third, "Beta")
    assert [ad["JobSetName"] for ad in await sets(schedd, "-constraint", "NumHeld > 0")] == ["Beta"]
    shown = await command(schedd.home.root, "q", "-jobset")
    assert shown.status == 0, shown.err
    assert [line.split() for line in shown.out.splitlines() if "Alpha" in line] == [
        [str(first), "Alpha", me, "0", "0", "3", "0", "0"]
    ]


async def test_a_set_counts_what_left_and_goes_with_its_last_cluster(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    first = await schedd.submit(1, JobSetName="Alpha")
    await schedd.negotiate(point.address)

    async def done() -> bool:
        return not await schedd.jobs(f"ClusterId == {first}")

    second = await schedd.submit(2, JobSetName="Alpha", JobStatus=5)
    await schedd.until(done)
    await schedd.act("REMOVE", f"ClusterId == {second} && ProcId == 0")
    await schedd.kill()
    await schedd.start(USE_JOBSETS="true")
    (alpha,) = await sets(schedd)
    counted = ("JobSetId", "NumJobs", "NumHeld", "TotalCompletedJobs", "TotalRemovedJobs", "RefCount")
    assert [alpha[name] for name in counted] == [first, 1, 1, 1, 1, 2]
    third = await schedd.submit(1, JobSetName="ALPHA")
    assert [ad["JobSetId"] for ad in await schedd.jobs(f"ClusterId == {third}")] == [first]
    await schedd.act("REMOVE", 'JobSetName == "alpha"')
    assert await sets(schedd) == []
    fourth = await schedd.submit(1, JobSetName="Alpha")
    (alpha,) = await sets(schedd)
    assert (alpha["JobSetId"], "TotalCompletedJobs" in alpha) == (fourth, False)


async def test_without_job_sets_submitters_are_told(tmp_path: Path) -> None:
    running = await RunningAccessPoint(tmp_path / "pool").start()
    try:
        cluster = await running.submit(1, JobSetName="Alpha")
        (ad,) = await running.jobs(f"ClusterId == {cluster}")
        assert (ad["JobSetName"], "JobSetId" in ad) == ("Alpha", False)
        assert await sets(running) == []
    finally:
        await running.stop()
