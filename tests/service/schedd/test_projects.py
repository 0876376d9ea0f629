"""Records of projects against a real schedd: counts, limits, refusals, and what is there after a restart."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.access_point import RunningAccessPoint
from tests.support.command import Result, command
from tests.support.execution_point import ExecutionPoint, Script

ON = {"PERSISTENT_PROJECT_RECORDS": "true"}


@pytest.fixture
async def schedd(tmp_path: Path) -> AsyncIterator[RunningAccessPoint]:
    running = await RunningAccessPoint(tmp_path / "pool").start(**ON)
    yield running
    await running.stop()


async def qusers(schedd: RunningAccessPoint, *words: str) -> Result:
    """`qusers -projects` as an administrator."""
    token = schedd.token_file("admin", "ADMINISTRATOR")
    return await command(schedd.home.root, "qusers", "-projects", *words, token=token)


async def listed(schedd: RunningAccessPoint, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await qusers(schedd, "-json", *words)).out)
    # Without what is counted anew from the schedd's start on.
    return [{name: ad[name] for name in ad if not name.startswith(("Hourly", "Daily"))} for ad in found]


async def refused(submission: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await submission
    return str(error.value.details())


async def test_records_are_there_after_a_restart_and_refuse_then(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(exit_code=0)
    await schedd.submit(2, ProjectName="Astro")
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    await schedd.submit(1, ProjectName="ASTRO")
    await schedd.act("REMOVE", "true")
    await schedd.submit(1, ProjectName="astro")
    await qusers(schedd, "-add", "Bio")
    await qusers(schedd, "-disable", "astro", "-reason", "spent", "Grant=12")
    before = await listed(schedd)
    assert [ad["Name"] for ad in before] == ["Astro", "Bio"]
    assert (before[0]["TotalCompletedJobs"], before[0]["TotalRemovedJobs"], before[0]["NumIdle"]) == (2, 1, 1)
    assert (before[0]["Enabled"], before[0]["Grant"], before[0]["MyType"]) == (False, 12, "Project")
    await schedd.stop()
    await schedd.start(**ON)
    assert await listed(schedd) == before
    assert await refused(schedd.submit(ProjectName="aSTRO")) == "Project Astro is suspended : spent"
    await schedd.submit(ProjectName="bio")


async def test_no_more_jobs_of_a_project_run_than_its_record_allows(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    """Whatever the limit of one project, jobs of others run on."""
    point.script = lambda ad: Script(until_killed=True)
    await schedd.submit(2, ProjectName="small")
    await schedd.submit(2, ProjectName="large")
    assert (await qusers(schedd, "-edit", "small", "MaxJobsRunning=1")).status == 0
    assert await schedd.negotiate(point.address) == 3

    async def running(project: str, count: int) -> bool:
        return len(await schedd.jobs(f'JobStatus == 2 && ProjectName == "{project}"')) == count

    await schedd.until(lambda: running("small", 1))
    await schedd.until(lambda: running("large", 2))
    assert await schedd.negotiate(point.address) == 0
    (small,) = await listed(schedd, "small")
    assert (small["NumRunning"], small["NumIdle"], small["MaxJobsRunning"]) == (1, 1, 1)
    assert (await qusers(schedd, "-edit", "small", "MaxJobsRunning=undefined")).status == 0
    assert await schedd.negotiate(point.address) == 1
    await schedd.until(lambda: running("small", 2))


async def test_the_limits_of_user_and_project_both_hold(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(until_killed=True)
    await schedd.submit(3, ProjectName="a")
    await schedd.submit(3, ProjectName="b")
    token = schedd.token_file("admin", "ADMINISTRATOR")
    edit = ("-edit", schedd.owner, "MaxJobsRunning=3")
    assert (await command(schedd.home.root, "qusers", *edit, token=token)).status == 0
    assert (await qusers(schedd, "-edit", "a", "MaxJobsRunning=1")).status == 0

    async def running(count: int) -> bool:
        return len(await schedd.jobs("JobStatus == 2")) == count

    await schedd.negotiate(point.address)
    await schedd.until(lambda: running(3))
    assert len(await schedd.jobs('JobStatus == 2 && ProjectName == "a"')) <= 1


async def test_the_project_of_a_job_in_the_queue_stays(schedd: RunningAccessPoint) -> None:
    await schedd.submit(1, ProjectName="astro")
    token = schedd.token_file("admin", "ADMINISTRATOR")
    done = await command(schedd.home.root, "qedit", "1.0", "ProjectName", '"bio"', token=token)
    assert done.status != 0 and "ProjectName" in done.err
    (job,) = await schedd.jobs()
    assert job["ProjectName"] == "astro"


@pytest.mark.parametrize("name", ['"a\\"b"', '" "', f'"{"x" * 256}"', "1"])
async def test_what_is_no_name_of_a_project_is_refused(schedd: RunningAccessPoint, name: str, tmp_path: Path) -> None:
    file = tmp_path / "job.sub"
    file.write_text(f"executable = /bin/true\nMY.ProjectName = {name}\nqueue\n")
    done = await command(schedd.home.root, "submit", str(file), token=schedd.token_file(schedd.owner))
    assert done.status == 1 and "is not a valid string" in done.err
    assert await listed(schedd) == []


async def test_only_administrators_change_records_of_projects(schedd: RunningAccessPoint) -> None:
    await schedd.submit(ProjectName="astro")
    token = schedd.token_file(schedd.owner)
    shown = await command(schedd.home.root, "qusers", "-projects:also", "-af", "Name", "User", token=token)
    assert shown.out == f"undefined {schedd.owner}@here\nastro undefined\n"
    for words in (("-disable", "astro"), ("-edit", "astro", "MaxJobsRunning=9"), ("-add", "bio")):
        done = await command(schedd.home.root, "qusers", "-projects", *words, token=token)
        assert done.status == 1 and "failed" in done.err
    assert [ad["Name"] for ad in await listed(schedd)] == ["astro"]


async def test_words_that_do_not_go_together_are_refused(schedd: RunningAccessPoint) -> None:
    for words, why in (
        (("-add", 'q"x'), "is not a project's name"),
        (("-add",), "no projects were named"),
        (("-edit", "astro", "MaxJobsRunning=many"), "is not a number of jobs"),
    ):
        done = await qusers(schedd, *words)
        assert done.status == 2 and why in done.err, (words, done)
    token = schedd.token_file("admin", "ADMINISTRATOR")
    for option, why in (("-projects:also", "goes with queries"), ("-projects:only", "can only be also")):
        done = await command(schedd.home.root, "qusers", option, "-add", "astro", token=token)
        assert done.status == 2 and why in done.err


async def test_without_the_knob_projects_are_names_alone_and_get_records_once_it_is_set(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start()
    try:
        await schedd.submit(1, ProjectName="Astro")
        await schedd.submit(2, ProjectName="ASTRO")
        for words in ((), ("-add", "astro")):
            done = await qusers(schedd, *words)
            assert done.status == 2 and "PERSISTENT_PROJECT_RECORDS" in done.err
        assert [job["ProjectName"] for job in await schedd.jobs()] == ["Astro", "ASTRO", "ASTRO"]
        await schedd.stop()
        await schedd.start(**ON)
        (ad,) = await listed(schedd)
        assert ad["Name"].lower() == "astro" and ad["NumIdle"] == 3
    finally:
        await schedd.stop()
