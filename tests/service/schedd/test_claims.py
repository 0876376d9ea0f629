"""Claims: kept, refused, used again by the right jobs; what the negotiator hears of its matches."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import htcondor2
import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.lifecycle import run as run_lifecycle
from slotwise.table import unpack_ads
from slotwise.wire.gen import schedd_pb2, startd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script
from tests.support.faulty_point import FaultyPoint


def numbers(log: Path) -> list[int]:
    return [int(event.type) for event in htcondor2.JobEventLog(str(log)).events(stop_after=0)]


async def test_a_claim_is_kept_idle_for_the_next_job(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    await schedd.submit(KeepClaimIdle=30)
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    assert point.releases == []
    await schedd.submit(1)  # nobody negotiates for this one
    await schedd.until_gone()
    assert len(point.history) == 2


async def test_a_kept_claim_goes_with_its_lease_when_its_startd_does_not_outlive_the_schedd(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    await schedd.submit(KeepClaimIdle=30, JobLeaseDuration=2)
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    await schedd.kill()
    await point.stop()
    await schedd.start()
    table = schedd.point.claiming.claim_table
    assert len(table.claims) == 1

    async def given_back() -> bool:
        store = schedd.point.store
        return not table.claims and not store._load(store.reader()).claims

    await schedd.until(given_back)


async def test_a_startd_that_comes_back_learns_of_claims_that_were_given_back_meanwhile(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    let_go = asyncio.Event()
    point.script = lambda ad: Script(until=let_go)
    await schedd.submit(2)
    await schedd.negotiate(point.address, slots=2)

    async def running() -> bool:
        return len(await schedd.jobs("JobStatus == 2")) == 2

    await schedd.until(running)
    (link,) = schedd.point.claiming.links
    await point.lose_startd()

    async def tried() -> bool:
        return link._failures >= 2

    await schedd.until(tried)
    let_go.set()
    await schedd.until_gone()
    failures = link._failures

    async def tried_further() -> bool:
        return link._failures >= failures + 3

    await schedd.until(tried_further)
    assert len(point.claims) == 2 and not schedd.point.claiming.claim_table.claims
    await point.regain_startd()

    async def learnt() -> bool:
        return not point.claims

    await schedd.until(learnt)


@pytest.mark.parametrize(("wanted", "started"), [("true", 4), ("false", 1), ("", 1)])
async def test_one_match_of_a_partitionable_slot_serves_more_jobs_where_leftovers_are_claimed(
    tmp_path: Path, wanted: str, started: int
) -> None:
    running = await RunningAccessPoint(tmp_path / "pool").start(CLAIM_PARTITIONABLE_LEFTOVERS=wanted)
    point = ExecutionPoint(tmp_path / "ep.sock", running.daemon_token, slots=10)
    point.leftovers = 3
    point.script = lambda ad: Script(until_killed=True)
    await point.start()
    try:
        await running.submit(10)
        assert await running.negotiate(point.address, slots=1) == 1

        async def all_started() -> bool:
            return len(point.history) >= started

        await running.until(all_started)
        assert len(point.history) == started
    finally:
        await point.stop()
        await running.stop()


async def test_a_claim_says_how_often_its_schedd_tells_that_it_lives(tmp_path: Path) -> None:
    running = await RunningAccessPoint(tmp_path / "pool").start(ALIVE_INTERVAL="7")
    point = ExecutionPoint(tmp_path / "ep.sock", running.daemon_token)
    await point.start()
    try:
        await running.submit(1)
        await running.negotiate(point.address)
        await running.until_gone()
        assert point.alive_intervals == [7]
    finally:
        await point.stop()
        await running.stop()


async def test_jobs_of_other_submitters_do_not_use_a_claim(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.slots = 1
    await schedd.submit(1)
    await schedd.submit(1, AccountingGroup="other.group")
    assert await schedd.negotiate(point.address, slots=1) == 1

    async def one_left() -> bool:
        return len(await schedd.jobs()) == 1

    await schedd.until(one_left)
    assert len(point.releases) == 1


async def test_jobs_that_wait_are_tried_once_on_slots_that_are_alike(
    schedd: RunningAccessPoint, point: ExecutionPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty running jobs are removed while jobs of fifty kinds wait that fit no slot: some fifty tries, not 2,000."""
    point.slots = 40
    point.script = lambda ad: Script(until_killed=True)
    cluster = await schedd.submit(40)
    await schedd.negotiate(point.address, slots=40)

    async def executing() -> bool:
        return sum(run.executing_at > 0 for run in schedd.point.claiming.claim_table.runs.values()) == 40

    await schedd.until(executing)
    procs = [{"RequestMemory": 5000 + number} for number in range(50)]
    waiting = await schedd.submit(procs=procs, Requirements=ExprTree("TARGET.Memory >= RequestMemory"))
    tried: list[int] = []
    matches = schedd.point.ads.matches

    def counted(job: Job, machine: ClassAd) -> bool:
        tried.append(job.cluster.number)
        return matches(job, machine)

    monkeypatch.setattr(schedd.point.ads, "matches", counted)
    await schedd.act("REMOVE", f"ClusterId == {cluster}")

    async def released() -> bool:
        return len(point.releases) == 40 and not schedd.point.claiming.claim_table.claims

    await schedd.until(released)
    assert {ad["ClusterId"] for ad in await schedd.jobs()} == {waiting}
    assert 50 <= len(tried) < 200


async def test_a_job_that_fits_is_found_behind_many_that_do_not(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    """Also when it comes after slots like this one had found nothing."""
    point.slots = 3
    point.script = lambda ad: Script(until_killed=ad["ClusterId"] == first)
    first = await schedd.submit(3)
    await schedd.negotiate(point.address, slots=3)

    async def executing() -> bool:
        return sum(run.executing_at > 0 for run in schedd.point.claiming.claim_table.runs.values()) == 3

    await schedd.until(executing)
    procs = [{"RequestMemory": 5000 + number} for number in range(20)]
    await schedd.submit(procs=procs, Requirements=ExprTree("TARGET.Memory >= RequestMemory"))
    await schedd.act("REMOVE", f"ClusterId == {first} && ProcId == 0")
    await schedd.until(lambda: _released(point, 1))
    fitting = await schedd.submit(1, Requirements=ExprTree("TARGET.Memory >= RequestMemory"))
    await schedd.act("REMOVE", f"ClusterId == {first} && ProcId == 1")

    async def ran() -> bool:
        return any(run.startswith(f"{fitting}.") for run in point.history)

    await schedd.until(ran)


async def _released(point: ExecutionPoint, count: int) -> bool:
    return len(point.releases) == count


async def test_a_refused_claim_leaves_the_job_runnable(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.refuse_claims = True
    await schedd.submit(1)
    await schedd.negotiate(point.address)
    point.refuse_claims = False

    async def matched() -> bool:
        await schedd.negotiate(point.address)
        return not await schedd.jobs()

    await schedd.until(matched)
    assert len(point.history) == 1


async def test_the_negotiator_is_told_what_became_of_its_matches(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.refuse_claims = True
    await schedd.submit(1)

    async def told(what: int) -> bool:
        await schedd.negotiate(point.address)
        return any(outcome.what == what for outcome in schedd.outcomes)

    await schedd.until(lambda: told(schedd_pb2.MatchOutcome.OVER))
    refused = schedd.outcomes[0]
    assert (refused.match_id, refused.count) == (1, 1)
    point.refuse_claims = False
    await schedd.until(lambda: told(schedd_pb2.MatchOutcome.CLAIMED))
    claimed = schedd.outcomes[-1] if schedd.outcomes[-1].slot_names else schedd.outcomes[-2]
    assert len(claimed.slot_names) == 1

    async def given_back() -> bool:
        await schedd.negotiate(point.address)
        outcomes = [f.what for f in schedd.outcomes if f.match_id == claimed.match_id]
        return outcomes == [schedd_pb2.MatchOutcome.CLAIMED, schedd_pb2.MatchOutcome.OVER]

    await schedd.until(given_back)


async def test_procs_may_differ_in_significant_attributes(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    await schedd.submit(procs=[{"RequestMemory": 100 + p % 2, "Args": str(p)} for p in range(6)])
    query = schedd_pb2.ResourceRequestsQuery(significant_attributes=["RequestMemory"], with_submitters=True)
    from slotwise.table import unpack_ads

    found: list[Any] = []
    submitters: list[Any] = []
    async for reply in schedd.stub.ResourceRequests(query, metadata=schedd.daemon):
        found += unpack_ads(reply.pack) if reply.pack else []
        submitters += unpack_ads(reply.submitters) if reply.submitters else []
    assert [(ad["RequestMemory"], ad["ResourceRequestCount"]) for ad in found] == [(100, 3), (101, 3)]
    assert [(ad["Name"], ad["IdleJobs"]) for ad in submitters] == [(f"{schedd.owner}@here", 6)]


async def test_a_refused_activation_sends_the_job_to_another_slot(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.refuse_activations = 1
    await schedd.submit(1, UserLog="j.log")
    await schedd.negotiate(point.address)

    async def done() -> bool:
        await schedd.negotiate(point.address)
        return not await schedd.jobs()

    await schedd.until(done)
    await schedd.point.committer._idle.wait()
    assert numbers(schedd.home.root / "j.log") == [0, 1, 5]
    assert len(point.history) == 1


async def tell_excess(schedd: RunningAccessPoint, submitter: str, keep: float, slots: int) -> None:
    """What a negotiator says of the first claims that the pretended execution point granted."""
    batch = schedd_pb2.MatchBatch(cycle=1, negotiator_name="test", excess_lasts_s=60)
    names = [f"slot1_{number}@ep" for number in range(1, slots + 1)]
    batch.excess.add(submitter=submitter, slot_names=names, weights=[1.0] * slots, keep=keep)
    await schedd.stub.OfferMatches(batch, metadata=schedd.daemon)


async def test_claims_beyond_a_share_go_when_their_jobs_end_and_the_others_go_on(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.slots, jobs = 4, 60
    point.script = lambda ad: Script(run_s=0.02)
    await schedd.submit(jobs)
    (submitter,) = {ad["User"] for ad in await schedd.jobs()}
    await schedd.negotiate(point.address, slots=4)

    async def four_run() -> bool:
        return len(point.claim_runs) == 4

    await schedd.until(four_run)
    await tell_excess(schedd, submitter, keep=1.0, slots=4)

    async def three_went() -> bool:
        return len(point.releases) == 3

    await schedd.until(three_went)
    assert len(point.claims) == 1
    assert await schedd.jobs(), "they did not wait for the last job"
    await schedd.until_gone()
    assert len(point.history) == jobs

    async def all_went() -> bool:
        return len(point.releases) == len(set(point.releases)) == 4

    await schedd.until(all_went)


async def test_a_claim_kept_idle_goes_at_once_when_others_wait(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.slots = 2
    await schedd.submit(2, KeepClaimIdle=600)
    (submitter,) = {ad["User"] for ad in await schedd.jobs()}
    await schedd.negotiate(point.address, slots=2)
    await schedd.until_gone()
    assert point.releases == []
    await tell_excess(schedd, submitter, keep=1.0, slots=2)

    async def one_went() -> bool:
        return len(point.releases) == 1

    await schedd.until(one_went)
    await schedd.submit(1, KeepClaimIdle=600)
    await schedd.until_gone()
    assert len(point.releases) == 1


@pytest.mark.parametrize("hold", [False, True])
async def test_the_startds_own_cause_reaches_a_job_whose_starter_is_lost_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: bool
) -> None:
    monkeypatch.setattr(run_lifecycle, "GRACE_S", 0.1)
    schedd = await RunningAccessPoint(tmp_path / "pool").start()
    point = FaultyPoint(tmp_path / "ep.sock", schedd.daemon_token, Random(1), slots=1)
    point.script = lambda ad: Script(until_killed=True)
    await point.start()
    try:
        await schedd.submit(UserLog="j.log", JobBatchName="a batch")
        await schedd.negotiate(point.address)

        async def running() -> bool:
            return bool(await schedd.jobs("NumJobStarts == 1"))

        await schedd.until(running)
        (claim_id,) = point.claims
        reason = "The machine is being drained"
        ended = startd_pb2.ClaimEnded(reason=reason, reason_code=1014, reason_subcode=3, hold=hold)
        point.tell(startd_pb2.ClaimEvent(claim_id=claim_id, ended=ended))
        point.break_shadow()
        for run in list(point.runs.values()):
            point._forget(run)

        async def evicted() -> bool:
            schedd.point.claiming.upkeep.tick()
            return bool(await schedd.jobs("JobStatus != 2"))

        await schedd.until(evicted)
        (ad,) = await schedd.jobs()
        if hold:
            assert (ad["HoldReason"], ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (ended.reason, 21, 3)
        else:
            assert (ad["VacateReason"], ad["VacateReasonCode"], ad["VacateReasonSubCode"]) == (ended.reason, 1014, 3)
        await schedd.point.committer._idle.wait()
        assert "Reason: The machine is being drained\n" in (schedd.home.root / "j.log").read_text()
        assert '\n    [ JobBatchName = "a batch" ]\n' in (schedd.home.root / "j.log").read_text()
    finally:
        await schedd.stop()
        await point.stop()


async def test_a_transfer_that_fails_after_its_run_leaves_the_next_run_on_the_claim_alone(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.slots = 1
    point.script = lambda ad: Script(until_killed=True)
    await schedd.submit(2)
    await schedd.negotiate(point.address, slots=1)
    runs = schedd.point.claiming.claim_table.runs

    async def executing() -> bool:
        return any(run.executing_at > 0 for run in runs.values())

    await schedd.until(executing)
    (first,) = runs.values()
    first_over = asyncio.Event()

    async def fail_late() -> None:
        await first_over.wait()
        raise OSError("no space left on device")

    schedd.point.transfers.spawn(first, fail_late)
    (task,) = schedd.point.transfers.tasks
    await schedd.act("HOLD", f"ProcId == {first.job.proc}")

    async def followed() -> bool:
        return any(run.executing_at > 0 for run in runs.values() if run is not first)

    await schedd.until(followed)
    (second,) = runs.values()
    assert second.claim is first.claim, "the claim serves the next job"
    first_over.set()
    await task
    assert list(runs.values()) == [second] and not second.failed
    assert first.claim.id in schedd.point.claiming.claim_table.claims and not point.releases


async def requirements_asked(schedd: RunningAccessPoint) -> list[str]:
    query = schedd_pb2.ResourceRequestsQuery(significant_attributes=["RequestMemory"])
    found: list[str] = []
    async for reply in schedd.stub.ResourceRequests(query, metadata=schedd.daemon):
        found += [str(ad.lookup("Requirements")) for ad in unpack_ads(reply.pack)] if reply.pack else []
    return found


async def test_jobs_tell_that_their_execution_point_cannot_be_reached_and_it_is_left_out(
    schedd: RunningAccessPoint, tmp_path: Path
) -> None:
    await schedd.submit(1)

    async def failed(times: int) -> bool:
        (ad,) = await schedd.jobs()
        return int(ad.get("NumFailedStarts", 0)) >= times

    for times in (1, 2):
        await schedd.negotiate(f"unix:{tmp_path}/nobody.sock")
        await schedd.until(lambda times=times: failed(times))
    (ad,) = await schedd.jobs()
    assert ad["LastFailedStartSlot"] == "slot1@ep"
    assert ad["LastFailedStartReason"].startswith("its startd cannot be reached: ")
    (asked,) = await requirements_asked(schedd)
    assert 'TARGET.Name isnt "slot1@ep"' in asked


async def test_a_slot_that_refuses_again_and_again_is_left_out_until_a_reconfig(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    point.refuse_claims = True
    await schedd.submit(1)

    async def refused_twice() -> bool:
        await schedd.negotiate(point.address)
        (ad,) = await schedd.jobs()
        return int(ad.get("NumFailedStarts", 0)) >= 2

    await schedd.until(refused_twice)
    (asked,) = await requirements_asked(schedd)
    assert 'TARGET.Name isnt "slot1@ep"' in asked
    schedd.point.claiming.refusals.clear()  # as a reconfig does
    (asked,) = await requirements_asked(schedd)
    assert "slot1@ep" not in asked


@pytest.mark.parametrize(("rank", "follows"), [("TARGET.Good ?: 0", False), ("0.0", True), ("TARGET.NoSuch", True)])
async def test_a_claim_does_not_pass_to_a_job_that_its_machine_ranks_lower(
    schedd: RunningAccessPoint, point: ExecutionPoint, rank: str, follows: bool
) -> None:
    point.slots = 1
    plain = point.slot_ad

    def ranking(name: str) -> ClassAd:
        ad = plain(name)
        ad["Rank"], ad["CurrentRank"] = ExprTree(rank), 5.0 if "Good" in rank else 0.0
        return ad

    point.slot_ad = ranking  # type: ignore[method-assign]
    await schedd.submit(1, Good=5)
    await schedd.submit(1, Good=4)
    assert await schedd.negotiate(point.address, slots=1) == 1

    async def over() -> bool:
        return bool(point.releases)

    await schedd.until(over)
    assert len(await schedd.jobs()) == (0 if follows else 1)
