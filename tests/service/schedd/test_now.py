"""Jobs that start at once in the place of others. The texts of refusals are those of HTCondor 25.14.1's schedd."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import htcondor2
import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.schedd.lifecycle.claim_states import Idle
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script


@pytest.fixture
def forever(point: ExecutionPoint) -> ExecutionPoint:
    """An execution point on which jobs run until they are vacated."""
    point.script = lambda ad: Script(until_killed=True)
    return point


async def run_now(schedd: RunningAccessPoint, job: str, *vacate: str, user: str = "") -> str:
    """Ask for it; "" or why it was refused."""
    metadata = schedd.as_user(user) if user else schedd.user
    try:
        await schedd.stub.RunNow(schedd_pb2.RunNowRequest(job=job, vacate=vacate), metadata=metadata)
    except grpc.aio.AioRpcError as error:
        return (error.details() or "").removesuffix(" (jobs are named by CLUSTER.PROC)")
    return ""


async def status(schedd: RunningAccessPoint) -> dict[str, int]:
    return {f"{ad['ClusterId']}.{ad['ProcId']}": ad["JobStatus"] for ad in await schedd.jobs()}


async def start(schedd: RunningAccessPoint, point: ExecutionPoint, running: int, **attributes: Any) -> int:
    """Jobs that run on all slots of the point, with as many as that running."""
    point.slots = running
    cluster = await schedd.submit(running, **attributes)
    await schedd.negotiate(point.address, slots=running)

    async def executing() -> bool:
        return sum(run.executing_at > 0 for run in schedd.point.claiming.claim_table.runs.values()) == running

    await schedd.until(executing)
    return cluster


async def until_running(schedd: RunningAccessPoint, job: str) -> None:
    async def runs() -> bool:
        return (await status(schedd))[job] == 2

    await schedd.until(runs)


async def test_a_job_takes_the_claim_of_a_running_one(
    schedd: RunningAccessPoint, forever: ExecutionPoint, tmp_path: Path
) -> None:
    first = await start(schedd, forever, 1, UserLog=str(tmp_path / "log"))
    better = await schedd.submit(1, JobPrio=100)
    chosen = await schedd.submit(1, UserLog=str(tmp_path / "log"))
    assert await run_now(schedd, f"{chosen}.0", f"{first}.0") == ""
    await until_running(schedd, f"{chosen}.0")
    assert await status(schedd) == {f"{first}.0": 1, f"{better}.0": 1, f"{chosen}.0": 2}
    assert forever.releases == [] and len(forever.claims) == 1

    def story() -> list[tuple[int, int]]:
        events = htcondor2.JobEventLog(str(tmp_path / "log")).events(stop_after=0)
        return [(event.cluster, int(event.type)) for event in events if int(event.type) not in (40, 6)]

    # Jobs run a moment before that is durable, and logged.
    await schedd.until(lambda: (chosen, 1) in story())
    assert story() == [(first, 0), (first, 1), (chosen, 0), (first, 4), (chosen, 1)]


async def test_several_slots_become_one(schedd: RunningAccessPoint, forever: ExecutionPoint) -> None:
    first = await start(schedd, forever, 3)
    large = await schedd.submit(1, RequestCpus=2, Requirements=ExprTree("TARGET.Cpus >= RequestCpus"))
    table = schedd.point.claiming.claim_table
    assert "does not match slot1_1" in await run_now(schedd, f"{large}.0", f"{first}.0")
    assert (await status(schedd))[f"{first}.0"] == 2
    assert await run_now(schedd, f"{large}.0", f"{first}.0", f"{first}.1") == ""
    await until_running(schedd, f"{large}.0")
    assert await status(schedd) == {f"{first}.0": 1, f"{first}.1": 1, f"{first}.2": 2, f"{large}.0": 2}
    assert len(table.claims) == 2 == len(forever.claims)
    assert {claim.slot["Cpus"] for claim in table.claims.values()} == {1, 2}
    store = schedd.point.store
    await schedd.until(lambda: asyncio.to_thread(lambda: len(store._load(store.reader()).claims) == 2))


async def test_claims_are_given_back_that_cannot_become_one(
    schedd: RunningAccessPoint, forever: ExecutionPoint
) -> None:
    first = await start(schedd, forever, 2)
    large = await schedd.submit(1)
    forever.refuse_claims = True
    assert await run_now(schedd, f"{large}.0", f"{first}.0", f"{first}.1") == ""

    async def given_back() -> bool:
        return not schedd.point.claiming.claim_table.claims and len(forever.releases) == 2

    await schedd.until(given_back)
    assert set((await status(schedd)).values()) == {1}
    runnable = schedd.point.queue.runnable
    assert [runnable.count(name) for name in runnable.submitters()] == [3], runnable.submitters()


async def test_no_other_job_uses_a_claim_that_waits_to_become_part_of_a_larger_slot(
    schedd: RunningAccessPoint, forever: ExecutionPoint
) -> None:
    slow = 1
    ends = asyncio.Event()
    live = forever.live

    async def lives(run: object, side: object) -> None:
        if run.run_id.partition("#")[0].endswith(f".{slow}"):  # type: ignore[attr-defined]
            run.killed.wait = ends.wait  # type: ignore[attr-defined]
        await live(run, side)  # type: ignore[arg-type]

    forever.live = lives  # type: ignore[method-assign]
    first = await start(schedd, forever, 2)
    large = await schedd.submit(1)
    assert await run_now(schedd, f"{large}.0", f"{first}.0", f"{first}.1") == ""
    table = schedd.point.claiming.claim_table

    async def pledged() -> bool:
        return any(isinstance(claim.state, Idle) and claim.state.pledged for claim in table.claims.values())

    await schedd.until(pledged)
    refused = await run_now(schedd, f"{large}.0", f"{first}.1")
    assert refused == "the now-job must not already be scheduled to run immediately"
    other = await schedd.submit(1, JobPrio=1000)
    schedd.point.claiming.idle.use()
    assert (await status(schedd))[f"{other}.0"] == 1
    ends.set()
    await until_running(schedd, f"{large}.0")
    assert (await status(schedd))[f"{other}.0"] == 1


async def test_jobs_that_take_too_long_to_end_do_not_make_room(
    tmp_path: Path,
) -> None:
    running = await RunningAccessPoint(tmp_path / "pool").start(SCHEDD_NOW_JOB_VACATE_TIMEOUT="0")
    point = ExecutionPoint(tmp_path / "ep.sock", running.daemon_token)
    point.script = lambda ad: Script(until_killed=True)
    await point.start()
    try:
        first = await start(running, point, 1)
        better, chosen = await running.submit(1, JobPrio=100), await running.submit(1)
        assert await run_now(running, f"{chosen}.0", f"{first}.0") == ""
        await until_running(running, f"{better}.0")
        assert (await status(running))[f"{chosen}.0"] == 1
    finally:
        await point.stop()
        await running.stop()


async def test_refusals(schedd: RunningAccessPoint, forever: ExecutionPoint) -> None:
    first = await start(schedd, forever, 1)
    waiting = await schedd.submit(2)
    limited = await schedd.submit(1, ConcurrencyLimits="licence")
    local = await schedd.submit(1, JobUniverse=12, JobStatus=5)
    before = await status(schedd)
    assert await run_now(schedd, "99.0", f"{first}.0") == "no such job (now-job)"
    assert await run_now(schedd, f"{waiting}", f"{first}.0") == "no such job (now-job)"
    assert await run_now(schedd, f"{first}.0", f"{waiting}.0") == "the now-job must be idle"
    assert await run_now(schedd, f"{waiting}.0", f"{waiting}.1") == "vacate-job must be running"
    assert await run_now(schedd, f"{waiting}.0", "99.0") == "no such job (vacate-job)"
    assert await run_now(schedd, f"{waiting}.0") == "missing vacate-job ID"
    assert await run_now(schedd, f"{local}.0", f"{first}.0") == "the now-job must be in the vanilla universe"
    assert await run_now(schedd, f"{waiting}.0", f"{local}.0") == "vacate-job must be in the vanilla universe"
    assert "same concurrency limits" in await run_now(schedd, f"{limited}.0", f"{first}.0")
    assert await status(schedd) == before


async def test_jobs_of_others_are_left_alone(schedd: RunningAccessPoint, forever: ExecutionPoint) -> None:
    """Not even a queue superuser gives the claim of one user to another."""
    first = await start(schedd, forever, 1)
    waiting = await schedd.submit(1)
    assert await run_now(schedd, f"{waiting}.0", f"{first}.0", user="mallory") == "you must own the now-job"
    assert set((await status(schedd)).values()) == {1, 2}


def test_the_sum_of_slots_has_what_they_have_together() -> None:
    from slotwise.schedd.api.now_requests import _sum
    from slotwise.table import pack_ads

    ad = ClassAd({"MachineResources": "Cpus Memory GPUs", "Cpus": 1, "Memory": 100, "GPUs": 1, "Name": "a"})
    whole = _sum([pack_ads([ad]), pack_ads([ad])])
    assert (whole["Cpus"], whole["Memory"], whole["GPUs"], whole["Name"]) == (2, 200, 2, "a")
