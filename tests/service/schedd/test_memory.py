"""Memory goes back when many jobs have left, and what is still there is as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script


async def test_tables_shrink_and_keep_what_is_left(
    schedd: RunningAccessPoint, point: ExecutionPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = await schedd.submit(procs=[{"Arguments": f"{n}"} for n in range(20_000)])
    few = await schedd.submit(procs=[{"Arguments": f"few{n}"} for n in range(5)])
    memory, ads = schedd.point.memory, schedd.point.ads
    assert not memory.look(), "the queue is as long as it ever was"
    looks, look = [], memory.look
    monkeypatch.setattr(memory, "look", lambda: looks.append(look()))  # the schedd looks now and then, too
    schedd.point.requests.assign()
    former = ads.table.memory_bytes
    request = schedd_pb2.ActRequest(
        action=schedd_pb2.ActRequest.REMOVE,
        jobs=schedd_pb2.JobSelection(constraint=f"ClusterId == {large} && ProcId != 7"),
    )
    await schedd.stub.Act(request, metadata=schedd.user)

    async def few_are_left() -> bool:
        return len(await schedd.jobs()) == 6

    await schedd.until(few_are_left)  # an action on so many jobs goes on after its answer
    memory.look()
    memory.look()
    assert True in looks and not looks[-1], "and then there is nothing left to give back"
    assert ads.table.memory_bytes < former / 20
    left = sorted((ad["ClusterId"], ad["ProcId"], ad["Arguments"]) for ad in await schedd.jobs())
    assert left == [(large, 7, "7"), *((few, n, f"few{n}") for n in range(5))]
    point.script = lambda ad: Script()
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    assert len(point.history) == 6


async def test_nothing_is_kept_of_clusters_and_runs_that_left(
    schedd: RunningAccessPoint, point: ExecutionPoint, tmp_path: Path
) -> None:
    for _ in range(3):
        await schedd.submit(4, Environment="A=$$(Name)")
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    ads, starters = schedd.point.ads, schedd.point.claiming.starters
    assert not ads._dollars and not ads._plain_exit
    assert not any(starters._listed.values())
    assert not schedd.point.claiming.claim_table.runs
