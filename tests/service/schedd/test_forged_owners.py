"""Whose job it is comes from the token of the call. No attribute of a submission, report or edit changes it."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from slotwise.wire.credential import bearer
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script

#: What decides whose job it is or what it has been through, each as another user or a cheat would set it.
FORGED: dict[str, Any] = {
    "Owner": "root",
    "User": "root@here",
    "OsUser": "root",
    "oWNER": "root",
    "ClusterId": 7,
    "ProcId": 7,
    "GlobalJobId": "here#7.7#7",
    "MyType": "Machine",
    "JobUniverse": 12,
    "QDate": 1,
    "NumJobStarts": -5,
    "NumJobMatches": -5,
    "RemoteWallClockTime": -1e9,
    "CumulativeSuspensionTime": 7,
    "CompletionDate": 1,
    "EnteredCurrentStatus": 1,
    "RemoteHost": "slot1@elsewhere",
    "PublicClaimId": "<x>#1#1",
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", FORGED)
async def test_a_job_of_a_submission_cannot_forge(name: str, late: bool, schedd: RunningAccessPoint) -> None:
    more = {"JobMaterializeLimit": 1} if late else {}
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await schedd.submit(procs=[{"Args": "first"}, {name: FORGED[name]}], **more)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert f"a job may not set {name}" in str(refused.value.details())
    assert await schedd.jobs() == []


async def test_a_cluster_cannot_forge(schedd: RunningAccessPoint) -> None:
    forged = {name: value for name, value in FORGED.items() if name not in ("JobUniverse", "Owner", "oWNER")}
    cluster = await schedd.submit(count=2, NumHolds=-1, TotalSuspensions=9, **forged)
    for ad in await schedd.jobs():
        assert (ad["Owner"], ad["User"], ad["OsUser"]) == (schedd.owner, f"{schedd.owner}@here", schedd.owner)
        assert (ad["ClusterId"], ad["MyType"], ad["JobUniverse"]) == (cluster, "Job", 5)
        assert ad["GlobalJobId"].startswith(f"here#{cluster}.{ad['ProcId']}#")
        assert ad["QDate"] == ad["EnteredCurrentStatus"] > 1
        assert (ad["NumJobStarts"], ad["NumHolds"], ad["TotalSuspensions"], ad["RemoteWallClockTime"]) == (0, 0, 0, 0)


@pytest.mark.parametrize("status", [2, 3, 4, 7, "idle"])
async def test_a_job_begins_idle_or_held(status: Any, schedd: RunningAccessPoint) -> None:
    for fields in ({"JobStatus": status}, {"procs": [{"JobStatus": status}]}):
        with pytest.raises(grpc.aio.AioRpcError, match="cannot begin with JobStatus"):
            await schedd.submit(**fields)
    await schedd.submit(procs=[{"JobStatus": 5}, {}])
    assert sorted(ad["JobStatus"] for ad in await schedd.jobs()) == [1, 5]


@pytest.mark.parametrize("name", ["Owner", "User", "OsUser", "ClusterId", "ProcId", "GlobalJobId"])
async def test_an_edit_cannot_forge(name: str, schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit()
    request = schedd_pb2.EditRequest(set={name: '"root"'})
    request.jobs.constraint = f"ClusterId == {cluster}"
    for caller in (schedd.user, schedd.daemon):
        with pytest.raises(grpc.aio.AioRpcError, match="is not allowed"):
            await schedd.stub.Edit(request, metadata=caller)


async def test_execution_points_hear_the_owner_beside_the_ad_and_cannot_report_another(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(
        until_killed=True, ad={"Owner": "root", "OsUser": "root", "Err": "/etc/passwd", "PeriodicRelease": True}
    )
    await schedd.submit(OsUser="root", Err="err.txt")
    await schedd.negotiate(point.address)

    async def runs() -> bool:
        return any(run.started for run in point.runs.values())

    await schedd.until(runs)
    user = f"{schedd.owner}@here"
    assert point.users == {"claim": user, "activation": user, "acceptance": user}
    (run,) = point.runs.values()
    assert (run.ad["Owner"], run.ad["User"], run.ad["OsUser"]) == (schedd.owner, user, schedd.owner)
    await schedd.act("HOLD", "true")

    async def held() -> bool:
        return [ad["JobStatus"] for ad in await schedd.jobs()] == [5] and not point.claim_runs

    await schedd.until(held)
    (ad,) = await schedd.jobs()
    assert (ad["Owner"], ad["OsUser"], ad["Err"]) == (schedd.owner, schedd.owner, "err.txt")
    assert "PeriodicRelease" not in ad or ad["PeriodicRelease"] is not True


async def test_nobody_but_a_queue_superuser_submits_jobs_of_others(schedd: RunningAccessPoint) -> None:
    administrator = bearer(schedd.secrets.mint("ops@here", ["ADMINISTRATOR"], now=1))
    for caller in (schedd.as_user("eve"), administrator):
        schedd.user = caller
        with pytest.raises(grpc.aio.AioRpcError, match="may not submit jobs of alice@here: QUEUE_SUPER_USERS"):
            await schedd.submit(Owner="alice")
    schedd.user = schedd.as_user("condor")  # one of QUEUE_SUPER_USERS unless the administrator says otherwise
    with pytest.raises(grpc.aio.AioRpcError, match="has had no job in the queue"):
        await schedd.submit(Owner="alice")
    assert await schedd.jobs() == []
    schedd.user = schedd.as_user("alice")
    await schedd.submit()
    schedd.user = schedd.as_user("condor")
    await schedd.submit(count=2, Owner="alice")
    assert [(ad["Owner"], ad["User"]) for ad in await schedd.jobs()] == [("alice", "alice@here")] * 3
