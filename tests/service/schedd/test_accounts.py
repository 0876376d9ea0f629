"""Root and the accounts of services own no jobs: the schedd would read and write files with their rights."""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.accounts import Account
from slotwise.config import load
from slotwise.daemon.accounts import minimum_uid
from slotwise.execution.job_view import SlotView, read_job
from slotwise.model.ownership import LocalDomains
from slotwise.schedd.user_files import owner_rights
from slotwise.starter.enforcement.accounts import UserRules, choose
from slotwise.table import pack_ads
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.access_point import RunningAccessPoint

as_root = host.needs(host.root)


def submission(**more: Any) -> schedd_pb2.SubmitBundle:
    ad = {"Cmd": "/bin/true", "Iwd": "/", "JobUniverse": 5, "Requirements": True, **more}
    procs = schedd_pb2.ProcBatch(count=1)
    return schedd_pb2.SubmitBundle(clusters=[schedd_pb2.ClusterSubmission(cluster_ad=pack_ads([ad]), procs=procs)])


@as_root
async def test_root_and_services_do_not_submit(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(SLOTWISE_MIN_UID="-1")
    try:
        for name in ("root", "daemon"):
            uid = pwd.getpwnam(name).pw_uid
            with pytest.raises(grpc.aio.AioRpcError, match=f"jobs of {name} are refused: its uid {uid} is below") as no:
                await schedd.stub.SubmitOne(submission(), metadata=schedd.as_user(name))
            assert no.value.code() == grpc.StatusCode.PERMISSION_DENIED
            frames = iter([schedd_pb2.SubmitFrame(submissions=[submission()])])
            (answer,) = [each async for each in schedd.stub.SubmitMany(frames, metadata=schedd.as_user(name))]
            assert "SLOTWISE_MIN_UID" in answer.answers[0].error.message
        for name in ("nobody", "somebody-without-an-account"):
            await schedd.stub.SubmitOne(submission(), metadata=schedd.as_user(name))
        assert sorted(ad["Owner"] for ad in await schedd.jobs()) == ["nobody", "somebody-without-an-account"]
    finally:
        await schedd.stop()


@as_root
async def test_files_of_jobs_that_root_has_in_the_queue_are_not_read_as_root(tmp_path: Path) -> None:
    """It submitted them before the limit was set."""
    schedd = await RunningAccessPoint(tmp_path / "pool").start()
    try:
        await schedd.submit()
        secret = tmp_path / "secret"
        secret.write_text("for root only")
        secret.chmod(0o600)
        with owner_rights.as_owner("root"):
            assert secret.read_text()
        await schedd.stop()
        await schedd.start(SLOTWISE_MIN_UID="500")
        assert len(await schedd.jobs()) == 1
        with owner_rights.as_owner("root"), pytest.raises(PermissionError):
            secret.read_text()
    finally:
        owner_rights.use_minimum_uid(0)
        await schedd.stop()


@pytest.mark.parametrize(
    ("knob", "defs", "least"),
    [("0", "", 0), ("77", "UID_MIN 500", 77), ("-1", "# UID_MIN 1\nUID_MIN\t\t 500\n", 500), ("-1", None, 1000)],
)
def test_the_least_uid(knob: str, defs: str | None, least: int, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(f"SLOTWISE_MIN_UID = {knob}\n")
    if defs is not None:
        (tmp_path / "login.defs").write_text(defs)
    assert minimum_uid(load(str(tmp_path / "config"), env={}), tmp_path / "login.defs") == least


@pytest.mark.parametrize(("uid", "least", "name"), [(999, 1000, "nobody"), (1000, 1000, "ann"), (0, 0, "nobody")])
def test_a_job_of_such_an_owner_runs_as_another(uid: int, least: int, name: str) -> None:
    accounts = {"ann": Account("ann", uid, 5, "/"), "nobody": Account("nobody", 65534, 65534, "/")}
    job = read_job({"Cmd": "/bin/true", "Iwd": "/"}.get, "ann@here")
    rules = UserRules(domains=LocalDomains("here"), least_uid=least)
    made = choose(job, SlotView("slot1@h"), rules, owner_domain="here", is_root=True, find=accounts.get)
    assert made.name == name
