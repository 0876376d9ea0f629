"""The schedd dies at any moment: no job is lost, none completes twice, none runs in two places.

A death is played by abandoning everything in memory and never letting it act again, while what was committed stays; the
execution point lives on. A ``Doom`` ends the process at a chosen commit, before or after it.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import htcondor2
import pytest
from msgspec.structs import replace
from slotwise.wire.gen import schedd_pb2, startd_pb2
from slotwise.wire.keys import SigningKey, public_text

from tests.support.access_point import Doom, RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script, _StarterSide


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    yield tmp_path / "pool"


async def started(root: Path) -> RunningAccessPoint:
    return await RunningAccessPoint(root).start()


def events_of(log: Path) -> dict[tuple[int, int], list[int]]:
    """Event numbers by job, as HTCondor's reader sees the log."""
    found: dict[tuple[int, int], list[int]] = {}
    for event in htcondor2.JobEventLog(str(log)).events(stop_after=0):
        found.setdefault((event.cluster, event.proc), []).append(int(event.type))
    return found


async def finish(root: Path, point: ExecutionPoint) -> RunningAccessPoint:
    """A new schedd takes over and everything is done."""
    running = await started(root)

    async def done() -> bool:
        if not await running.jobs():
            return True
        await running.negotiate(point.address, slots=20)
        return False

    async def written() -> bool:
        return len(await running.history()) == 8

    await running.until(done)
    await running.until(written)
    await running.point.committer._idle.wait()
    return running


async def test_thousands_of_running_jobs_are_taken_up_again(home: Path, tmp_path: Path) -> None:
    """A schedd that dies with 3,000 running jobs at six execution points finds each of them where it runs."""
    jobs, points = 3000, []
    schedd = await RunningAccessPoint(home).start(MAX_JOBS_RUNNING=str(jobs))
    for name in ("a", "b", "c", "d", "e", "f"):
        point = ExecutionPoint(tmp_path / f"{name}.sock", schedd.daemon_token, slots=jobs // 6, name=name)
        point.script = lambda ad: Script(until_killed=True)
        points.append(point)
        await point.start()

    async def spoken() -> bool:
        runs = schedd.point.claiming.claim_table.runs.values()
        return sum(run.executing_at > 0 and run.stream is not None for run in runs) == jobs

    await schedd.submit(jobs, UserLog="job.log")
    for point in points:
        await schedd.negotiate(point.address, slots=jobs // 6, name=point.name)
    await schedd.until(spoken)
    await schedd.kill()
    await schedd.start(MAX_JOBS_RUNNING=str(jobs))
    await schedd.until(spoken)
    assert [len(point.history) for point in points] == [jobs // 6] * 6, "none was started again"
    assert not any(point.releases for point in points)
    await schedd.act("REMOVE", "true")
    await schedd.until_gone()
    assert [len(set(point.releases)) for point in points] == [jobs // 6] * 6

    async def all_logged() -> bool:  # jobs are gone from the queue a moment before their removal is durable
        return (home / "job.log").read_text().count("\n009 (") == jobs

    await schedd.until(all_logged)
    seen = events_of(home / "job.log")
    assert len(seen) == jobs
    assert {tuple(numbers) for numbers in seen.values()} == {(0, 1, 22, 23, 4, 9)}
    await schedd.stop()
    for point in points:
        await point.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("commit_last", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("after", range(14))
async def test_killed_at_a_commit(home: Path, tmp_path: Path, after: int, commit_last: bool) -> None:
    first = await started(home)
    point = ExecutionPoint(tmp_path / "ep.sock", first.daemon_token, slots=3)
    point.script = lambda ad: Script(run_s=0.02, outputs={f"out.{ad['ProcId']}": b"done\n"})
    await point.start()
    try:
        cluster = await first.submit(8, UserLog="job.log")
        doom = Doom(first.point.store, after, commit_last=commit_last)
        await first.negotiate(point.address)
        waits = [asyncio.ensure_future(doom.dead.wait()), asyncio.ensure_future(first.until_gone())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await first.kill()
        second = await finish(home, point)
        try:
            history = await second.history()
            assert sorted(ad["ProcId"] for ad in history) == list(range(8))
            assert all(ad["JobStatus"] == 4 for ad in history)
            log = events_of(home / "job.log")
            assert sorted(log) == [(cluster, proc) for proc in range(8)]
            for numbers in log.values():
                assert numbers.count(0) == 1, log
                assert numbers.count(5) == 1, log
                assert numbers[-1] == 5, log
            assert not point.overlaps
            assert all((home / f"out.{proc}").read_text() == "done\n" for proc in range(8))
            second.point.queue.validate()
        finally:
            await second.stop()
    finally:
        await point.stop()


async def test_running_jobs_are_attached_again(home: Path, tmp_path: Path) -> None:
    first = await started(home)
    point = ExecutionPoint(tmp_path / "ep.sock", first.daemon_token, slots=3)
    point.script = lambda ad: Script(run_s=1.5)
    await point.start()
    try:
        cluster = await first.submit(2, UserLog="job.log")
        await first.negotiate(point.address)

        async def running() -> bool:
            return len(await first.jobs("JobStatus == 2 && NumJobStarts == 1")) == 2

        await first.until(running)
        await first.kill()
        second = await started(home)
        await second.until_gone()

        async def all_logged() -> bool:
            return [events[-1:] for events in events_of(home / "job.log").values()] == [[5], [5]]

        await second.until(all_logged)
        assert len(point.history) == 2, "no job was started again"
        log = events_of(home / "job.log")
        for proc in range(2):
            assert log[(cluster, proc)] == [0, 1, 22, 23, 5]
        await second.stop()
    finally:
        await point.stop()


async def test_a_break_is_told_once_however_often_the_schedd_dies(home: Path, tmp_path: Path) -> None:
    schedd = await started(home)
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token, slots=1)
    point.script = lambda ad: Script(run_s=1.0)
    await point.start()
    try:
        cluster = await schedd.submit(1, UserLog="job.log")
        await schedd.negotiate(point.address)

        async def running() -> bool:
            return len(await schedd.jobs("NumJobStarts == 1")) == 1

        await schedd.until(running)
        for _ in range(3):
            await schedd.kill()
            schedd = await started(home)
        await schedd.until_gone()
        await schedd.point.committer._idle.wait()
        numbers = events_of(home / "job.log")[(cluster, 0)]
        assert numbers[:2] == [0, 1]
        assert numbers[-1] == 5
        assert numbers[2:-1] in ([22, 23], [22, 23] * 2, [22, 23] * 3), "each break has its end before the next begins"
        await schedd.stop()
    finally:
        await point.stop()


async def test_a_claim_that_is_gone_sends_the_job_back(home: Path, tmp_path: Path) -> None:
    first = await started(home)
    point = ExecutionPoint(tmp_path / "ep.sock", first.daemon_token, slots=3)
    point.script = lambda ad: Script(until_killed=True)
    await point.start()
    cluster = await first.submit(1, UserLog="job.log")
    await first.negotiate(point.address)

    async def running() -> bool:
        return len(await first.jobs("NumJobStarts == 1")) == 1

    await first.until(running)
    await first.kill()
    await point.stop()
    shutil.rmtree(tmp_path / "ep.sock", ignore_errors=True)
    fresh = ExecutionPoint(tmp_path / "ep.sock", first.daemon_token, slots=3)
    await fresh.start()
    second = await started(home)
    try:

        async def idle() -> bool:
            # The startd does not know the claim; no starter speaks, so the grace must pass.
            for run in second.point.claiming.claim_table.runs.values():
                if run.claim.gone and run.state.silence is not None:
                    run.state = replace(run.state, silence=run.state.silence.at_most(1.0))
            return len(await second.jobs("JobStatus == 1")) == 1

        await second.until(idle)
        await second.point.committer._idle.wait()
        assert events_of(home / "job.log")[(cluster, 0)][-2:] == [24, 4]
        await second.negotiate(fresh.address)
        await second.until_gone()
    finally:
        await second.stop()
        await fresh.stop()


async def test_a_restart_changes_no_ad(home: Path) -> None:
    first = await started(home)
    cluster = await first.submit(
        procs=[{"Args": str(p), "JobPrio": p} if p % 2 else {} for p in range(6)], UserLog="job.log", JobBatchName="b"
    )
    await first.submit(2, JobStatus=5)
    request = schedd_pb2.ActRequest(action=schedd_pb2.ActRequest.HOLD, reason="wait", subcode=3)
    request.jobs.ids.append(f"{cluster}.2")
    await first.stub.Act(request, metadata=first.user)
    edit = schedd_pb2.EditRequest()
    edit.jobs.ids.append(f"{cluster}.3")
    edit.set["Note"] = "1 + ProcId"
    edit.set["JobPrio"] = "17"
    await first.stub.Edit(edit, metadata=first.user)
    before = {(ad["ClusterId"], ad["ProcId"]): ad for ad in await first.jobs()}
    order = [request.first.key for request in first.point.queue.runnable.requests(f"{first.owner}@here")]
    assert len(before) == 8
    await first.kill()
    second = await started(home)
    try:
        after = {(ad["ClusterId"], ad["ProcId"]): ad for ad in await second.jobs()}
        assert {key: dict(sorted(ad.items(), key=str)) for key, ad in after.items()} == {
            key: dict(sorted(ad.items(), key=str)) for key, ad in before.items()
        }
        second.point.requests.assign()
        again = [r.first.key for r in second.point.queue.runnable.requests(f"{second.owner}@here")]
        assert again[0] == f"{cluster}.3"
        assert not order or again == order
        assert await second.submit(1) == cluster + 2, "cluster ids go on"
        second.point.queue.validate()
    finally:
        await second.stop()


async def test_completed_jobs_are_still_counted_after_a_restart(home: Path, tmp_path: Path) -> None:
    first = await started(home)
    point = ExecutionPoint(tmp_path / "ep.sock", first.daemon_token, slots=2)
    await point.start()
    try:
        cluster = await first.submit(procs=[{"JobPrio": 1}, {"JobPrio": 1}, {"JobStatus": 5}])
        await first.negotiate(point.address)

        async def one_left() -> bool:
            return len(await first.history()) == 2

        await first.until(one_left)
        await first.kill()
        second = await started(home)
        assert (second.point.queue.clusters[cluster].done, second.point.queue.clusters[cluster].total) == (2, 3)
        await second.stop()
    finally:
        await point.stop()


async def test_a_claim_keeps_its_concurrency_limits(home: Path, tmp_path: Path) -> None:
    """What was matched for jobs with limits serves only such jobs, also after a restart of the schedd."""
    first = await started(home)
    point = ExecutionPoint(tmp_path / "ep.sock", first.daemon_token, slots=1)
    point.script = lambda ad: Script(until_killed=True)
    await point.start()
    try:
        cluster = await first.submit(2, ConcurrencyLimits="db")
        await first.negotiate(point.address)

        async def running() -> bool:
            return len(await first.jobs("NumJobStarts == 1")) == 1

        await first.until(running)
        await first.submit(1, JobPrio=10)  # it would come first if it were allowed
        await first.kill()
        second = await started(home)
        assert [claim.limits for claim in second.point.claiming.claim_table.claims.values()] == ["db"]
        await second.act("REMOVE", f"ClusterId == {cluster} && ProcId == 0")

        async def follows() -> bool:
            return len(point.history) == 2

        await second.until(follows)
        assert point.history == [f"{cluster}.0#1", f"{cluster}.1#1"]
        await second.stop()
    finally:
        await point.stop()


async def test_a_removal_reaches_its_run_through_the_death_of_the_schedd(home: Path, tmp_path: Path) -> None:
    first = await started(home)
    point = ExecutionPoint(tmp_path / "ep.sock", first.daemon_token, slots=1)
    point.script = lambda ad: Script(until_killed=True)
    await point.start()
    try:
        await first.submit(1, UserLog="job.log")
        await first.negotiate(point.address)

        async def running() -> bool:
            return len(await first.jobs("NumJobStarts == 1")) == 1

        await first.until(running)
        first.point.shadows.kill = lambda run, kill: None  # type: ignore[method-assign]
        await first.act("REMOVE", "true")
        await first.kill()
        second = await started(home)
        await second.until_gone()

        async def acknowledged() -> bool:
            return not point.runs

        await second.until(acknowledged)
        await second.stop()
    finally:
        await point.stop()


async def test_a_host_that_was_reset_untold_has_lost_its_run(home: Path, tmp_path: Path) -> None:
    """Its former streams still look open; a new one comes, and its startd has nothing on the slot."""
    schedd = await started(home)
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token, slots=1)
    point.script = lambda ad: Script(until_killed=not point.history[1:])
    await point.start()
    try:
        cluster = await schedd.submit(1, UserLog="job.log")
        await schedd.negotiate(point.address)

        async def running() -> bool:
            return len(await schedd.jobs("NumJobStarts == 1")) == 1

        await schedd.until(running)
        (run,) = point.runs.values()
        point.runs.clear()
        point.claim_runs.clear()
        side = point._starters[run.address] = _StarterSide(point, run.address)
        point.spawn(side.talk())
        state = startd_pb2.ClaimState(state="Claimed", activity="Idle", run_id=run.run_id)
        point.tell(startd_pb2.ClaimEvent(claim_id=run.claim_id, state=state))

        async def done() -> bool:
            await schedd.negotiate(point.address)
            return not await schedd.jobs()

        await schedd.until(done)
        await schedd.point.committer._idle.wait()
        assert events_of(home / "job.log")[(cluster, 0)] == [0, 1, 22, 24, 4, 1, 5]
    finally:
        await schedd.stop()
        await point.stop()


async def test_jobs_on_a_host_that_is_removed_from_the_pool_run_elsewhere(home: Path, tmp_path: Path) -> None:
    """Its access point went on using the claims there; what it was told of their ends counts for nothing now."""
    schedd = await started(home)
    points = [ExecutionPoint(tmp_path / f"{name}.sock", schedd.daemon_token, name=name) for name in ("ep", "other")]
    removed, other = points
    removed.script = lambda ad: Script(until_killed=True)
    for point in points:
        await point.start()
    try:
        cluster = await schedd.submit(2, UserLog="job.log")
        await schedd.negotiate(removed.address)

        async def executing() -> bool:
            return sum(run.executing_at > 0 for run in schedd.point.claiming.claim_table.runs.values()) == 2

        await schedd.until(executing)
        # Of a host that was removed, and by now another, all that is known is that.
        key = public_text(SigningKey.generate().public)
        schedd.secrets.revoke_host("EP", key, time.time())
        schedd.point._context.authenticator.refresh()
        await schedd.until(lambda: _is_idle(schedd, 2))
        assert sorted(removed.releases) == sorted(set(removed.releases)) and len(removed.releases) == 2
        await schedd.negotiate(other.address, name=other.name)
        await schedd.until_gone()
        await schedd.point.committer._idle.wait()
        events = events_of(home / "job.log")
        assert [events[(cluster, proc)] for proc in range(2)] == [[0, 1, 24, 4, 1, 5]] * 2
        assert {ad["LastRemoteHost"].partition("@")[2] for ad in await schedd.history()} == {"other"}

        # A host of the same name that is in the pool since then keeps its claims, whatever restarts.
        await schedd.submit(1, UserLog="again.log")
        await schedd.negotiate(removed.address)

        async def again() -> bool:
            return any(run.executing_at for run in schedd.point.claiming.claim_table.runs.values())

        await schedd.until(again)
        await schedd.kill()
        schedd = await started(home)
        await schedd.until(lambda: _connected(schedd, removed))
        schedd.point.claiming.upkeep.tick()
        assert len(removed.releases) == 2
        (run,) = schedd.point.claiming.claim_table.runs.values()
        assert run.goes_on and not run.over
    finally:
        await schedd.stop()
        for point in points:
            await point.stop()


async def _is_idle(schedd: RunningAccessPoint, count: int) -> bool:
    return len(await schedd.jobs("JobStatus == 1")) == count


async def _connected(schedd: RunningAccessPoint, point: ExecutionPoint) -> bool:
    return schedd.point.claiming.links.connected(point.address) is not None
