"""A user is user@domain: one of the same name in another domain has neither jobs, rights nor account of the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd
from slotwise.config import load
from slotwise.schedd.transfer.files import file_plan
from slotwise.schedd.user_files.owner_rights import account
from slotwise.table import pack_ads, unpack_ads
from slotwise.wire.credential import bearer
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint

AD = {"Cmd": "/bin/true", "Iwd": "/", "JobUniverse": 5, "Requirements": True, "JobStatus": 5}


def as_(schedd: RunningAccessPoint, name: str) -> Any:
    return bearer(schedd.secrets.mint(name, ["WRITE"], now=1))


async def submitted(schedd: RunningAccessPoint, name: str) -> int:
    cluster = schedd_pb2.ClusterSubmission(cluster_ad=pack_ads([ClassAd(AD)]), procs=schedd_pb2.ProcBatch(count=1))
    reply = await schedd.stub.SubmitOne(schedd_pb2.SubmitBundle(clusters=[cluster]), metadata=as_(schedd, name))
    return int(reply.clusters[0].cluster_id)


async def removed(schedd: RunningAccessPoint, name: str, cluster: int) -> bool:
    request = schedd_pb2.ActRequest(
        action=schedd_pb2.ActRequest.REMOVE, jobs=schedd_pb2.JobSelection(ids=[str(cluster)])
    )
    await schedd.stub.Act(request, metadata=as_(schedd, name))
    return cluster not in schedd.point.queue.clusters


async def test_a_name_of_another_domain_has_no_rights_on_the_jobs_of_the_first(schedd: RunningAccessPoint) -> None:
    """Removed bob@here's job, and read its files, with a token of bob@other.university."""
    cluster = await submitted(schedd, "bob@here")
    assert not await removed(schedd, "bob@other.university", cluster)
    with pytest.raises(grpc.aio.AioRpcError, match=r"job 1\.0 is bob@here's") as caught:
        selection = schedd_pb2.JobSelection(ids=[f"{cluster}.0"])
        async for _ in schedd.stub.FetchSandboxes(selection, metadata=as_(schedd, "bob@other.university")):
            pass
    assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
    query = schedd_pb2.JobQuery(mine_only=True)
    found = [each async for each in schedd.stub.Query(query, metadata=as_(schedd, "bob@other.university"))]
    assert not [ad for chunk in found for ad in (unpack_ads(chunk.data) if chunk.data else [])]
    assert await removed(schedd, "bob@HERE", cluster), "domains ignore case"


async def test_a_user_of_another_domain_has_no_account_here(schedd: RunningAccessPoint) -> None:
    """root@other.university was Owner root, and the schedd read its input files with root's rights."""
    cluster = await submitted(schedd, "daemon@other.university")
    job = schedd.point.queue.clusters[cluster].jobs[0]
    ad = schedd.point.ads.ad(job)
    assert (ad["Owner"], ad["User"], ad["OsUser"]) == ("daemon", "daemon@other.university", "nobody")
    assert job.submitter == "daemon@other.university"
    assert account(job.account) == account("nobody")
    plan = file_plan(schedd.point.ads.expanded(job, ClassAd()), job.account, "nobody")
    assert plan.owner == ""
    local = schedd.point.queue.clusters[await submitted(schedd, "daemon@here")].jobs[0]
    assert account(local.account) == account("daemon")


async def test_it_stays_so_over_a_restart(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start()
    cluster = await submitted(schedd, "bob@other.university")
    await schedd.stop()
    schedd = await schedd.start()
    job = schedd.point.queue.clusters[cluster].jobs[0]
    assert (job.account, job.cluster.user, job.submitter) == ("", "bob@other.university", "bob@other.university")
    assert not await removed(schedd, "bob@here", cluster)
    await schedd.stop()


@pytest.mark.parametrize(
    ("trusted", "maps"),
    [("other.university", True), ("a.edu Other.University", True), ("True", True), ("False", False)],
)
async def test_domains_that_are_trusted_have_accounts(tmp_path: Path, trusted: str, maps: bool) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(TRUST_UID_DOMAIN=trusted)
    cluster = await submitted(schedd, "daemon@other.university")
    assert (schedd.point.queue.clusters[cluster].account == "daemon") == maps
    # It is another user all the same.
    assert not await removed(schedd, "daemon@here", cluster)
    await schedd.stop()


async def test_superusers_have_domains(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(QUEUE_SUPER_USERS="carol, dave@other.university")
    cluster = await submitted(schedd, "bob@here")
    assert not await removed(schedd, "carol@other.university", cluster)
    assert not await removed(schedd, "dave@here", cluster)
    assert not await removed(schedd, "root@here", cluster)
    assert await removed(schedd, "dave@other.university", cluster)
    cluster = await submitted(schedd, "bob@here")
    config = schedd.home.root / "config"
    config.write_text(config.read_text() + "QUEUE_SUPER_USERS = eve\n")
    await schedd.point.reconfig(load(str(config), subsystem="SCHEDD", env={}, home=schedd.home))
    assert not await removed(schedd, "carol@here", cluster), "a reconfig takes it back"
    assert await removed(schedd, "eve@here", cluster)
    await schedd.stop()
