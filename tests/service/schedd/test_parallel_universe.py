"""Parallel jobs at the access point: all claims before any start, one end for all nodes, restarts in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import htcondor2
import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.wire.gen import schedd_pb2, startd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script
from tests.support.parallel_jobs import entries, executes, finished, gathered, slots_wanted, submit, table


def waits(ad: Any) -> Script:
    return Script(until_killed=True)


async def test_no_node_starts_before_all_claims_are_held(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = waits
    await submit(schedd, 3)
    await slots_wanted(schedd)
    assert await schedd.negotiate(point.address, slots=2) == 2
    await gathered(schedd, 2)
    assert not point.history and not table(schedd).runs
    assert await schedd.negotiate(point.address) == 1, "only what is missing is asked for"
    await executes(schedd, 3)
    assert sorted(point.history) == ["1.0#1.0", "1.0#1.1", "1.0#1.2"]
    (job,) = await schedd.jobs()
    assert (job["JobStatus"], job["CurrentHosts"]) == (2, 3)
    assert job["RemoteHosts"] == job["AllRemoteHosts"] == "slot1_1@ep,slot1_2@ep,slot1_3@ep"
    assert job["Scheduler"] == "DedicatedScheduler@here"


async def test_a_request_is_for_slots_of_this_dedicated_scheduler_alone(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    await submit(schedd, 2, WantParallelSchedulingGroups=True)
    await slots_wanted(schedd)
    (ad,) = schedd.point.claiming.dedicated.requests()
    assert (ad["Submitter"], ad["ResourceRequestCount"]) == ("DedicatedScheduler@here", 2)

    def suits(**slot: Any) -> bool:
        return ad.lookup("Requirements").eval(ad, ClassAd(slot)) is True

    assert suits(DedicatedScheduler="DedicatedScheduler@here", ParallelSchedulingGroup="left")
    assert not suits(DedicatedScheduler="DedicatedScheduler@here")
    assert not suits(DedicatedScheduler="DedicatedScheduler@elsewhere", ParallelSchedulingGroup="left")
    assert not suits(ParallelSchedulingGroup="left")
    shown = schedd.point.requests.submitter_ads()["DedicatedScheduler@here#here"]
    assert shown["IdleJobs"] == 2


async def test_each_node_gets_its_number_and_the_log_tells_of_each(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(run_s=0.2 if ad["Node"] else 0.6, exit_code=ad["Node"] + 5)
    await submit(schedd, 2, Arguments="-n #pArAlLeLnOdE#", Out="out.#pArAlLeLnOdE#")
    await slots_wanted(schedd)
    await schedd.negotiate(point.address)
    await executes(schedd, 2)
    ads = {run.ad["Node"]: run.ad for run in point.runs.values()}
    assert {node: (ad["Arguments"], ad["Out"], ad["CurrentHosts"]) for node, ad in ads.items()} == {
        0: ("-n 0", "out.0", 2),
        1: ("-n 1", "out.1", 2),
    }
    assert Path(ads[0]["RemoteSpoolDir"]).is_dir()
    await finished(schedd)
    log = entries(schedd)
    assert sorted(log[1:3]) == [(14, 0), (14, 1)]
    assert log[0] == (0, 0) and log[3:] == [(1, 0), (15, 1), (15, 0), (5, 0)]
    (past,) = await schedd.history()
    assert (past["ExitCode"], past["JobStatus"], past["RemoteUserCpu"]) == (5, 4, 2.0)
    types = [int(event.type) for event in htcondor2.JobEventLog(str(schedd.home.root / "job.log")).events(stop_after=0)]
    assert types == [number for number, _ in log]


async def test_the_end_of_node_0_ends_the_others(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(exit_code=3) if ad["Node"] == 0 else Script(until_killed=True)
    await submit(schedd, 3)
    await slots_wanted(schedd)
    await schedd.negotiate(point.address)
    await finished(schedd)
    assert not table(schedd).runs and not table(schedd).gangs
    assert sorted(entries(schedd))[-1] == (15, 0)
    (past,) = await schedd.history()
    assert past["ExitCode"] == 3


async def test_a_node_that_fails_early_ends_nothing(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(exit_code=7) if ad["Node"] == 1 else Script(run_s=0.5)
    await submit(schedd, 2)
    await slots_wanted(schedd)
    await schedd.negotiate(point.address)
    await finished(schedd)
    (past,) = await schedd.history()
    assert past["ExitCode"] == 0


async def test_with_wait_for_all_the_job_ends_with_its_last_node(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(run_s=0.3 * ad["Node"], exit_code=ad["Node"] + 4)
    await submit(schedd, 3, ParallelShutdownPolicy="WAIT_FOR_ALL")
    await slots_wanted(schedd)
    await schedd.negotiate(point.address)
    await finished(schedd)
    assert [entry for entry in entries(schedd) if entry[0] in (15, 5)] == [(15, 0), (15, 1), (15, 2), (5, 0)]
    (past,) = await schedd.history()
    assert past["ExitCode"] == 4


@pytest.mark.parametrize(("action", "status"), [("HOLD", 5), ("VACATE", 1)])
async def test_what_is_done_to_the_job_is_done_to_all_nodes(
    schedd: RunningAccessPoint, point: ExecutionPoint, action: str, status: int
) -> None:
    point.script = waits
    await submit(schedd, 3)
    await slots_wanted(schedd)
    await schedd.negotiate(point.address)
    await executes(schedd, 3)
    await schedd.act(action, "true")
    if action == "VACATE":
        await schedd.until(lambda: len(point.history) == 6)  # it starts again, with the claims that it has
        return
    await schedd.until(lambda: not table(schedd).gangs)
    (job,) = await schedd.jobs()
    assert (job["JobStatus"], job["CurrentHosts"]) == (status, 0)
    await schedd.until(lambda: [number for number, _ in entries(schedd)][-2:] == [4, 12])
    assert len(table(schedd).idle()) == 3
    await schedd.act("RELEASE", "true")
    await executes(schedd, 3)
    await schedd.act("REMOVE", "true")
    await finished(schedd)
    await schedd.until(lambda: entries(schedd)[-1][0] == 9)


async def test_a_node_whose_machine_is_taken_ends_the_others_and_the_job_starts_anew(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.script = waits
    await submit(schedd, 3)
    await slots_wanted(schedd)
    await schedd.negotiate(point.address)
    await executes(schedd, 3)
    victim = next(run for run in point.runs.values() if run.ad["Node"] == 1)
    del point.claims[victim.claim_id]
    point.tell(startd_pb2.ClaimEvent(claim_id=victim.claim_id, ended=startd_pb2.ClaimEnded(reason="preempted")))
    victim.killed.set()
    await schedd.until(lambda: not table(schedd).gangs)
    (job,) = await schedd.jobs()
    assert job["JobStatus"] == 1 and job["VacateReason"]
    await schedd.until(lambda: (4, 0) in entries(schedd))
    await slots_wanted(schedd)
    assert await schedd.negotiate(point.address) == 1, "two claims are still held"
    await executes(schedd, 3)
    assert {run_id.partition("#")[2][0] for run_id in point.history[3:]} == {"2"}


async def test_a_node_that_cannot_start_sends_the_job_back(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = waits
    point.refuse_activations = 1
    await submit(schedd, 3)
    await slots_wanted(schedd)
    await schedd.negotiate(point.address)
    await schedd.until(lambda: len(point.history) >= 2 and not table(schedd).gangs)
    (job,) = await schedd.jobs()
    assert job["JobStatus"] == 1
    await slots_wanted(schedd)
    await schedd.negotiate(point.address)
    await executes(schedd, 3)


async def test_the_next_schedd_takes_all_nodes_over(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(run_s=2.0 if ad["Node"] else 3.0)
    await submit(schedd, 3, ParallelShutdownPolicy="WAIT_FOR_ALL")
    await slots_wanted(schedd)
    await schedd.negotiate(point.address)
    await executes(schedd, 3)
    await schedd.kill()
    await schedd.start()
    await finished(schedd)
    assert len(point.history) == 3
    numbers = [number for number, _ in entries(schedd)]
    assert (numbers.count(22), numbers.count(23), numbers.count(15), numbers[-1]) == (1, 1, 3, 5)


async def test_the_end_of_a_node_is_kept_while_others_go_on(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(exit_code=6) if ad["Node"] == 0 else Script(run_s=2.0)
    await submit(schedd, 2, ParallelShutdownPolicy="WAIT_FOR_ALL")
    await slots_wanted(schedd)
    await schedd.negotiate(point.address)
    await schedd.until(lambda: (15, 0) in entries(schedd))
    await schedd.kill()
    await schedd.start()
    await finished(schedd)
    (past,) = await schedd.history()
    assert (past["ExitCode"], past["RemoteUserCpu"]) == (6, 2.0)
    assert entries(schedd).count((15, 0)) == 1


async def test_an_unused_claim_is_given_back_after_its_time(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(UNUSED_CLAIM_TIMEOUT="1")
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()
    try:
        await submit(schedd, 3)
        await slots_wanted(schedd)
        await schedd.negotiate(point.address, slots=2)
        await schedd.until(lambda: len(point.releases) == 2)
        assert not point.history and not table(schedd).claims
        await slots_wanted(schedd)
        assert await schedd.negotiate(point.address) == 3
        await finished(schedd)
    finally:
        await point.stop()
        await schedd.stop()


async def test_jobs_start_in_order_and_claims_that_are_in_the_way_are_given_back(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.script = lambda ad: Script(run_s=0.2)
    await submit(schedd, 2, AccountingGroup="others.ann")
    await slots_wanted(schedd)
    await schedd.negotiate(point.address)
    await submit(schedd, 4)
    await submit(schedd, 1)
    await schedd.until(lambda: len(point.releases) == 2)  # claims of another submitter
    await slots_wanted(schedd)
    assert await schedd.negotiate(point.address) == 4
    await finished(schedd)
    assert [run.partition("#")[0] for run in point.history] == ["1.0"] * 2 + ["2.0"] * 4 + ["3.0"]


async def test_a_job_with_all_its_claims_waits_for_job_start_delay(tmp_path: Path) -> None:
    """All nodes of a job are one start. The second job has the claims of the first as soon as that ends."""
    schedd = await RunningAccessPoint(tmp_path / "pool").start(JOB_START_DELAY="2")
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token, slots=5, script=lambda ad: Script(run_s=0))
    await point.start()
    try:
        for _ in range(2):
            await submit(schedd, 2)
        await slots_wanted(schedd)
        assert await schedd.negotiate(point.address) == 2
        await finished(schedd)
        first, second = sorted(ad["JobStartDate"] for ad in await schedd.history())
    finally:
        await point.stop()
        await schedd.stop()
    assert len(point.history) == 4
    assert second - first >= 2


async def test_the_procs_of_a_cluster_are_one_job(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    await submit(schedd, 1, 2)
    await slots_wanted(schedd)
    assert await schedd.negotiate(point.address) == 2
    await finished(schedd)
    assert sorted(point.history) == ["1.0#1.0", "1.1#1.1"]
    past = await schedd.history()
    assert [(ad["ProcId"], ad["JobStatus"], ad["ExitCode"]) for ad in sorted(past, key=lambda ad: ad["ProcId"])] == [
        (0, 4, 0),
        (1, 4, 0),
    ]
    assert [number for number, _ in entries(schedd)].count(0) == 1
    assert [number for number, _ in entries(schedd)].count(5) == 1


async def test_vanilla_jobs_do_not_use_claims_of_the_dedicated_scheduler(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    await submit(schedd, 3)
    await slots_wanted(schedd)
    await schedd.negotiate(point.address, slots=2)
    await gathered(schedd, 2)
    await schedd.submit(1)
    await asyncio.sleep(0)
    schedd.point.claiming.idle.use()
    assert not point.history and len(table(schedd).idle()) == 2


async def test_a_parallel_job_is_not_materialized_late(schedd: RunningAccessPoint) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="start together"):
        await submit(schedd, 2, JobMaterializeLimit=1)


async def test_a_pool_without_slots_of_the_scheduler_is_told_to_the_user(schedd: RunningAccessPoint) -> None:
    await submit(schedd, 2)
    dedicated = schedd.point.claiming.dedicated
    dedicated.places.slots = []
    dedicated.look()
    assert not dedicated.requests()

    async def told() -> bool:
        (job,) = await schedd.jobs()
        return "DedicatedScheduler@here" in str(job.get("LastRejMatchReason", ""))

    await schedd.until(told)
    dedicated.places.slots = [ClassAd({"Cpus": 1, "Memory": 1000, "Disk": 10**6}) for _ in range(2)]
    dedicated.look()
    assert dedicated.idle_count() == 2


async def test_the_slots_of_the_pool_are_looked_at_once_for_each_job(
    schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def counted(job: ClassAd, slots: Any) -> dict[str, int]:
        looks.append(int(str(job["ClusterId"])))
        return {"": 100}

    monkeypatch.setattr("slotwise.schedd.parallel.places.capacity", counted)
    dedicated = schedd.point.claiming.dedicated
    dedicated.places.slots = [ClassAd({"Cpus": 1})]
    for _ in range(3):
        await submit(schedd, 2)
    for _ in range(5):
        dedicated.look()
    assert looks == [1], "those behind the job that gathers wait unseen"
    dedicated.places.slots = [ClassAd({"Cpus": 1})]
    dedicated.look()
    assert looks == [1, 1]


def nested(text: str, deep: int) -> ExprTree:
    return ExprTree("(" * deep + text + ")" * deep)


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"Requirements": nested("true", 165)}, "leave no room"),
        ({"MaxHosts": 10**15, "RequestCpus": 1e-15}, "the most"),
        ({"RequestCpus": 5e-324, "Requirements": ExprTree("RequestCpus > 1")}, "hold 0 of its 2"),
        ({"WantParallelSchedulingGroups": ExprTree("1 / 0"), "Rank": ExprTree("1 / 0"), "MaxHosts": 4}, "hold 2 of"),
    ],
)
async def test_a_job_that_can_never_gather_is_in_nobodys_way(
    schedd: RunningAccessPoint, attributes: dict[str, Any], why: str
) -> None:
    await submit(schedd, 2, **attributes)
    await submit(schedd, 2)
    dedicated = schedd.point.claiming.dedicated
    dedicated.places.slots = [ClassAd({"Cpus": 1, "Memory": 1000, "Disk": 10**6}) for _ in range(2)]
    dedicated.look()
    assert [ad["FirstJobId"] for ad in dedicated.requests()] == ["2.0"]

    async def told() -> bool:
        return why in str((await schedd.jobs())[0].get("LastRejMatchReason", ""))

    await schedd.until(told)


async def test_many_jobs_do_not_keep_others_from_their_turn(
    schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotwise.schedd.parallel.dedicated_scheduler._PAUSE_S", 0.0)
    dedicated = schedd.point.claiming.dedicated
    dedicated.places.slots_most = 2
    for _ in range(4):
        await submit(schedd, 3)
    await submit(schedd, 2)
    dedicated.places.slots = [ClassAd({"Cpus": 1, "Memory": 1000, "Disk": 10**6})] * 2
    dedicated.look()
    assert dedicated.places.behind and not dedicated.requests()
    dedicated.places.slots = [ClassAd({"Cpus": 1, "Memory": 1000, "Disk": 10**6})] * 2
    await slots_wanted(schedd)
    assert [ad["FirstJobId"] for ad in dedicated.requests()] == ["5.0"]


async def test_no_other_job_passes_for_one_of_the_dedicated_scheduler(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(1, Scheduler="DedicatedScheduler@here")
    (job,) = await schedd.jobs()
    assert "Scheduler" not in job
    jobs = schedd_pb2.JobSelection(ids=[f"{cluster}.0"])
    edit = schedd_pb2.EditRequest(jobs=jobs, set={"scheduler": '"DedicatedScheduler@here"'})
    with pytest.raises(grpc.aio.AioRpcError, match="scheduler"):
        await schedd.stub.Edit(edit, metadata=schedd.as_user("mallory"))
    with pytest.raises(grpc.aio.AioRpcError, match="may not set Scheduler"):
        await schedd.submit(procs=[{"Scheduler": "DedicatedScheduler@here"}])


async def test_a_long_look_is_followed_by_a_rest(schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    dedicated = schedd.point.claiming.dedicated
    monkeypatch.setattr("slotwise.schedd.parallel.dedicated_scheduler._SHORT_S", -1.0)
    monkeypatch.setattr("slotwise.schedd.parallel.dedicated_scheduler._REST", 1e9)
    await submit(schedd, 2)
    await slots_wanted(schedd)
    looks: list[int] = []
    monkeypatch.setattr(dedicated, "look", lambda: looks.append(1))
    dedicated.soon()
    dedicated.soon()
    assert isinstance(dedicated._looks, asyncio.TimerHandle)
    assert dedicated._looks.when() > asyncio.get_running_loop().time() + 1000
    dedicated._looks.cancel()
    assert not looks
