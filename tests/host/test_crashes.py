"""kill -9 of starter, keeper and zygote: jobs go on or end, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from slotwise.execution.control_dir import control_root
from slotwise.execution.launcher import holder
from slotwise.starter.convert import encode_list
from slotwise.starter.links.leftovers import NAME
from slotwise.starter.messages import RunList
from slotwise.wire.gen import schedd_pb2, starter_pb2

from tests.support import host
from tests.support.starter_bench import (
    StarterBench,
    groups_of,
    is_alive,
    job_python,
    processes_below,
    segments,
    starter_bench,
)
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.host
EXITED = schedd_pb2.RunEnded.EXITED
EVICTED = schedd_pb2.RunEnded.EVICTED
#: Courses of events; more of them for a long search.
SEEDS = range(1, int(os.environ.get("SLOTWISE_CRASH_SEEDS", "2")) + 1)
#: Leaves a segment, and a process in a session of its own.
SHORT = "ipcmk -M 4096 > /dev/null; (setsid sleep 60 &); sleep 0.1; echo $$ > mine; exit 3"
WITHOUT_CGROUPS = {"BASE_CGROUP": ""}
#: A child in a session of its own, two forks away; both write where they are.
FAMILY = """
import os, time
if not os.fork():
    os.setsid()
    if os.fork(): os._exit(0)
open(f"pid_{os.getpid()}", "w").close()
while True: time.sleep(0.05)
"""


def control_of(bench: StarterBench) -> Path:
    """The control directory of the only run."""
    (found,) = bench.execute.glob("dir_*/htcondor")
    return found.resolve()


async def family_of(bench: StarterBench) -> list[int]:
    """The processes of FAMILY, once both are there."""
    marks = await bench.eventually(
        lambda: len(found := list(bench.execute.glob("dir_*/scratch/pid_*"))) == 2 and found, "the family is there"
    )
    return [int(mark.name.removeprefix("pid_")) for mark in marks]


async def nothing_left(bench: StarterBench) -> None:
    """No directory, process, cgroup, mount or volume of the pool's jobs."""
    await bench.clean()
    assert processes_below(bench.execute) == []
    await bench.eventually(lambda: not groups_of(bench.execute), "no cgroup is left")
    assert str(bench.execute) not in Path("/proc/self/mounts").read_text()
    assert not list(bench.execute.glob(".starter/volumes/dir_*"))


async def test_a_job_goes_on_without_the_starter_and_is_taken_up_again(root: None) -> None:
    async with starter_bench() as bench:
        run = bench.submit("/bin/sh", "-c", "while [ ! -e stop ]; do sleep 0.05; done; echo done > result; exit 7")
        pid = (await bench.running(run)).pid
        keeper = holder(control_of(bench))
        await bench.kill_9()
        assert is_alive(pid) and holder(control_of(bench)) == keeper
        await bench.start()
        startd = bench.startd
        assert startd is not None
        startd.command(list={})
        listed = (await bench.eventually(lambda: startd.of("", "jobs"), "the starter lists its runs"))[0].jobs
        assert [(job.run_id, job.phase, job.pid) for job in listed] == [(run, "running", pid)]
        await bench.eventually(lambda: bench.shadow.runs[run].accepted >= 2, "the run says hello again")
        assert bench.shadow.listed == [run]
        (bench.execute / control_of(bench).name / "scratch" / "stop").touch()
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 7)
        assert bench.output(run, "result") == "done\n"
        await bench.gone(run)
        await nothing_left(bench)


async def test_a_run_of_which_the_startd_knows_nothing_is_given_back_to_its_shadow(root: None) -> None:
    async with starter_bench() as bench:
        run = bench.submit("/bin/sh", "-c", "sleep 600")
        pid = (await bench.running(run)).pid
        startd = bench.startd
        assert startd is not None
        startd.command(run, forget={})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (EVICTED, 1009) and "no claim" in ended.reason
        assert not is_alive(pid) and not startd.of(run, "gone")
        await nothing_left(bench)


async def test_a_job_whose_record_cannot_be_read_is_ended(root: None) -> None:
    async with starter_bench() as bench:
        run = bench.submit("/bin/sh", "-c", "sleep 600")
        pid = (await bench.running(run)).pid
        control = control_of(bench)
        await bench.kill_9()
        (control / "run.json").write_text('{"from": "another version"}')
        await bench.start()
        await bench.eventually(lambda: not is_alive(pid) and not control.exists(), "job and directories have gone")
        startd = bench.startd
        assert startd is not None
        startd.command(list={})
        listed = (await bench.eventually(lambda: startd.of("", "jobs"), "the starter lists its runs"))[0].jobs
        assert listed == []
        await nothing_left(bench)


async def test_a_job_that_ends_while_the_starter_is_away_is_reported(root: None) -> None:
    async with starter_bench() as bench:
        run = bench.submit("/bin/sh", "-c", "echo out; exit 5")
        bench.shadow.acknowledges = False
        await bench.ended(run)
        control = control_of(bench)
        await bench.kill_9()
        bench.shadow.runs[run].ended = None
        bench.shadow.acknowledges = True
        await bench.start()
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 5)
        assert bench.output(run) == "out\n"
        await bench.eventually(lambda: not control.exists(), "the run is removed")
        await nothing_left(bench)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        WITHOUT_CGROUPS,
        {**WITHOUT_CGROUPS, "USE_GID_PROCESS_TRACKING": "true", "MIN_TRACKING_GID": 750200, "MAX_TRACKING_GID": 750210},
        {"SLOTWISE_CGROUP_VERSION": "2"},
    ],
    ids=["cgroup", "environment", "gid", "cgroup2-core"],
)
@pytest.mark.parametrize("starter_too", [False, True], ids=["keeper", "keeper-and-starter"])
async def test_the_family_of_a_killed_keeper_is_ended(root: None, knobs: dict[str, Any], starter_too: bool) -> None:
    async with starter_bench(**knobs) as bench:
        run = bench.submit(job_python(), "-S", "-c", FAMILY)
        pids = await family_of(bench)
        keeper = holder(control_of(bench))
        assert keeper is not None
        if starter_too:
            await bench.kill_9()
        os.kill(keeper, signal.SIGKILL)
        if starter_too:
            await bench.start()
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (EVICTED, 1007)
        assert not any(map(is_alive, pids))
        await nothing_left(bench)


@host.needs(host.process_namespaces)
async def test_the_first_process_of_a_namespace_dies_with_its_keeper(root: None) -> None:
    async with starter_bench(USE_PID_NAMESPACES="true") as bench:
        run = bench.submit(job_python(), "-S", "-c", FAMILY)
        await bench.running(run)
        await bench.eventually(lambda: len(processes_below(bench.execute)) >= 2, "the family is there")
        keeper = holder(control_of(bench))
        assert keeper is not None
        await bench.kill_9()
        os.kill(keeper, signal.SIGKILL)
        await bench.eventually(lambda: not processes_below(bench.execute), "the kernel ends the namespace")
        await bench.start()
        assert (await bench.ended(run)).how == EVICTED
        await nothing_left(bench)


async def test_a_stop_that_comes_during_the_start_is_followed(tmp_path: Path) -> None:
    """As is a reconfig: a starter is asked to end while it still finds out what its host can do."""
    asked, hold, program = tmp_path / "asked", tmp_path / "hold", tmp_path / "singularity"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || exit 1\ntouch {asked}\nwhile [ -e {hold} ]; do sleep 0.02; done\nexit 1\n'
    )
    program.chmod(0o755)
    async with starter_bench(SINGULARITY=str(program)) as bench:
        await bench.kill_9()
        asked.unlink()
        hold.touch()
        start = asyncio.create_task(bench.start())
        await bench.eventually(asked.exists, "the starter asks what it can")
        assert bench.process is not None
        bench.process.send_signal(signal.SIGHUP)
        bench.process.terminate()
        hold.unlink()
        assert await asyncio.to_thread(bench.process.wait, LIMIT_S) == 0
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        assert "EXITING WITH STATUS 0" in bench.log()


async def test_a_killed_zygote_is_replaced(root: None) -> None:
    async with starter_bench() as bench:
        await bench.ended(bench.submit("/bin/true"))
        assert bench.process is not None
        children = Path(f"/proc/{bench.process.pid}/task/{bench.process.pid}/children").read_text().split()
        zygotes = [int(p) for p in children if Path(f"/proc/{p}/comm").read_text() == "slotwise-zygote\n"]
        assert len(zygotes) == 1
        os.kill(zygotes[0], signal.SIGKILL)
        await bench.eventually(lambda: "the zygote exited" in bench.log(), "the starter notices")
        assert (await bench.ended(bench.submit("/bin/true"))).how == EXITED


async def test_a_job_without_starter_and_startd_ends_with_its_lease(root: None) -> None:
    async with starter_bench() as bench:
        run = bench.submit(job_python(), "-S", "-c", FAMILY, lease_s=2)
        pids = await family_of(bench)
        await bench.kill_9()
        await bench.eventually(lambda: not any(map(is_alive, pids)), "the keeper ends the job")
        await bench.start()
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (EVICTED, 1009)
        await nothing_left(bench)


async def test_the_last_of_a_pool_ends_its_jobs(root: None) -> None:
    async with starter_bench() as bench:
        bench.submit(job_python(), "-S", "-c", FAMILY)
        pids = await family_of(bench)
        assert bench.startd is not None and bench.process is not None
        await bench.startd.close()
        bench.startd = None
        bench.process.terminate()
        await bench.eventually(lambda: bench.process is not None and bench.process.poll() is not None, "it stops")
        await bench.eventually(lambda: not any(map(is_alive, pids)), "its jobs end")
        await nothing_left(bench)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"STARTD_ENFORCE_DISK_LIMITS": "true"},
        {"USE_PID_NAMESPACES": "true"},
        {"BASE_CGROUP": "", "USE_GID_PROCESS_TRACKING": "true", "MIN_TRACKING_GID": 750400, "MAX_TRACKING_GID": 750499},
        {"SLOTWISE_CGROUP_VERSION": "2"},
    ],
    ids=["plain", "volumes", "pids", "gid", "cgroup2-core"],
)
async def test_killed_at_any_moment_nothing_is_left(
    root: None, loop_mounts: None, knobs: dict[str, Any], seed: int
) -> None:
    chance = random.Random(seed)
    volumes = "STARTD_ENFORCE_DISK_LIMITS" in knobs
    known = segments()
    async with starter_bench(**knobs) as bench:
        runs = []
        for _ in range(3):
            batch = [
                bench.submit("/bin/sh", "-c", SHORT, inputs={"in": b"x" * 300_000}) for _ in range(4 if volumes else 12)
            ]
            runs += batch
            wanted = chance.randrange(1, len(batch))

            def begun(batch: list[str] = batch, wanted: int = wanted) -> bool:
                return sum(bench.shadow.runs[run].accepted > 0 for run in batch) >= wanted

            await bench.eventually(begun, "some begin")
            for control in list(bench.execute.glob("dir_*/htcondor")):
                keeper = holder(control) if chance.random() < 0.2 else None
                if keeper:
                    os.kill(keeper, signal.SIGKILL)
            await bench.kill_9()
            await bench.start()
        startd = bench.startd
        assert startd is not None
        startd.command(list={})
        listed = await bench.eventually(lambda: startd.of("", "jobs"), "the starter lists its runs")
        held = {job.run_id for job in listed[0].jobs}
        for run in held:
            await bench.ended(run)
        await nothing_left(bench)
        assert segments() == known, "no segment is left"
        ends = [bench.shadow.runs[run] for run in runs if bench.shadow.runs[run].ended is not None]
        for run in ends:
            assert run.ended is not None
            if run.ended.how == EXITED:
                assert run.ended.code == 3 and run.outputs["mine"]


async def test_a_repair_is_in_every_list_until_the_startd_confirms_it() -> None:
    async with starter_bench() as bench:
        await bench.kill_9()
        (control_root(bench.execute, "") / NAME).write_bytes(encode_list(RunList((), (), ("9.0#1",))))
        await bench.start()

        async def listed() -> list[str]:
            """The repairs in the answer to a request for the list of runs."""
            startd = bench.startd
            assert startd is not None
            known = len(startd.of("", "jobs"))
            startd.command(list=starter_pb2.ListJobs())
            await bench.eventually(lambda: len(startd.of("", "jobs")) > known, "the list has come")
            return list(startd.of("", "jobs")[-1].repaired)

        assert await listed() == ["9.0#1"]
        await bench.rejoin()
        assert await listed() == ["9.0#1"]
        assert bench.startd is not None
        bench.startd.command("9.0#1", repair_noted=starter_pb2.RepairNoted())
        assert await listed() == []
