"""Slotwise from Python: blocking and asyncio clients against a real schedd."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from slotwise.classad import ExprTree
from slotwise.client import AsyncSchedd, Schedd
from slotwise.errors import SubmitError, UsageError

from tests.support.access_point import RunningAccessPoint

T = TypeVar("T")
JOB = {"executable": "/bin/true", "transfer_executable": False}


async def blocking(schedd: RunningAccessPoint, work: Callable[[Schedd], T]) -> T:
    """Run ``work`` with a blocking client in a thread."""
    token = schedd.token_file(schedd.owner).read_text()

    def run() -> T:
        with Schedd(schedd.home.root, token=token) as client:
            return work(client)

    return await asyncio.to_thread(run)


async def test_submit_query_act_and_edit(schedd: RunningAccessPoint) -> None:
    def work(client: Schedd) -> Any:
        made = client.submit({**JOB, "arguments": "$(Process)", "request_memory": "64"}, count=3)
        assert made.count == 3
        ads = client.query(f"ClusterId == {made.cluster}", ["ProcId", "Args", "Arguments"])
        assert [ad["ProcId"] for ad in ads] == [0, 1, 2]
        assert client.act("hold", f"{made.cluster}.1", reason="later").succeeded == 1
        assert client.act("release", "JobStatus == 5").totals == {"success": 1}
        edited = client.edit([f"{made.cluster}.0"], {"My": "text", "Other": ExprTree("1 + 2"), "Flag": True})
        assert edited.succeeded == 1
        (ad,) = client.query("Flag")
        assert (ad["My"], ad.eval("Other")) == ("text", 3)
        assert client.act("remove", "true").succeeded == 3
        return client.history(limit=2)

    history = await blocking(schedd, work)
    assert [ad["JobStatus"] for ad in history] == [3, 3]


async def test_many_submissions_get_a_cluster_each(schedd: RunningAccessPoint) -> None:
    def work(client: Schedd) -> tuple[list[int], int]:
        made = [one.cluster for one in client.submit_many([JOB] * 100)]
        return made, len(client.query("true", ["ClusterId"]))

    clusters, queued = await blocking(schedd, work)
    assert len(set(clusters)) == len(clusters) == queued == 100


async def test_cluster_ids_in_a_description_are_reserved_first(schedd: RunningAccessPoint) -> None:
    def work(client: Schedd) -> tuple[int, Any]:
        made = client.submit({**JOB, "output": "out.$(Cluster)"})
        return made.cluster, client.query()[0]["Out"]

    cluster, out = await blocking(schedd, work)
    assert out == f"out.{cluster}"


async def test_errors_are_ours(schedd: RunningAccessPoint) -> None:
    def work(client: Schedd) -> None:
        with pytest.raises(SubmitError):
            client.submit({"executable": "/no/such/program"})
        with pytest.raises(UsageError):
            client.act("explode", "true")

    await blocking(schedd, work)


async def test_the_asyncio_client(schedd: RunningAccessPoint) -> None:
    token = schedd.token_file(schedd.owner).read_text()
    async with AsyncSchedd(schedd.home.root, token=token) as client:
        made = await asyncio.gather(*(client.submit(JOB) for _ in range(20)))
        assert len({one.cluster for one in made}) == 20
        assert len(await client.query()) == 20
        assert (await client.edit("true", {"Note": 1})).succeeded == 20
        assert (await client.act("remove", "Note == 1")).succeeded == 20
        assert len(await client.history(limit=5)) == 5
