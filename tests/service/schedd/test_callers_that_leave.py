"""Callers that go away while the disk works: what they asked for happens all the same, and wholly."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from slotwise.classad import ClassAd
from slotwise.clock import SystemClock
from slotwise.daemon.questions import Questions
from slotwise.schedd.api.job_actions import Actions
from slotwise.schedd.api.requests import Action, JobAction
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.selection import JobSelection
from slotwise.schedd.submission.convert import submitted_cluster
from slotwise.table import pack_ads
from slotwise.wire.gen import schedd_pb2
from slotwise.wire.security import Identity

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script


@contextlib.asynccontextmanager
async def disk_at_work(schedd: RunningAccessPoint) -> AsyncIterator[None]:
    """Nothing becomes durable meanwhile: somebody else holds the database's lock."""
    other = sqlite3.connect(schedd.point.store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("COMMIT")
        other.close()


async def abandoned(
    schedd: RunningAccessPoint, asked: Coroutine[Any, Any, Any], decided: Callable[[], bool] = lambda: True
) -> None:
    """Ask, and leave before the answer, once it is ``decided``."""
    async with disk_at_work(schedd):
        task = asyncio.create_task(asked)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await schedd.until(decided)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_submission_that_is_durable_is_in_the_queue(schedd: RunningAccessPoint, tmp_path: Path) -> None:
    job = {"Cmd": "/bin/true", "Iwd": str(tmp_path), "JobUniverse": 5, "Requirements": True, "UserLog": "job.log"}
    ad = ClassAd(job)
    cluster = schedd_pb2.ClusterSubmission(cluster_ad=pack_ads([ad]), procs=schedd_pb2.ProcBatch(count=2))
    submissions = schedd.point.submissions
    await abandoned(schedd, submissions.submit(schedd.owner, [submitted_cluster(cluster)], key=b"mine"))

    async def there() -> bool:
        return len(await schedd.jobs()) == 2

    await schedd.until(there)
    again = await submissions.submit(schedd.owner, [submitted_cluster(cluster)], key=b"mine", again=True)
    assert [one.num_procs for one in again.clusters] == [2]
    assert len(await schedd.jobs()) == 2
    assert schedd.point.queue.runnable.count(f"{schedd.owner}@here") == 2


async def test_a_removal_ends_the_run(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(until_killed=True)
    await schedd.submit(UserLog="job.log")
    await schedd.negotiate(point.address)

    async def runs() -> bool:
        return any("JobCurrentStartExecutingDate" in ad for ad in await schedd.jobs())

    await schedd.until(runs)
    of = schedd.point
    clock = SystemClock()
    questions = Questions(clock)
    actions = Actions(
        of.queue, of.ads, of.committer, of.claiming.activation, clock, of.materializer, questions, of.local
    )
    request = JobAction(Action.REMOVE, JobSelection(constraint="true"))
    caller = Identity(f"{schedd.owner}@here", frozenset({"WRITE"}))

    def removed() -> bool:
        return all(job.status == Status.REMOVED for job in of.queue.jobs())

    await abandoned(schedd, actions.act(caller, request, False), removed)
    await schedd.until_gone()
    assert [ad["JobStatus"] for ad in await schedd.history()] == [3]
