"""Records of users: `qusers` against a real schedd, what it prints, and what the records do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.access_point import RunningAccessPoint
from tests.support.command import Result, command
from tests.support.execution_point import ExecutionPoint, Script


@pytest.fixture
async def admin(schedd: RunningAccessPoint) -> Any:
    """Runs `qusers` as an administrator."""
    token = schedd.token_file("admin", "ADMINISTRATOR")

    async def run(*words: str) -> Result:
        return await command(schedd.home.root, "qusers", *words, token=token)

    return run


async def refused(submission: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await submission
    return str(error.value.details())


async def listed(admin: Any, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await admin("-json", *words)).out)
    # Without what is counted anew from the schedd's start on.
    return [{name: ad[name] for name in ad if not name.startswith(("Hourly", "Daily"))} for ad in found]


async def test_whoever_submits_has_a_record_that_counts_jobs(schedd: RunningAccessPoint, admin: Any) -> None:
    assert await listed(admin) == []
    await schedd.submit(3)
    await schedd.act("HOLD", "ProcId == 0")
    (ad,) = await listed(admin)
    me = schedd.owner
    assert (ad["User"], ad["Owner"], ad["OsUser"], ad["MyType"]) == (f"{me}@here", me, me, "Owner")
    assert (ad["Enabled"], ad["NumJobs"], ad["NumIdle"], ad["NumHeld"], ad["NumRunning"]) == (True, 3, 2, 1, 0)
    heading, row = (await admin()).out.splitlines()
    assert " ".join(heading.split()) == "USER OS_USER ENABLED MAX_RUN JOBS:Idle Running Held Removed Completed"
    assert row.split() == [f"{me}@here", me, "yes", "default", "2", "0", "1", "0", "0"]


async def test_a_disabled_user_is_refused_with_the_reason(schedd: RunningAccessPoint, admin: Any) -> None:
    me = schedd.owner
    await schedd.submit()
    done = await admin("-disable", me, "-reason", "talk to admin")
    assert (done.status, done.out) == (0, "disable succeeded: 1 users\n")
    assert await refused(schedd.submit()) == f"User {me}@here is disabled : talk to admin"
    assert (await admin("-af", "Enabled", "DisableReason")).out == "false talk to admin\n"
    assert len(await schedd.jobs()) == 1, "jobs in the queue stay"
    assert (await admin("disable", f"{me}@here")).status == 0
    assert (await admin("-enable", f"{me}@HERE")).status == 0
    assert (await admin("-af", "Enabled", "DisableReason")).out == "true undefined\n"
    await schedd.submit()


async def test_who_has_no_record_is_refused_where_only_known_users_submit(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(ALLOW_SUBMIT_FROM_KNOWN_USERS_ONLY="true")
    token = schedd.token_file("admin", "ADMINISTRATOR")
    try:
        assert (await refused(schedd.submit())).startswith(f"Unknown User {schedd.owner}@here.")
        assert (await command(schedd.home.root, "qusers", "-add", schedd.owner, token=token)).status == 0
        await schedd.submit()
    finally:
        await schedd.stop()


async def test_names_constraints_and_edits(schedd: RunningAccessPoint, admin: Any) -> None:
    assert (await admin("-add", "bob", "carol@other.org")).out == "add succeeded: 2 users\n"
    assert (await admin("-user", "bob", "-edit", 'Department="Math"', "A=1+1", "Owner=3", "NumJobs=9")).err == (
        "WARNING: not changed, as they are reserved: NumJobs, Owner\n"
    )
    assert (await admin("-const", 'Department == "Math"', "-af:r", "A", "NumJobs")).out == ("1 + 1 0\n")
    assert (await admin("-const", "true", "-edit", "A=delete")).out == "edit succeeded: 2 users\n"
    assert (await admin("CAROL", "-af", "User", "A", "OsUser")).out == "carol@other.org undefined \n"
    for words, status, why in (
        (["-disable", "bob", "dave"], 2, "there is no record of user dave@here"),
        (["-enable", "dave"], 2, "there is no record of user dave@here"),
        (["-add", "x y"], 2, "is not a user's name"),
        (["-add", 'a"b@here'], 2, "is not a user's name"),
        (["-edit", "A=1"], 2, "no users were named"),
        (["-edit", "bob"], 2, "no attributes were given"),
        (["-edit", "bob", "A=(("], 1, "expected a value"),
        (["-edit", "bob", "a b=1"], 2, "is not an attribute name"),
        (["-edit", "bob", "MaxJobsRunning=many"], 2, "is not a number of jobs"),
        (["-add", "-const", "true"], 2, "must be named"),
        (["-enable", "bob", "-reason", "x"], 2, "-reason goes with"),
        (["-add", "x", "-disable"], 2, "exclude each other"),
        (["-projects"], 2, "no records of projects"),
    ):
        result = await admin(*words)
        assert result.status == status and why in result.err, (words, result)
    assert (await admin("-af", "User", "Enabled")).out == "bob@here true\ncarol@other.org true\n"


async def test_only_administrators_change_records(schedd: RunningAccessPoint) -> None:
    await schedd.submit()
    token = schedd.token_file(schedd.owner)
    shown = await command(schedd.home.root, "qusers", "-af", "User", token=token)
    assert shown.out == f"{schedd.owner}@here\n"
    changed = await command(schedd.home.root, "qusers", "-edit", schedd.owner, "MaxJobsRunning=9", token=token)
    assert changed.status == 1 and "edit failed" in changed.err


async def test_a_record_in_use_is_disabled_and_any_other_is_removed(schedd: RunningAccessPoint, admin: Any) -> None:
    await schedd.submit()
    await admin("-add", "bob")
    assert (await admin("-remove", "bob", schedd.owner)).status == 0
    assert (await admin("-af", "User", "Enabled")).out == f"{schedd.owner}@here false\n"


async def test_records_and_what_jobs_used_are_there_after_a_restart(
    schedd: RunningAccessPoint, admin: Any, point: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(exit_code=0)
    await schedd.submit(2)
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    await schedd.submit(1)
    await schedd.act("REMOVE", "true")
    await admin("-disable", schedd.owner, 'Color="blue"', "-reason", "why")
    await admin("-add", "bob")
    await admin("-edit", "bob", "MaxJobsRunning=7")
    before = await listed(admin)
    assert [(ad["User"], ad.get("MaxJobsRunning")) for ad in before] == [
        ("bob@here", 7),
        (f"{schedd.owner}@here", None),
    ]
    assert (before[1]["TotalCompletedJobs"], before[1]["TotalRemovedJobs"], before[1]["Color"]) == (2, 1, "blue")
    assert "CompletedJobsCpuTime" in before[1]
    assert "Completed" in (await admin("-usage")).out
    await schedd.stop()
    await schedd.start()
    assert await listed(admin) == before
    assert "why" in await refused(schedd.submit())


async def test_no_more_jobs_run_than_the_record_of_their_user_allows(
    schedd: RunningAccessPoint, admin: Any, point: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(until_killed=True)
    await schedd.submit(4)
    assert (await admin("-edit", schedd.owner, "MaxJobsRunning=2")).status == 0
    assert await schedd.negotiate(point.address) == 2, "no more are asked for"

    async def running(count: int) -> bool:
        return len(await schedd.jobs("JobStatus == 2")) == count

    await schedd.until(lambda: running(2))
    assert await schedd.negotiate(point.address) == 0
    assert (await admin("-edit", schedd.owner, "MaxJobsRunning=undefined")).status == 0
    assert await schedd.negotiate(point.address) == 2
    await schedd.until(lambda: running(4))


async def test_a_claim_is_not_used_beyond_the_limit(
    schedd: RunningAccessPoint, admin: Any, point: ExecutionPoint
) -> None:
    """Of a claim's jobs one after another runs, however many matches come."""
    point.script = lambda ad: Script(exit_code=0)
    await schedd.submit(3)
    assert (await admin("-suspend", schedd.owner)).status == 0
    assert "disabled" in await refused(schedd.submit())
    assert await schedd.negotiate(point.address) == 0
    assert (await admin("-unsuspend", schedd.owner)).status == 0
    await admin("-edit", schedd.owner, "MaxJobsRunning=1")
    assert await schedd.negotiate(point.address) == 1
    await schedd.until_gone()


async def test_a_user_who_is_named_twice_is_changed_once(schedd: RunningAccessPoint, admin: Any) -> None:
    assert (await admin("-add", "bob", "bob@here", "carol")).out == "add succeeded: 2 users\n"
    assert (await admin("-remove", "bob", "bob@HERE")).out == "remove succeeded: 1 users\n"
    assert [ad["User"] for ad in await listed(admin)] == ["carol@here"]


async def test_daily_shows_what_the_jobs_of_users_did_of_late(
    schedd: RunningAccessPoint, admin: Any, point: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(exit_code=0)
    await schedd.submit(2)
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    (ad,) = json.loads((await admin("-json")).out)
    assert sum(ad["HourlyJobsLaunched"]) == 2 and ad["HourlyStatsUnitSize"] == 4 * 3600
    assert "HourlyJobsHeld" not in ad
    heading, name, *spans = (await admin("-daily")).out.splitlines()
    assert heading.split() == ["Name", "Launched", "NoExec", "Requeued", "Held", "SlotHours", "IdleWeight"]
    assert name.strip() == f"{schedd.owner}@here"
    assert spans[-1].split()[:4] == ["last", "0.0", "hrs", "2"] or len(spans) > 1, "a span of four hours may end here"


async def test_daily_counts_time_on_slots_and_the_cores_that_idle_jobs_want(
    schedd: RunningAccessPoint, admin: Any, point: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(until_killed=True)
    await schedd.submit(1)
    await schedd.negotiate(point.address)

    async def runs() -> bool:
        return bool(await schedd.jobs("JobStatus == 2"))

    await schedd.until(runs)
    await schedd.submit(2, RequestCpus=3)

    async def measured() -> bool:
        (ad,) = json.loads((await admin("-json")).out)
        return sum(ad.get("HourlyJobsSlotTime", [0])) >= 1 and sum(ad.get("HourlyJobsWeightedIdle", [0])) > 0

    await schedd.until(measured)
    await schedd.act("HOLD", "JobStatus == 2")
    done = await admin("-daily:yearly")
    assert done.status == 2 and "can only be rescale" in done.err
    assert "HourlyJobsHeld" not in json.loads((await admin("-json")).out)[0]
