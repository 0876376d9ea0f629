"""Whose files a view of a DAG reads: those of the account that the user has here, and nobody else's."""

from __future__ import annotations

import grpc
import pytest
from slotwise.classad import ClassAd
from slotwise.table import pack_ads
from slotwise.wire.credential import bearer
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint

#: The account of that name here is not that user's.
STRANGER = "daemon@other.example"


async def refusal(schedd: RunningAccessPoint, job: str, caller: object) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await schedd.stub.ShowDag(schedd_pb2.ShowDagRequest(job=job), metadata=caller)
    return refused.value.details() or ""


async def test_a_user_of_another_domain_is_not_the_account_of_that_name(schedd: RunningAccessPoint) -> None:
    caller = bearer(schedd.secrets.mint(STRANGER, ["WRITE"], now=1))
    ad = ClassAd({"Cmd": "/bin/condor_dagman", "Iwd": "/", "JobUniverse": 5, "Requirements": True, "JobStatus": 5})
    cluster = schedd_pb2.ClusterSubmission(cluster_ad=pack_ads([ad]), procs=schedd_pb2.ProcBatch(count=1))
    reply = await schedd.stub.SubmitOne(schedd_pb2.SubmitBundle(clusters=[cluster]), metadata=caller)
    job = str(reply.clusters[0].cluster_id)
    assert f"Unable to switch to user: {STRANGER}" in await refusal(schedd, job, caller)
    assert f"the files of DAG {job} are its user's" in await refusal(schedd, job, schedd.as_user("daemon"))
    remove = schedd_pb2.ActRequest(action="REMOVE", jobs=schedd_pb2.JobSelection(constraint="true"))
    await schedd.stub.Act(remove, metadata=caller)

    async def gone() -> bool:
        return not await schedd.jobs()

    await schedd.until(gone)
    assert f"Unable to switch to user: {STRANGER}" in await refusal(schedd, job, caller)
    assert f"the files of DAG {job} are its user's" in await refusal(schedd, job, schedd.as_user("daemon"))
