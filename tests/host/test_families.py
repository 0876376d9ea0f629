"""A job's processes on a real host: suspended, told to leave, killed, found wherever they hide."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from slotwise.execution.cgroup.probe import probe
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.ads import nested_in
from tests.support.hiding import HIDER, hidden_pid, let_go
from tests.support.starter_bench import StarterBench, job_python, segments, starter_bench

pytestmark = pytest.mark.host
EVICTED = schedd_pb2.RunEnded.EVICTED
WITHOUT_CGROUPS: dict[str, Any] = {"BASE_CGROUP": ""}


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        WITHOUT_CGROUPS,
        {**WITHOUT_CGROUPS, "USE_GID_PROCESS_TRACKING": "true", "MIN_TRACKING_GID": 750100, "MAX_TRACKING_GID": 750110},
        {"USE_PID_NAMESPACES": "true"},
        {"SLOTWISE_CGROUP_VERSION": "2"},
    ],
    ids=["cgroup", "descent", "gid", "pid-namespace", "cgroup2-core"],
)
async def test_a_hider_dies_with_the_job(root: None, knobs: dict[str, Any]) -> None:
    async with starter_bench(**knobs) as bench:
        run = bench.submit(job_python(), "-S", "-c", HIDER)
        pid = await hidden_pid(bench)
        if "USE_PID_NAMESPACES" in knobs:
            pid = 0  # a number that means nothing here
        let_go(bench)
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (schedd_pb2.RunEnded.EXITED, 0)
        assert not pid or not _alive(pid)
        assert not (await bench.gone(run)).broken
        assert not _processes_of(bench)


@pytest.mark.parametrize(
    "knobs", [{}, WITHOUT_CGROUPS, {"SLOTWISE_CGROUP_VERSION": "2"}], ids=["cgroup", "signals", "cgroup2-core"]
)
async def test_a_suspended_job_stands_still_and_goes_on(root: None, knobs: dict[str, Any]) -> None:
    async with starter_bench(**knobs) as bench:
        script = "import os\nif not os.fork():\n  while True: pass\nwhile True: pass"
        run = bench.submit(job_python(), "-S", "-c", script)
        pid = (await bench.running(run)).pid
        startd = bench.startd
        assert startd is not None
        await bench.eventually(lambda: len(_processes_of(bench)) >= 2 and _cpu_ticks(pid) > 5, "both compute")
        startd.command(run, suspend={"resume": False})
        await bench.eventually(lambda: startd.of(run, "suspended"), "it is suspended")
        family = _processes_of(bench)
        assert len(family) >= 2
        still = [_cpu_ticks(p) for p in family]
        await bench.eventually(lambda: _elapsed(0.5), "half a second")
        _began.clear()
        assert [_cpu_ticks(p) for p in family] == still
        startd.command(run, suspend={"resume": True})
        await bench.eventually(lambda: all(_cpu_ticks(p) > t for p, t in zip(family, still, strict=True)), "all go on")
        await bench.eventually(lambda: len(startd.of(run, "suspended")) == 2, "the startd hears of it")
        assert [e.resumed for e in startd.of(run, "suspended")] == [False, True]
        startd.command(run, kill={"fast": True})
        assert (await bench.ended(run)).how == EVICTED


async def test_a_job_suspended_before_it_begins_does_nothing_until_it_may(root: None) -> None:
    async with starter_bench() as bench:
        script = "echo begun > begun; while :; do :; done"
        run = bench.submit("/bin/sh", "-c", script, DeferralTime=int(time.time()) + 2, DeferralWindow=60)
        startd = bench.startd
        assert startd is not None
        await bench.eventually(lambda: startd.of(run, "running"), "the shadow has accepted it")
        startd.command(run, suspend={"resume": False})
        pid = (await bench.running(run)).pid
        await bench.eventually(lambda: startd.of(run, "suspended"), "it is suspended as soon as it runs")
        still = _cpu_ticks(pid)
        await bench.eventually(lambda: _elapsed(0.5), "half a second")
        _began.clear()
        assert _cpu_ticks(pid) == still
        startd.command(run, suspend={"resume": True})
        await bench.eventually(lambda: _cpu_ticks(pid) > still, "it goes on")
        startd.command(run, kill={"fast": True})
        assert (await bench.ended(run)).how == EVICTED


_began: list[float] = []


def _elapsed(seconds: float) -> bool:
    if not _began:
        _began.append(time.monotonic())
    return time.monotonic() - _began[0] >= seconds


@host.needs(host.root, host.any_cgroup)
async def test_groups_that_somebody_has_removed_are_made_again(root: None) -> None:
    """systemd removes the empty group of a unit whose main process has ended (Type=oneshot)."""
    base = f"slotwise-removed-{os.getpid()}"
    async with starter_bench(BASE_CGROUP=base) as bench:
        groups = probe(base, is_root=True).bases.values()
        assert groups
        for _ in range(2):
            run = bench.submit("/bin/cat", "/proc/self/cgroup")
            assert (await bench.ended(run)).how == schedd_pb2.RunEnded.EXITED
            assert base in bench.output(run)
            await bench.eventually(lambda: not any([*group.glob("*/")] for group in groups), "the job's group is gone")
            for group in groups:
                group.rmdir()
    for left in Path("/sys/fs/cgroup").glob(f"*/{base}*"):
        left.rmdir()


async def test_a_soft_kill_lets_the_job_leave_with_its_own_signal(root: None) -> None:
    async with starter_bench() as bench:
        run = bench.submit(
            "/bin/sh",
            "-c",
            "trap 'echo bye > farewell; exit 4' USR1; touch ready; while :; do sleep 0.05; done",
            KillSig="SIGUSR1",
            WhenToTransferOutput="ON_EXIT_OR_EVICT",
        )
        await bench.eventually(lambda: list(bench.execute.glob("dir_*/scratch/ready")), "it is ready")
        assert bench.startd is not None
        bench.startd.command(run, kill={"reason": "the owner is back", "reason_code": 1011, "vacate_s": 30})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason) == (EVICTED, 1011, "the owner is back")
        assert bench.output(run, "farewell") == "bye\n"
        assert nested_in(bench.shadow.runs[run].end_ad, "ToE")["How"] == "DEACTIVATE_CLAIM"


@pytest.mark.parametrize("knobs", [{}, WITHOUT_CGROUPS], ids=["cgroup", "signals"])
async def test_a_job_that_ignores_the_soft_kill_is_killed_hard(root: None, knobs: dict[str, Any]) -> None:
    async with starter_bench(**knobs) as bench:
        script = (
            "trap '' TERM; touch ready; (trap '' TERM; while :; do sleep 0.05; done) & while :; do sleep 0.05; done"
        )
        run = bench.submit("/bin/sh", "-c", script)
        await bench.eventually(lambda: list(bench.execute.glob("dir_*/scratch/ready")), "it is ready")
        assert bench.startd is not None
        bench.startd.command(run, kill={"reason": "drained", "reason_code": 1014, "vacate_s": 1})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (EVICTED, 1014)
        assert not _processes_of(bench)
        ticket = nested_in(bench.shadow.runs[run].end_ad, "ToE")
        assert (ticket["How"], ticket["ExitBySignal"]) == ("DEACTIVATE_CLAIM_FORCIBLY", True)


async def test_a_suspended_job_is_continued_before_a_soft_kill(root: None) -> None:
    async with starter_bench() as bench:
        run = bench.submit("/bin/sh", "-c", "trap 'exit 4' TERM; touch ready; while :; do sleep 0.05; done")
        await bench.eventually(lambda: list(bench.execute.glob("dir_*/scratch/ready")), "it is ready")
        startd = bench.startd
        assert startd is not None
        startd.command(run, suspend={"resume": False})
        await bench.eventually(lambda: startd.of(run, "suspended"), "it is suspended")
        startd.command(run, kill={"reason_code": 1010, "vacate_s": 60})
        assert (await bench.ended(run)).how == EVICTED
        assert nested_in(bench.shadow.runs[run].end_ad, "ToE")["How"] == "DEACTIVATE_CLAIM"


#: Forks as fast as it can, each process in a session of its own, without environment; only the account is limited.
BOMB = """
import os, resource, time
resource.setrlimit(resource.RLIMIT_NPROC, (60, 60))
os.environ.clear()
open("begun", "w").close()
while True:
    try:
        if os.fork() == 0: os.setsid()
    except OSError:
        pass
"""


@pytest.mark.parametrize(
    "knobs",
    [
        WITHOUT_CGROUPS,
        {**WITHOUT_CGROUPS, "USE_GID_PROCESS_TRACKING": "true", "MIN_TRACKING_GID": 750300, "MAX_TRACKING_GID": 750310},
        {"SLOTWISE_CGROUP_VERSION": "2"},
    ],
    ids=["descent", "gid", "cgroup2-core"],
)
async def test_a_bomb_of_sessions_is_ended_without_a_limit_on_processes(root: None, knobs: dict[str, Any]) -> None:
    async with starter_bench(**knobs) as bench:
        run = bench.submit(job_python(), "-S", "-c", BOMB)
        await bench.eventually(lambda: len(_processes_of(bench)) > 20, "the bomb goes off")
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True})
        assert (await bench.ended(run)).how == EVICTED
        assert not (await bench.gone(run)).broken
        assert not _processes_of(bench)


@host.needs(host.process_namespaces)
async def test_segments_and_files_in_shared_memory_end_with_the_job(root: None) -> None:
    before = segments()
    async with starter_bench(SLOTWISE_CONTROL_DIR="/var/tmp") as bench:
        script = (
            "touch /dev/shm/mine && ls /dev/shm && ipcmk -M 4096 && ipcs -m | grep -c 0x && df -k /dev/shm | tail -1"
        )
        run = bench.submit("/bin/sh", "-c", script, slot={"Memory": 64})
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (schedd_pb2.RunEnded.EXITED, 0), bench.output(run, "_condor_stderr")
        lines = bench.output(run).splitlines()
        assert lines[0] == "mine" and lines[-2] == "1"
        assert int(lines[-1].split()[1]) == 64 * 1024
    assert segments() == before and not Path("/dev/shm/mine").exists()


@host.needs(host.process_namespaces)
async def test_private_temporary_directories(root: None) -> None:
    async with starter_bench() as bench:
        run = bench.submit(
            "/bin/sh",
            "-c",
            "touch /tmp/mine_$$ /var/tmp/mine_$$; ls /tmp | wc -l; pwd; ls in; id -u",
            inputs={"in": b"x"},
        )
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (schedd_pb2.RunEnded.EXITED, 0), bench.output(run, "_condor_stderr")
        count, where, listed, uid = bench.output(run).split()
        assert (count, listed) == ("1", "in")
        assert where.startswith(str(bench.execute))  # below /var/tmp, which is private: still reachable
        assert uid != "0"
        assert not list(Path("/tmp").glob("mine_*"))


@host.needs(host.process_namespaces)
async def test_a_process_namespace_shows_only_the_job(root: None) -> None:
    async with starter_bench(USE_PID_NAMESPACES="true") as bench:
        run = bench.submit("/bin/sh", "-c", "ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm; kill -9 -1; echo alive")
        ended = await bench.ended(run)
        assert ended.how in (schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.SIGNALED)
        first, second = bench.output(run).split()[:2]
        assert int(first) <= 5
        assert second == "slotwise-init"


async def test_a_dedicated_account_is_swept(root: None) -> None:
    async with starter_bench(
        SLOT1_USER="games",
        DEDICATED_EXECUTE_ACCOUNT_REGEXP="games",
        STARTER_ALLOW_RUNAS_OWNER="false",
        **WITHOUT_CGROUPS,
    ) as bench:
        run = bench.submit(job_python(), "-S", "-c", HIDER)
        pid = await hidden_pid(bench)
        assert Path(f"/proc/{pid}").stat().st_uid == 5
        let_go(bench)
        await bench.ended(run)
        assert not _alive(pid)


def _processes_of(bench: StarterBench) -> list[int]:
    """Processes whose working directory is in a scratch directory of this bench."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            cwd = (entry / "cwd").readlink()
        except OSError:
            continue
        if str(cwd).startswith(str(bench.execute)) and _alive(int(entry.name)):
            found.append(int(entry.name))
    return found
