"""Jobs from submission to history, over real gRPC, with a pretended execution point."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import htcondor2
import pytest
from slotwise.classad import ClassAd
from slotwise.clock import ManualClock, SystemClock
from slotwise.daemon.history_file import Rotation, read_ads
from slotwise.schedd.history import epochs
from slotwise.schedd.history.epochs import RunHistorySettings, RunRecord
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.transfer.transfer_status import TransferStatus
from slotwise.table import pack_ads
from slotwise.wire.gen import startd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.ads import number_of
from tests.support.command import command
from tests.support.execution_point import ExecutionPoint, Script
from tests.support.waiting import LIMIT_S


async def test_a_job_runs_and_goes_to_history(
    schedd: RunningAccessPoint, point: ExecutionPoint, tmp_path: Path
) -> None:
    point.script = lambda ad: Script(exit_code=3, outputs={"_condor_stdout": b"hello\n", "made.txt": b"x"})
    cluster = await schedd.submit(Out="out.txt", UserLog="job.log")
    assert await schedd.negotiate(point.address) == 1
    await schedd.until_gone()
    (ad,) = await schedd.history()
    assert (ad["ClusterId"], ad["ProcId"], ad["JobStatus"], ad["ExitCode"]) == (cluster, 0, 4, 3)
    assert ad["Owner"] == schedd.owner
    assert ad["NumJobStarts"] == 1
    root = schedd.home.root
    assert (root / "out.txt").read_bytes() == b"hello\n"
    assert (root / "made.txt").read_bytes() == b"x"


async def test_claims_serve_one_job_after_another(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    await schedd.submit(20)
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    assert len(point.history) == 20
    assert not point.overlaps
    assert len(point.releases) == point.slots


async def test_many_activations_travel_in_frames_that_the_startd_takes(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    """The pretended startd takes messages of 4 MiB, gRPC's default; all activations together are 8 MiB."""
    point.slots = 400
    point.script = lambda ad: Script(until_killed=True)
    await schedd.submit(400, Environment="x=" + "y" * 20_000)
    await schedd.negotiate(point.address, slots=400)

    async def executing() -> bool:
        return sum(run.executing_at > 0 for run in schedd.point.claiming.claim_table.runs.values()) == 400

    await schedd.until(executing)
    assert len(point.history) == 400
    assert not point.overlaps
    await schedd.act("REMOVE", "true")
    await schedd.until_gone()
    assert len(set(point.releases)) == 400


async def test_the_log_tells_of_files_that_moved(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(outputs={"made": b"x"})
    (schedd.home.root / "in").write_text("x")
    await schedd.submit(TransferInput="in", UserLog="job.log")
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    await schedd.point.committer._idle.wait()
    log = htcondor2.JobEventLog(str(schedd.home.root / "job.log"))
    assert [int(event.type) for event in log.events(stop_after=0)] == [0, 40, 40, 1, 40, 40, 5]


async def test_inputs_wait_for_their_turn_and_the_log_tells(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(MAX_CONCURRENT_UPLOADS="1")
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()
    try:
        (schedd.home.root / "in").write_bytes(b"x" * 5_000_000)
        await schedd.submit(4, TransferInput="in", UserLog="job.log")
        await schedd.negotiate(point.address)
        await schedd.until_gone()
        await schedd.point.committer._idle.wait()
        text = (schedd.home.root / "job.log").read_text()
        assert text.count("Started transferring input files") == text.count("Finished transferring input files") == 4
        assert text.count("Entered queue to transfer input files") == text.count("Seconds spent in queue: ") == 3
        log = htcondor2.JobEventLog(str(schedd.home.root / "job.log"))
        assert [int(event.type) for event in log.events(stop_after=0)].count(40) == 11
    finally:
        await point.stop()
        await schedd.stop()


async def test_inputs_of_one_user_wait_where_only_the_limit_of_each_user_is_reached(tmp_path: Path) -> None:
    """MAX_CONCURRENT_UPLOADS_PER_USER by itself: MAX_CONCURRENT_UPLOADS leaves room for all."""
    schedd = await RunningAccessPoint(tmp_path / "pool").start(MAX_CONCURRENT_UPLOADS_PER_USER="1")
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()
    try:
        (schedd.home.root / "in").write_bytes(b"x" * 5_000_000)
        uploads = schedd.point.transfers.uploads
        await uploads.enter("somebody else")
        await schedd.submit(4, TransferInput="in", UserLog="job.log")
        await schedd.negotiate(point.address)
        await schedd.until_gone()
        await schedd.point.committer._idle.wait()
        text = (schedd.home.root / "job.log").read_text()
        assert text.count("Finished transferring input files") == 4
        assert text.count("Entered queue to transfer input files") == text.count("Seconds spent in queue: ") == 3
        assert (uploads.active, uploads.must_wait("somebody else"), uploads.most) == (1, True, 100)
    finally:
        await point.stop()
        await schedd.stop()


async def test_q_shows_jobs_that_move_files(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(MAX_CONCURRENT_UPLOADS="1")
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()
    try:
        (schedd.home.root / "in").write_text("x")
        uploads = schedd.point.transfers.uploads
        await uploads.enter("somebody else")
        cluster = await schedd.submit(1, TransferInput="in", LeaveJobInQueue=True)
        await schedd.negotiate(point.address)

        async def shown(*words: str) -> str:
            token = schedd.token_file(schedd.owner)
            return (await command(schedd.home.root, "q", *words, token=token)).out

        async def waits() -> bool:
            return " <q " in await shown("-nobatch")

        await schedd.until(waits)
        assert f"  {cluster}.0 " in await shown("-io")
        uploads.leave("somebody else")

        async def completed() -> bool:
            return bool(await schedd.jobs("JobStatus == 4"))

        await schedd.until(completed)
        assert f"  {cluster}.0 " not in await shown("-io")
    finally:
        await point.stop()
        await schedd.stop()


async def test_signs_are_shown_of_transfers_that_last() -> None:
    shown: list[tuple[str, Changes]] = []
    status = TransferStatus(lambda job, changes: shown.append((job, changes)), shown_after_s=0.0)
    status.begin("1.0#1", "1.0", inputs=True)
    status.end("1.0#1")
    await asyncio.sleep(0)
    assert shown == []
    status.begin("1.0#2", "1.0", inputs=False)
    status.begin("1.0#2", "1.0", inputs=False)
    while not shown:
        await asyncio.sleep(0)
    status.begin("1.0#2", "1.0", inputs=False)
    assert status.letters == {"1.0": ">"}
    status.end("1.0#2")
    status.end("1.0#2")
    assert status.letters == {}
    none = {"TransferringInput": None, "TransferringOutput": None, "TransferQueued": None}
    assert shown == [("1.0", {"TransferringOutput": True}), ("1.0", none)]


async def test_start_vanilla_universe_decides_which_jobs_start(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(
        START_VANILLA_UNIVERSE="MY.TotalIdleJobs > 100 || TARGET.RequestMemory < 100"
    )
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()
    try:
        await schedd.submit(2, RequestMemory=200)
        await schedd.submit(2, RequestMemory=50)
        assert await schedd.negotiate(point.address) == 2

        async def two_left() -> bool:
            return len(await schedd.jobs()) == 2

        await schedd.until(two_left)
        assert {ad["RequestMemory"] for ad in await schedd.jobs()} == {200}
        assert await schedd.negotiate(point.address) == 0
    finally:
        await point.stop()
        await schedd.stop()


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"MAX_JOBS_RUNNING": "1"}, "MAX_JOBS_RUNNING = 1, and 1 jobs run"),
        (
            {"START_VANILLA_UNIVERSE": "OWNER.JobsRunning < 1"},
            "START_VANILLA_UNIVERSE is not true for it: OWNER.JobsRunning < 1",
        ),
    ],
)
async def test_a_job_tells_what_keeps_slots_from_being_asked_for_it(
    tmp_path: Path, knobs: dict[str, str], reason: str
) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(**knobs)
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    point.script = lambda ad: Script(until_killed=True)
    await point.start()
    try:
        await schedd.submit(3)
        assert await schedd.negotiate(point.address)

        async def one_runs() -> bool:
            return [ad["JobStatus"] for ad in await schedd.jobs()].count(2) == 1

        await schedd.until(one_runs)
        assert await schedd.negotiate(point.address) == 0
        assert [ad["KeptBackReason"] for ad in await schedd.jobs() if "KeptBackReason" in ad] == [reason]
    finally:
        await point.stop()
        await schedd.stop()


async def test_start_vanilla_universe_counts_the_jobs_of_each_user(tmp_path: Path) -> None:
    """Also while the jobs of one match start; and what is undefined starts no job."""
    text = "OWNER.JobsRunning < 1 && JOB.Ready"
    schedd = await RunningAccessPoint(tmp_path / "pool").start(START_VANILLA_UNIVERSE=text)
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    point.script = lambda ad: Script(until_killed=True)
    await point.start()
    try:
        await schedd.submit(2)
        await schedd.submit(3, Ready=True)
        assert await schedd.negotiate(point.address) == 3

        async def running() -> int:
            return len([ad for ad in await schedd.jobs() if ad["JobStatus"] == 2])

        await schedd.until(running)
        assert await running() == 1
        assert await schedd.negotiate(point.address) == 0
    finally:
        await point.stop()
        await schedd.stop()


async def test_what_start_vanilla_universe_reads_of_jobs_sets_them_apart(tmp_path: Path) -> None:
    """Two jobs that differ in that alone: the first may not start, and does not keep the second from its slot."""
    schedd = await RunningAccessPoint(tmp_path / "pool").start(START_VANILLA_UNIVERSE='TARGET.Project =!= "closed"')
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()
    try:
        await schedd.submit(1, Project="closed")
        await schedd.submit(1, Project="open")
        assert await schedd.negotiate(point.address) == 1

        async def one_left() -> bool:
            return [ad["Project"] for ad in await schedd.jobs()] == ["closed"]

        await schedd.until(one_left)
    finally:
        await point.stop()
        await schedd.stop()


async def test_start_vanilla_universe_may_read_anything_of_a_job(tmp_path: Path) -> None:
    """What it reads is known only when it is evaluated: each job is looked at by itself."""
    text = 'eval(strcat("TARGET.", MY.NumUsers > 99 ? "Other" : "Project")) =!= "closed"'
    schedd = await RunningAccessPoint(tmp_path / "pool").start(START_VANILLA_UNIVERSE=text)
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()
    try:
        await schedd.submit(1, Project="closed")
        await schedd.submit(3, Project="open")
        assert await schedd.negotiate(point.address) >= 1

        async def one_left() -> bool:
            await schedd.negotiate(point.address)
            return [(ad["ClusterId"], ad["ProcId"]) for ad in await schedd.jobs()] == [(1, 0)]

        await schedd.until(one_left)
    finally:
        await point.stop()
        await schedd.stop()


async def test_jobs_start_at_the_rate_given_and_the_waiting_ones_survive_the_schedd(tmp_path: Path) -> None:
    """Two of five start; the others stay idle with their claims until this process ends, and start in the next one."""
    schedd = await RunningAccessPoint(tmp_path / "pool").start(JOB_START_COUNT="2", JOB_START_DELAY="1000")
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token, slots=5, script=lambda ad: Script(run_s=0))
    await point.start()
    try:
        await schedd.submit(5)
        assert await schedd.negotiate(point.address) == 5

        async def two_done() -> bool:
            return len(await schedd.jobs()) == 3

        await schedd.until(two_done)
        assert [ad["JobStatus"] for ad in await schedd.jobs()] == [1, 1, 1]
        assert await schedd.negotiate(point.address) == 0, "they have their claims"
        waiting = [ad["ProcId"] for ad in await schedd.jobs()]
        await schedd.act("HOLD", f"ProcId == {waiting[0]}")
        await schedd.kill()
        assert len(point.claims) >= 3
        await schedd.start(JOB_START_COUNT="10", JOB_START_DELAY="1000")

        async def one_left() -> bool:
            return len(await schedd.jobs()) == 1

        await schedd.until(one_left)
        assert [ad["JobStatus"] for ad in await schedd.jobs()] == [5]
        assert not point.overlaps
        assert len(point.history) == len(set(point.history)) == 4
    finally:
        await point.stop()
        await schedd.stop()


async def test_jobs_are_stopped_at_the_rate_given(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of seven removed or held jobs two stop after each JOB_STOP_DELAY, also after a restart."""
    caplog.set_level(logging.INFO)
    knobs = {"JOB_STOP_COUNT": "2", "JOB_STOP_DELAY": "1000"}
    schedd = RunningAccessPoint(tmp_path / "pool")
    schedd.clock = clock = ManualClock(time.time())
    await schedd.start(**knobs)
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token, slots=8)
    point.script = lambda ad: Script(until_killed=True)
    await point.start()

    async def executing(count: int) -> None:
        async def reached() -> bool:
            streams = [run.stream for run in schedd.point.claiming.claim_table.runs.values() if run.executing_at]
            return len(streams) == count and None not in streams

        await schedd.until(reached)
        await asyncio.sleep(0)

    try:
        await schedd.submit(8)
        assert await schedd.negotiate(point.address) == 8
        await executing(8)
        await schedd.act("REMOVE", "ProcId < 5")
        await schedd.act("HOLD", "ProcId == 5 || ProcId == 6")
        assert sorted(ad["JobStatus"] for ad in await schedd.jobs()).count(5) == 2, "held, while it still runs"
        await executing(8)
        await schedd.act("REMOVE_FORCE", "ProcId == 4")
        await executing(7)
        clock.advance(999)
        schedd.point.stopping.release()
        await executing(7)
        for left in (5, 3):
            clock.advance(1000)
            schedd.point.stopping.release()
            await executing(left)
        await schedd.kill()
        await schedd.start(**knobs)
        await executing(3)
        clock.advance(1000)
        schedd.point.stopping.release()
        await executing(1)  # two were held, and the third may run
        clock.advance(1000)
        schedd.point.stopping.release()
        await executing(1)
        assert [ad["JobStatus"] for ad in await schedd.jobs()] == [5, 5, 2]
        waits = [record.getMessage() for record in caplog.records if "wait to be stopped" in record.getMessage()]
        text = "running jobs wait to be stopped: JOB_STOP_COUNT = 2 in every JOB_STOP_DELAY = 1000 s"
        assert waits == [f"5 {text}", f"2 {text}"], "once until none waits, and once after the restart"
    finally:
        await point.stop()
        await schedd.stop()


async def test_a_job_that_waits_for_its_moment_and_loses_its_slot_is_matched_again(tmp_path: Path) -> None:
    schedd = RunningAccessPoint(tmp_path / "pool")
    schedd.clock = clock = ManualClock(time.time())
    await schedd.start(JOB_START_DELAY="1000")
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    # The claim of the first job is not free for the second one meanwhile.
    point.script = lambda ad: Script(until_killed=ad["ProcId"] == 0)
    await point.start()
    try:
        await schedd.submit(2, RequestMemory=200)
        assert await schedd.negotiate(point.address) == 2

        async def waits() -> bool:
            return any(claim.reserved for claim in schedd.point.claiming.claim_table.claims.values())

        await schedd.until(waits)
        (claim,) = [claim for claim in schedd.point.claiming.claim_table.claims.values() if claim.reserved]
        point.tell(startd_pb2.ClaimEvent(claim_id=claim.id, ended=startd_pb2.ClaimEnded(reason="taken away")))

        async def again() -> bool:
            return await schedd.negotiate(point.address) == 1

        await schedd.until(again)
        await schedd.until(waits)
        clock.advance(2000)
        (claim,) = [claim for claim in schedd.point.claiming.claim_table.claims.values() if claim.reserved]
        schedd.point.claiming.starting._start_reserved(claim)

        async def it_has_run() -> bool:
            return [ad["ProcId"] for ad in await schedd.jobs()] == [0]

        await schedd.until(it_has_run)
        await schedd.act("REMOVE", "true")
        await schedd.until_gone()
        assert len(point.history) == 2
    finally:
        await point.stop()
        await schedd.stop()


async def test_every_run_of_a_job_is_in_the_history_of_runs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    knobs = {"JOB_EPOCH_HISTORY": str(tmp_path / "epochs"), "JOB_EPOCH_HISTORY_DIR": str(tmp_path / "runs")}
    schedd = await RunningAccessPoint(tmp_path / "pool").start(**knobs)
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token, slots=1)
    point.script = lambda ad: Script(until_killed=ad["NumShadowStarts"] == 1, exit_code=7)
    await point.start()
    try:
        cluster = await schedd.submit(1)
        await schedd.negotiate(point.address)

        async def running() -> bool:
            return len(await schedd.jobs("NumJobStarts == 1")) == 1

        await schedd.until(running)
        await schedd.act("VACATE", "true")

        async def idle() -> bool:
            return len(await schedd.jobs("JobStatus == 1")) == 1 or not await schedd.jobs()

        await schedd.until(idle)
        await schedd.negotiate(point.address)
        await schedd.until_gone()
        await schedd.stop()
        text = (tmp_path / "epochs").read_text()
        assert text == (tmp_path / f"runs/job.runs.{cluster}.0.ads").read_text()
        found = list(read_ads(tmp_path / "epochs", frozenset(), forwards=True))
        kinds = [(ad["RunInstanceID"], ad["EpochAdType"], ad["ProcId"]) for ad in found]
        assert kinds == [(0, "SPAWN", 0), (0, "EPOCH", 0), (1, "SPAWN", 0), (1, "EPOCH", 0)]
        _, first, _, second = found
        assert (second["JobStatus"], second["ExitCode"], second["NumShadowStarts"]) == (4, 7, 2)
        assert "ExitCode" not in first
        assert min(number_of(first, "EpochWriteDate"), number_of(second, "EpochWriteDate")) > 0
        lines = [line.partition(" CurrentTime=")[0] for line in text.splitlines() if line.startswith("***")]
        run = f'*** %s ClusterId={cluster} ProcId=0 RunInstanceId=%d Owner="{schedd.owner}"'
        assert lines == [run % (kind, number) for number in (0, 1) for kind in ("SPAWN", "EPOCH")]
    finally:
        await point.stop()


async def test_a_directory_that_is_missing_keeps_nothing_out_of_the_history_of_runs(tmp_path: Path) -> None:
    knobs = {"JOB_EPOCH_HISTORY": str(tmp_path / "epochs"), "JOB_EPOCH_HISTORY_DIR": str(tmp_path / "nowhere")}
    schedd = await RunningAccessPoint(tmp_path / "pool").start(**knobs)
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token, slots=1)
    await point.start()
    try:
        await schedd.submit(1)
        await schedd.negotiate(point.address)
        await schedd.until_gone()
        await schedd.stop()
        kinds = [ad["EpochAdType"] for ad in read_ads(tmp_path / "epochs", frozenset(), forwards=True)]
        assert kinds == ["SPAWN", "EPOCH"]
    finally:
        await point.stop()


def test_the_file_of_runs_is_put_aside_when_it_is_full(tmp_path: Path) -> None:
    settings = RunHistorySettings(str(tmp_path / "epochs"), rotation=Rotation(size_most=300, rotations=2))
    for number in range(20):
        epochs.write(settings, [RunRecord(number, 0, 0, "ann", 5, pack_ads([ClassAd({"ClusterId": number})]))])
    older = sorted(path.name for path in tmp_path.iterdir() if path.name != "epochs")
    assert len(older) == 2
    assert all(path.stat().st_size <= 300 for path in tmp_path.iterdir())
    assert "ClusterId = 19" in (tmp_path / "epochs").read_text()


class MovedClock(SystemClock):
    """``passed``: time that goes by at once; ``set_by``: how far the time of day is from where it would be."""

    passed = set_by = 0.0

    def now(self) -> float:
        return super().now() + self.passed + self.set_by

    def monotonic(self) -> float:
        return super().monotonic() + self.passed


async def test_the_time_of_a_run_is_right_although_the_clock_was_set_back(tmp_path: Path) -> None:
    schedd = RunningAccessPoint(tmp_path / "pool")
    clock = schedd.clock = MovedClock()
    await schedd.start()
    over = asyncio.Event()
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token, script=lambda ad: Script(until=over))
    await point.start()
    try:
        await schedd.submit()
        assert await schedd.negotiate(point.address) == 1

        async def runs() -> bool:
            return [ad["JobStatus"] for ad in await schedd.jobs()] == [2]

        await schedd.until(runs)
        clock.passed, clock.set_by = 200.0, -3600.0
        over.set()
        await schedd.until_gone()
        (ad,) = await schedd.history()
        assert 200 <= number_of(ad, "RemoteWallClockTime") < 200 + 2 * LIMIT_S
    finally:
        await point.stop()
        await schedd.stop()
