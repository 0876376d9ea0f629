"""Late materialization: jobs are made as others leave or start, durably, with their events."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import htcondor2
from slotwise.client import Schedd
from slotwise.table import unpack_ads
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script

DIFFERENT = [{"Arguments": f"{n}"} for n in range(12)]


def events_of(schedd: RunningAccessPoint, name: str = "job.log") -> list[tuple[int, int]]:
    log = htcondor2.JobEventLog(str(schedd.home.root / name))
    return [(int(event.type), event.proc) for event in log.events(stop_after=0)]


async def act(schedd: RunningAccessPoint, action: Any, **selection: Any) -> dict[str, int]:
    request = schedd_pb2.ActRequest(action=action, jobs=schedd_pb2.JobSelection(**selection))
    return dict((await schedd.stub.Act(request, metadata=schedd.user)).totals)


async def procs(schedd: RunningAccessPoint) -> list[int]:
    return sorted(ad["ProcId"] for ad in await schedd.jobs())


async def until_procs(schedd: RunningAccessPoint, wanted: list[int]) -> None:
    async def there() -> bool:
        return await procs(schedd) == wanted

    await schedd.until(there)


async def test_jobs_are_made_as_others_leave(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    seen: list[int] = []

    def script(ad: Any) -> Script:
        seen.append(len(schedd.point.queue.clusters[1].jobs))
        return Script(outputs={"_condor_stdout": ad["Arguments"].encode()})

    point.script = script
    cluster = await schedd.submit(
        procs=[{"Arguments": f"{n}", "Out": f"out.{n}"} for n in range(12)], JobMaterializeLimit=3, UserLog="job.log"
    )
    await until_procs(schedd, [0, 1, 2])
    (ad, *_) = await schedd.jobs()
    assert ad["TotalSubmitProcs"] == 12
    assert ad["JobMaterializeDate"] >= ad["QDate"]
    await schedd.negotiate(point.address)

    async def all_left() -> bool:
        await schedd.negotiate(point.address)
        return not schedd.point.queue.clusters

    await schedd.until(all_left)
    assert max(seen) == 3, "never more than max_materialize in the queue"
    history = await schedd.history()
    assert sorted(ad["ProcId"] for ad in history) == list(range(12))
    assert all(ad["ClusterId"] == cluster for ad in history)
    assert [(schedd.home.root / f"out.{n}").read_text() for n in range(12)] == [f"{n}" for n in range(12)]
    await schedd.point.committer._idle.wait()
    found = events_of(schedd)
    assert found[0] == (35, -1)
    assert found[-1] == (36, -1)
    assert sorted(proc for kind, proc in found if kind == 0) == list(range(12))
    assert sorted(proc for kind, proc in found if kind == 5) == list(range(12))
    text = (schedd.home.root / "job.log").read_text()
    assert "Materialized 12 jobs from 12 items.\tComplete" in text


async def test_max_idle_counts_jobs_that_do_not_run(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(until_killed=True)
    point.slots = 3
    await schedd.submit(procs=DIFFERENT, JobMaterializeMaxIdle=2)
    await until_procs(schedd, [0, 1])
    assert await act(schedd, schedd_pb2.ActRequest.HOLD, ids=["1.0"]) == {"success": 1}
    await schedd.negotiate(point.address)
    await until_procs(schedd, [0, 1, 2])  # held and idle ones are two again
    await schedd.negotiate(point.address)
    await until_procs(schedd, [0, 1, 2, 3])


async def test_a_factory_is_shown_with_its_limits_and_whether_it_goes_on(schedd: RunningAccessPoint) -> None:
    await schedd.submit(procs=DIFFERENT, JobMaterializeLimit=2)
    await schedd.submit(procs=DIFFERENT, JobMaterializeMaxIdle=1)
    await until_procs(schedd, [0, 0, 1])
    await act(schedd, schedd_pb2.ActRequest.HOLD, ids=["2"])
    query = schedd_pb2.JobQuery(view="factory")
    pieces = [chunk.data async for chunk in schedd.stub.Query(query, metadata=schedd.daemon)]
    rows = unpack_ads(pieces[0])
    shown = [
        (row["JobMaterializeLimit"], row.get("JobMaterializeMaxIdle"), row["JobMaterializePaused"]) for row in rows
    ]
    assert shown == [(2, None, 0), (12, 1, 1)], "without a limit, that of condor_submit: all jobs"


async def test_removing_the_cluster_ends_its_factory(schedd: RunningAccessPoint) -> None:
    await schedd.submit(procs=DIFFERENT, JobMaterializeLimit=2, UserLog="job.log")
    await until_procs(schedd, [0, 1])
    assert await act(schedd, schedd_pb2.ActRequest.REMOVE, ids=["1.0"]) == {"success": 1}
    await until_procs(schedd, [1, 2])  # one job is not the cluster
    assert await act(schedd, schedd_pb2.ActRequest.REMOVE, ids=["1"]) == {"success": 2}
    await schedd.until_gone()
    assert not schedd.point.queue.clusters
    await schedd.point.committer._idle.wait()
    assert events_of(schedd)[-1] == (36, -1)
    assert "Materialized 3 jobs from 12 items.\tIncomplete" in (schedd.home.root / "job.log").read_text()


async def test_all_of_an_owner_or_a_constraint_mean_the_factory_too(schedd: RunningAccessPoint) -> None:
    for selection in ({"owners": [schedd.owner]}, {"constraint": "RequestMemory == 128"}, {"all": True}):
        await schedd.submit(procs=DIFFERENT, JobMaterializeLimit=2)
        assert (await act(schedd, schedd_pb2.ActRequest.REMOVE, **selection))["success"] >= 1
        await schedd.until_gone()
        assert not schedd.point.queue.clusters


async def test_a_held_factory_makes_nothing_until_it_is_released(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    await schedd.submit(procs=DIFFERENT, JobMaterializeLimit=2, UserLog="job.log")
    await until_procs(schedd, [0, 1])
    assert await act(schedd, schedd_pb2.ActRequest.HOLD, ids=["1"]) == {"success": 2}
    assert await act(schedd, schedd_pb2.ActRequest.REMOVE, ids=["1.0", "1.1"]) == {"success": 2}
    await schedd.until_gone()
    assert list(schedd.point.queue.clusters) == [1], "the factory is still there"
    assert await act(schedd, schedd_pb2.ActRequest.RELEASE, ids=["1"]) == {"success": 1}
    await until_procs(schedd, [2, 3])
    await schedd.point.committer._idle.wait()
    assert [kind for kind, proc in events_of(schedd) if proc == -1] == [35, 37, 38]


async def test_a_factory_goes_on_after_a_kill(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start()
    await schedd.submit(procs=DIFFERENT, JobMaterializeLimit=4)
    await schedd.submit(6, JobMaterializeMaxIdle=1)
    held = await schedd.submit(6, JobMaterializeLimit=1)
    await until_procs(schedd, [0, 0, 0, 1, 2, 3])
    await act(schedd, schedd_pb2.ActRequest.HOLD, ids=[str(held)])
    await schedd.kill()
    schedd = await RunningAccessPoint(tmp_path / "pool").start()
    await until_procs(schedd, [0, 0, 0, 1, 2, 3])
    await act(schedd, schedd_pb2.ActRequest.REMOVE, ids=["1.1", "1.2", "2.0", f"{held}.0"])
    await until_procs(schedd, [0, 1, 3, 4, 5])
    ads = await schedd.jobs("ClusterId == 1")
    assert sorted((ad["ProcId"], ad["Arguments"]) for ad in ads) == [(n, f"{n}") for n in (0, 3, 4, 5)]
    await act(schedd, schedd_pb2.ActRequest.REMOVE, all=True)
    await schedd.until_gone()
    await schedd.stop()


async def test_edits_of_the_cluster_reach_jobs_made_later(schedd: RunningAccessPoint) -> None:
    await schedd.submit(4, JobMaterializeLimit=1)
    await until_procs(schedd, [0])
    request = schedd_pb2.EditRequest(jobs=schedd_pb2.JobSelection(ids=["1"]), set={"RequestMemory": "77"})
    await schedd.stub.Edit(request, metadata=schedd.user)
    request.set.clear()
    request.set["JobMaterializeLimit"] = "2"
    await schedd.stub.Edit(request, metadata=schedd.user)
    await until_procs(schedd, [0, 1])
    assert [ad["RequestMemory"] for ad in await schedd.jobs()] == [77, 77]


async def test_limits_of_submission_hold_for_jobs_that_are_there(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(MAX_JOBS_PER_SUBMISSION="3")
    await schedd.submit(1000, JobMaterializeMaxIdle=100)
    await until_procs(schedd, [0, 1, 2])
    await schedd.stop()


async def test_descriptions_ask_for_it(schedd: RunningAccessPoint) -> None:
    text = "executable=/bin/true\narguments=$(Process)\n{}\nqueue 12000\n"
    token = schedd.token_file(schedd.owner).read_text()

    def work() -> tuple[int, list[int]]:
        with Schedd(schedd.home.root, token=token) as client:
            made = client.submit(text.format("max_materialize=2"))
            idle = client.submit(text.format("max_idle=3"))
            return made.count + idle.count, [made.cluster, idle.cluster]

    count, (made, idle) = await asyncio.to_thread(work)
    assert count == 24000
    await until_procs(schedd, [0, 0, 1, 1, 2])
    await act(schedd, schedd_pb2.ActRequest.REMOVE, ids=[f"{made}.0", f"{idle}.1"])
    await until_procs(schedd, [0, 1, 2, 2, 3])
    query = schedd_pb2.JobQuery(batches=True)
    reply = [chunk async for chunk in schedd.stub.Query(query, metadata=schedd.user)]
    assert b'"Total":11999' in reply[0].data
