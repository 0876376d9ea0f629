"""The commands about jobs, against a real schedd: what they print, and how they end."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.schedd.storage.store import Batch
from slotwise.table import unpack_ads
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.command import Result, command
from tests.support.execution_point import ExecutionPoint, Script
from tests.support.waiting import LIMIT_S


async def run(schedd: RunningAccessPoint, *words: str, user: str | None = None) -> Result:
    token = schedd.token_file(user or schedd.owner)
    return await command(schedd.home.root, *words, token=token)


async def test_q_of_an_empty_queue_prints_header_and_zero_totals(schedd: RunningAccessPoint) -> None:
    result = await run(schedd, "q")
    assert result.status == 0
    assert "-- Schedd: " in result.out
    assert "OWNER BATCH_NAME" in result.out
    assert "Total for query: 0 jobs; 0 completed, 0 removed, 0 idle, 0 running, 0 held, 0 suspended" in result.out
    assert "Total for all users: 0 jobs;" in result.out


async def test_q_shows_batches_with_ids_and_counts(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(10)
    await schedd.submit(2, JobBatchName="sweep")
    lines = (await run(schedd, "q")).out.splitlines()
    row = next(line for line in lines if f"ID: {cluster}" in line)
    assert row.split()[-6:] == ["_", "_", "10", "10", f"{cluster}.0-9"][-6:] or f"{cluster}.0-9" in row
    assert any("sweep" in line for line in lines)
    assert "Total for query: 12 jobs; 0 completed, 0 removed, 12 idle" in "\n".join(lines)


async def test_totals_of_a_view_and_ads_of_autoclusters(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(3)
    await run(schedd, "hold", f"{cluster}.0")
    out = (await run(schedd, "q", "-hold", "-totals")).out
    assert "Total for query: 1 jobs; 0 completed, 0 removed, 0 idle, 0 running, 1 held" in out
    assert "HOLD_REASON" not in out
    (ad,) = json.loads((await run(schedd, "q", "-autocluster", "-json")).out)
    assert (ad["JobCount"], ad["JobIds"]) == (3, f"{cluster}.0-2")
    assert "COUNT UNIVERSE" in (await run(schedd, "q", "-autocluster")).out


async def test_q_nobatch_has_a_line_for_each_job(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(3, Arguments="a b")
    out = (await run(schedd, "q", "-nobatch")).out
    assert " ID      OWNER" in out
    rows = [line for line in out.splitlines() if line.strip().startswith(f"{cluster}.")]
    assert len(rows) == 3
    assert rows[0].endswith("true a b")


async def test_q_json_prints_one_array(schedd: RunningAccessPoint) -> None:
    assert json.loads((await run(schedd, "q", "--json")).out) == []
    cluster = await schedd.submit(3)
    ads = json.loads((await run(schedd, "q", "-json")).out)
    assert [(ad["ClusterId"], ad["ProcId"], ad["JobStatus"]) for ad in ads] == [(cluster, p, 1) for p in range(3)]
    only = json.loads((await run(schedd, "q", f"{cluster}.1", "-json", "-attributes", "ProcId,Owner")).out)
    assert only == [{"Owner": schedd.owner, "ProcId": 1}]


async def test_q_autoformat(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(2)
    assert (await run(schedd, "q", "-af", "ProcId", "Owner", "Nothing")).out == (
        f"0 {schedd.owner} undefined\n1 {schedd.owner} undefined\n"
    )
    assert (await run(schedd, "q", "-af:jh", "ProcId", "-lim", "1")).out == f" ID ProcId\n{cluster}.0 0     \n"
    assert (await run(schedd, "q", "-af:lV", "Owner", "-limit", "1")).out == f'Owner = "{schedd.owner}"\n'
    assert (await run(schedd, "q", "-af:r", "JobUniverse", "RequestMemory*2", "-limit", "1")).status == 0
    assert (await run(schedd, "q", "-format", "%d-", "ProcId", "-format", "%s\\n", "Nope")).out == "0-1-"


async def test_ids_owners_and_constraints_select(schedd: RunningAccessPoint) -> None:
    first = await schedd.submit(2)
    second = await schedd.submit(2)
    ids = (await run(schedd, "q", str(first), f"{second}.1", "-af:j", "JobStatus")).out
    assert ids.split("\n")[:-1] == [f"{first}.0 1", f"{first}.1 1", f"{second}.1 1"]
    assert (await run(schedd, "q", "-const", "ProcId == 1", "-af", "ClusterId")).out.split() == [
        str(first),
        str(second),
    ]
    assert (await run(schedd, "q", "nobody-such", "-af", "ClusterId")).out == ""


async def test_only_own_jobs_are_shown_and_touched(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(1)
    assert (await run(schedd, "q", "-af", "ClusterId", user="mallory")).out == ""
    assert (await run(schedd, "q", "-allusers", "-af", "ClusterId", user="mallory")).out == f"{cluster}\n"
    refused = await run(schedd, "rm", f"{cluster}.0", user="mallory")
    assert refused.status == 1
    assert refused.err == f"Permission denied to remove job {cluster}.0\n"
    edited = await run(schedd, "qedit", f"{cluster}.0", "RequestMemory", "5", user="mallory")
    assert edited.status == 1
    assert [ad["RequestMemory"] for ad in await schedd.jobs()] == [128]


async def test_hold_release_and_remove(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(2, UserLog="h.log")
    held = await run(schedd, "hold", f"{cluster}.0", "-reason", "not now", "-subcode", "7")
    assert (held.status, held.out) == (0, f"Job {cluster}.0 held\n")
    (ad,) = await schedd.jobs("JobStatus == 5")
    told = f"not now (by user {schedd.owner})"
    assert (ad["HoldReason"], ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (told, 1, 7)
    view = (await run(schedd, "q", "-hold")).out
    assert "CODE/SUB" in view and "1/7" in view and "not now" in view
    assert (await run(schedd, "q", "-hold", "-af", "HoldReason")).out == told + "\n"
    assert (await run(schedd, "release", str(cluster))).status == 0
    assert not await schedd.jobs("JobStatus == 5")
    gone = await run(schedd, "rm", str(cluster))
    assert gone.out == f"All jobs in cluster {cluster} have been marked for removal\n"
    assert await schedd.jobs() == []
    assert [ad["JobStatus"] for ad in await schedd.history()] == [3, 3]
    assert (await run(schedd, "rm", f"{cluster}.0")).err == f"Job {cluster}.0 not found\n"
    nothing = await run(schedd, "rm")
    assert nothing.status == 1 and "You did not specify any jobs" in nothing.err


async def test_a_command_says_that_the_disk_is_full_and_takes_effect_when_it_is_not(
    schedd: RunningAccessPoint, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await schedd.submit(2)
    store, is_full = schedd.point.store, True
    honest = store._transaction

    def full(connection: sqlite3.Connection, batches: list[Batch]) -> None:
        if is_full:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        honest(connection, batches)

    store._transaction = full  # type: ignore[method-assign]
    # Its disk was full from the moment on that this was decided.
    accepted = await run(schedd, "hold", str(cluster))
    assert accepted.status == 1
    assert "the job queue cannot be written: database or disk is full; what was asked for takes" in accepted.err
    refused = await run(schedd, "qedit", f"{cluster}.0", "Wanted", "7")
    assert refused.status == 1 and "takes effect" not in refused.err
    assert all("make room on the disk of SPOOL" in said.err for said in (accepted, refused))
    assert sum("retrying" in line for line in caplog.messages) == 1, "said once, not at each attempt"

    async def writes() -> bool:
        return store.refusal is None

    is_full = False
    await schedd.until(writes)
    assert any("is written again" in line for line in caplog.messages)
    ads = json.loads((await run(schedd, "q", "-json")).out)
    assert [ad["JobStatus"] for ad in ads] == [5, 5]
    assert "Wanted" not in ads[0], "what is refused is not done later"


async def test_jobs_that_are_not_named_one_by_one_are_meant_if_it_suits_them(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(3)
    await run(schedd, "hold", f"{cluster}.0")
    again = await run(schedd, "hold", f"{cluster}.0")
    assert (again.status, again.err) == (1, f"Job {cluster}.0 already held\n")
    early = await run(schedd, "release", f"{cluster}.1")
    assert (early.status, early.err) == (1, f"Job {cluster}.1 not held to be released\n")
    released = await run(schedd, "release", "-all")
    assert (released.status, released.out) == (0, "All jobs have been released\n")
    assert (await run(schedd, "release", "-all")).err == "Couldn't find/release all jobs\n"
    await run(schedd, "hold", f"{cluster}.1")
    held = await run(schedd, "hold", "-const", "ProcId > 0")
    assert (held.status, held.out) == (0, "All jobs matching constraint (ProcId > 0) have been held\n")
    assert (await run(schedd, "vacate_job", str(cluster))).err == (
        f"Couldn't find/vacate all jobs in cluster {cluster}: none is running\n"
    )
    only = await run(schedd, "rm", "-held", schedd.owner)
    assert only.out == f'All held jobs of user "{schedd.owner}" have been marked for removal\n'
    assert [ad["ProcId"] for ad in await schedd.jobs()] == [0]
    other = await run(schedd, "rm", "-all", user="mallory")
    assert (other.status, other.err) == (1, "Couldn't find/remove all jobs\n  1 Permission Denied\n")


async def test_a_user_s_hold_replaces_another(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(1, JobStatus=5, HoldReason="submitted on hold", HoldReasonCode=15)
    assert (await run(schedd, "hold", f"{cluster}.0", "-reason", "mine")).out == f"Job {cluster}.0 held\n"
    (ad,) = await schedd.jobs("JobStatus == 5")
    assert (ad["HoldReason"], ad["HoldReasonCode"]) == (f"mine (by user {schedd.owner})", 1)


async def test_prio_and_qedit(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(2)
    assert (await run(schedd, "prio", "-p", "5", str(cluster))).status == 0
    assert (await run(schedd, "prio", "+3", f"{cluster}.1")).status == 0
    assert [ad["JobPrio"] for ad in await schedd.jobs()] == [5, 8]
    done = await run(schedd, "qedit", str(cluster), "RequestMemory", "4096", "My_Note", '"hi"')
    assert 'Set attribute "RequestMemory" for 2 matching jobs.' in done.out
    assert [(ad["RequestMemory"], ad["My_Note"]) for ad in await schedd.jobs()] == [(4096, "hi")] * 2
    bad = await run(schedd, "qedit", str(cluster), "RequestMemory", "1 +")
    assert bad.status == 1 and "RequestMemory" in bad.err
    owner = await run(schedd, "qedit", str(cluster), "Owner", '"root"')
    assert owner.status in (1, 2) and "Owner" in owner.err


async def test_qedit_by_owner_ids_and_constraint(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(3)
    only = await run(schedd, "qedit", "-jobids", f"{cluster}.0,{cluster}.2", "-const", "ProcId > 0", "Foo", "1")
    assert only.out == 'Set attribute "Foo" for 1 matching jobs.\n'
    assert [ad.get("Foo") for ad in await schedd.jobs()] == [None, None, 1]
    mine = await run(schedd, "qedit", "-owner", schedd.owner, "Foo=2")
    assert mine.out == 'Set attribute "Foo" for 3 matching jobs.\n'
    assert (await run(schedd, "qedit", "-owner", "nobody-such", "Foo=3")).status == 1
    assert [ad.get("Foo") for ad in await schedd.jobs()] == [2, 2, 2]
    assert (await run(schedd, "prio", "-p", "7", "-a")).status == 0
    assert [ad["JobPrio"] for ad in await schedd.jobs()] == [7, 7, 7]


async def test_attributes_that_the_administrator_locks(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(
        IMMUTABLE_JOB_ATTRS="Project, Cost", PROTECTED_JOB_ATTRS="JobPrio", QUEUE_SUPER_USERS="root@here"
    )
    try:
        cluster = await schedd.submit(1, Project="astro")
        kept = await run(schedd, "qedit", str(cluster), "project", '"other"')
        assert kept.status != 0 and 'Update of immutable attribute "project" is not allowed.' in kept.err
        assert (await run(schedd, "qedit", str(cluster), "Cost", "5")).status != 0, "set or not, as in HTCondor"
        protected = await run(schedd, "prio", "-p", "5", str(cluster), user="mallory")
        assert protected.status == 2 and "PROTECTED_JOB_ATTRS" in protected.err
        (ad,) = await schedd.jobs()
        assert (ad["Project"], ad.get("Cost")) == ("astro", None)
    finally:
        await schedd.stop()


async def test_a_command_tells_its_version(schedd: RunningAccessPoint) -> None:
    assert (await run(schedd, "rm", "-version")).out.startswith("slotwise ")


async def test_history_newest_first_with_limit_and_forms(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(exit_code=ad["ProcId"])
    cluster = await schedd.submit(5)
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    assert (await run(schedd, "history", "-limit", "2", "-af", "ClusterId")).out == f"{cluster}\n" * 2
    ads: list[dict[str, Any]] = json.loads((await run(schedd, "history", "--json")).out)
    assert sorted(ad["ExitCode"] for ad in ads) == [0, 1, 2, 3, 4]
    assert (await run(schedd, "history", f"{cluster}.3", "-af:j", "ExitCode")).out == f"{cluster}.3 3\n"
    assert (await run(schedd, "history", "-const", "ExitCode == 4", "-af", "ProcId")).out == "4\n"
    table = (await run(schedd, "history")).out
    assert "COMPLETED" in table and len(table.splitlines()) == 6


async def test_wait_follows_the_log(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    await schedd.submit(3, UserLog="all.log")
    early = await run(schedd, "wait", "-wait", "0", "all.log")
    assert early.status == 1
    await schedd.negotiate(point.address)
    done = await run(schedd, "wait", "-wait", f"{LIMIT_S:g}", "all.log")
    assert (done.status, done.out) == (0, "All jobs done.\n")


async def test_unknown_options_are_refused(schedd: RunningAccessPoint) -> None:
    assert (await run(schedd, "q", "-nonsense")).status == 2
    assert (await run(schedd, "q", "-const", "1 +")).status == 1


async def test_universes_that_are_not_there_are_refused(schedd: RunningAccessPoint) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="universe grid"):
        await schedd.submit(1, JobUniverse=9)
    assert await schedd.jobs() == []


async def test_history_stops_where_it_is_told(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    for _ in range(3):
        await schedd.submit(2)
        await schedd.negotiate(point.address)
        await schedd.until_gone()

    async def procs(*words: str) -> str:
        return (await run(schedd, "history", *words, "-af:j", "ExitCode")).out.replace(" 0\n", " ").strip()

    assert await procs("-since", "2", "-constraint", "ProcId == 0") == "3.0"
    assert await procs("-since", "ClusterId == 1", "-constraint", "ProcId == 0") == "3.0 2.0"
    assert await procs("-forwards", "-limit", "3", "-constraint", "ProcId == 0") == "1.0 2.0 3.0"
    assert await procs("-scanlimit", "2") in ("3.1 3.0", "3.0 3.1")
    assert await procs("-completedsince", "4000000000") == ""
    assert await procs("2.1") == "2.1"


async def test_a_job_tells_why_it_was_not_matched(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(2)
    query = schedd_pb2.ResourceRequestsQuery(significant_attributes=["RequestCpus"])
    batch = schedd_pb2.MatchBatch(negotiator_name="central")
    async for reply in schedd.stub.ResourceRequests(query, metadata=schedd.daemon):
        for ad in unpack_ads(reply.pack) if reply.pack else []:
            rejections = batch.submitters.add(submitter=ad["Submitter"]).rejections
            rejections.add(autocluster_id=ad["AutoClusterId"], reason="no match found", count=2)
    for _ in range(2):
        await schedd.stub.OfferMatches(batch, metadata=schedd.daemon)
    names = ("LastRejMatchReason", "LastRejMatchNegotiator")
    told = await run(schedd, "q", str(cluster), "-af", *names)
    assert told.out == "no match found central\nundefined undefined\n"
    job, _ = await schedd.jobs()
    assert job["LastRejMatchTime"] >= job["QDate"]


#: Values of NumHolds, and whether HTCondor has a user release a job with it when SYSTEM_MAX_RELEASES is 2 (there users
#: set it themselves; here it takes a superuser, or users would have no limit):
#: fractions are dropped, expressions evaluated, and what is no number is none.
_RELEASED_BY_USERS = {
    "1": True,
    "2": True,
    "3": False,
    "2.7": True,
    "3.2": False,
    '"9"': True,
    "true": True,
    "ProcId - 4": False,
    "ProcId - 6": True,
    "undefined": True,
    "9000000000": False,
    "ProcId": False,
}


async def test_the_holds_of_a_job_are_counted_as_htcondor_counts_them(tmp_path: Path) -> None:
    running = await RunningAccessPoint(tmp_path / "pool").start(SYSTEM_MAX_RELEASES="2", QUEUE_SUPER_USERS="boss@here")
    try:
        await running.submit(len(_RELEASED_BY_USERS))
        await running.stub.Act(
            schedd_pb2.ActRequest(action="HOLD", jobs=schedd_pb2.JobSelection(ids=("1",))), metadata=running.user
        )
        found = {}
        for proc, value in enumerate(_RELEASED_BY_USERS):
            jobs = schedd_pb2.JobSelection(ids=(f"1.{proc}",))
            edit = schedd_pb2.EditRequest(jobs=jobs, set={"NumHolds": value})
            await running.stub.Edit(edit, metadata=running.as_user("boss"))
            request = schedd_pb2.ActRequest(action="RELEASE", jobs=jobs)
            reply = await running.stub.Act(request, metadata=running.user)
            found[value] = dict(reply.totals) == {"success": 1}
        assert found == _RELEASED_BY_USERS
    finally:
        await running.stop()


@pytest.mark.parametrize("background", ["10000", "1"])
async def test_jobs_that_were_held_too_often_are_released_by_superusers_alone(tmp_path: Path, background: str) -> None:
    """HTCondor: "cannot be released again, has reached SYSTEM_PERIODIC_RELEASES limit"; it counts the holds."""
    running = await RunningAccessPoint(tmp_path / "pool").start(
        SYSTEM_MAX_RELEASES="1", QUEUE_SUPER_USERS="boss@here", SLOTWISE_BACKGROUND_ACTION_JOBS=background
    )
    try:
        await running.submit(2)

        async def act(action: str, *, boss: bool = False, ids: tuple[str, ...] = ("1",)) -> schedd_pb2.ActReply:
            request = schedd_pb2.ActRequest(action=action)
            request.jobs.ids.extend(ids)
            metadata = running.as_user("boss") if boss else running.user
            return await running.stub.Act(request, metadata=metadata)

        async def all_are(status: int) -> bool:
            return all(ad["JobStatus"] == status for ad in await running.jobs())

        for _ in range(2):
            await act("HOLD")
            await running.until(lambda: all_are(5))
            reply = await act("RELEASE")
            if "success" in reply.totals:
                await running.until(lambda: all_are(1))
        assert dict(reply.totals) == {"limit_exceeded": 2}
        assert [one.result for one in (await act("RELEASE", ids=("1.0",))).jobs] == ["limit_exceeded"]
        assert dict((await act("RELEASE", boss=True)).totals) == {"success": 2}
        await running.until(lambda: all_are(1))
    finally:
        await running.stop()
