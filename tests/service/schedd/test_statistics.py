"""Statistics in the ads of the schedd and its submitters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from slotwise.daemon import duty_cycle
from slotwise.model.publication import Publication
from slotwise.model.windows import Window

from tests.service.schedd.test_commands import run
from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script


async def test_the_ends_of_runs_are_counted_as_in_htcondor(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    """Two complete, one is removed while it runs, one goes back to the queue by its exit policy."""
    await schedd.submit(2)
    await schedd.submit(1, OnExitRemove=False, OnExitHold=True)
    assert await schedd.negotiate(point.address) == 3

    async def over() -> bool:
        return [ad["JobStatus"] for ad in await schedd.jobs()] == [5]

    await schedd.until(over)
    point.script = lambda ad: Script(until_killed=True)
    cluster = await schedd.submit(1)
    await schedd.negotiate(point.address)

    async def runs() -> bool:
        return [ad["JobStatus"] for ad in await schedd.jobs(f"ClusterId == {cluster}")] == [2]

    await schedd.until(runs)
    ad: Mapping[str, Any] = schedd.point.own_ads.scheduler()
    assert (ad["ShadowsRunning"], ad["JobsRunning"] > 0 or ad["ShadowsRunningPeak"] >= 1) == (1, True)
    await schedd.act("REMOVE", f"ClusterId == {cluster}")

    async def removed() -> bool:
        return not await schedd.jobs(f"ClusterId == {cluster}")

    await schedd.until(removed)
    ad = schedd.point.own_ads.scheduler()
    counted = {
        "JobsSubmitted": 4, "JobsStarted": 4, "JobsExited": 4, "JobsCompleted": 2, "JobsExitedNormally": 2,
        "JobsShouldHold": 1, "JobsKilled": 1, "JobsShouldRemove": 0, "JobsExitException": 0, "ShadowsStarted": 4,
        "ShadowsRunning": 0,
    }  # fmt: skip
    assert {name: ad[name] for name in counted} == counted
    del counted["ShadowsRunning"]
    assert {name: ad[f"Recent{name}"] for name in counted} == counted
    assert ad["JobsCompletedRuntimes"] == "2" + ", 0" * 14
    assert ad["JobsBadputRuntimes"] == "2" + ", 0" * 14
    await schedd.submit(1)
    submitters = schedd.point.own_ads.advertised()["Submitter"]
    (own,) = submitters.values()
    assert (own["JobsCompleted"], own["RecentJobsKilled"], own["IdleJobs"]) == (2, 1, 1)
    assert "JobsShouldHold" not in own, "as in HTCondor, of the schedd's ad alone"


@pytest.mark.parametrize(
    ("knob", "has", "lacks"),
    [
        ("NONE", set(), {"JobsCompleted", "RecentJobsCompleted", "TransferQueueNumUploading"}),
        ("SCHEDD:1!R", {"JobsCompleted"}, {"RecentJobsCompleted", "FileTransferUploadBytes"}),
        ("TRANSFER", {"FileTransferUploadBytes_", "TransferQueueMaxUploading"}, {"JobsCompleted"}),
        ("ALL:2", {"JobsCompleted", "RecentWindowMax", "TransferQueueMaxUploading"}, set()),
    ],
)
async def test_only_what_is_to_be_published_is(knob: str, has: set[str], lacks: set[str], tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(STATISTICS_TO_PUBLISH=knob)
    try:
        ad: Mapping[str, Any] = schedd.point.own_ads.scheduler()
        assert {name for name in has if not name.endswith("_")} <= set(ad)
        assert not lacks & set(ad)
        assert "TotalRunningJobs" in ad
    finally:
        await schedd.stop()


async def test_the_loop_knows_how_busy_it_is() -> None:
    duty = duty_cycle.DutyCycle()
    assert duty.attributes(10.0) == {}
    duty.begin(10.0)
    assert set(duty.attributes(19.0).values()) == {0.0}, "it starts"
    duty.waited = 5.0
    assert duty.attributes(20.0) == {"DaemonCoreDutyCycle": 0.5, "RecentDaemonCoreDutyCycle": 0.5}
    duty.follow(Window(240, 240))
    duty.waited += 40.0
    assert duty.attributes(60.0) == {"DaemonCoreDutyCycle": 0.1, "RecentDaemonCoreDutyCycle": 0.0}
    assert duty.attributes(2000.0)["RecentDaemonCoreDutyCycle"] == 1.0


def test_waiting_is_counted_by_the_loop_of_a_daemon() -> None:
    async def wait() -> None:
        await asyncio.sleep(0.05)

    before = duty_cycle.duty.waited
    with asyncio.Runner(loop_factory=duty_cycle.loop) as runner:
        runner.run(wait())
    assert duty_cycle.duty.waited - before >= 0.04


async def test_the_ad_is_written_from_time_to_time(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(SCHEDD_HISTORY_RECORD_INTERVAL="0.2")
    path = schedd.home.spool / "schedd_daemon_history"
    try:

        async def written() -> bool:
            return path.exists() and path.read_text().count("*** SCHEDD CurrentTime=") >= 3

        await schedd.until(written)
        found = await run(schedd, "history", "-daemon", "-limit", "1", "-af", "TotalHeldJobs", "JobsStarted", "MyType")
        assert found.out == "0 0 Scheduler\n"
        lines = (await run(schedd, "history", "-daemon", "-limit", "2")).out.splitlines()
        assert len(lines) == 3 and "DUTY_CYCLE" in lines[0]
    finally:
        await schedd.stop()
    assert path.stat().st_mode & 0o777 == 0o600


def test_statistics_of_the_category_dc_are_shown_when_they_are_asked_for() -> None:
    duty = duty_cycle.DutyCycle()
    duty.begin(10.0)
    duty.waited = 5.0
    assert "DCStatsLifetime" not in duty.attributes(20.0)
    shown = duty.attributes(20.0, Publication(2))
    names = ("DCStatsLifetime", "DCRecentStatsLifetime", "DCRecentWindowMax", "DCSelectWaittime")
    assert [shown[name] for name in names] == [10, 10, 1200, 5.0]
    only = duty.attributes(20.0, Publication(0, recent=False, listed=frozenset({"dcselectwaittime"})))
    assert (only["DCSelectWaittime"], "RecentDCSelectWaittime" in only, "DCStatsLifetime" in only) == (
        5.0,
        False,
        False,
    )
