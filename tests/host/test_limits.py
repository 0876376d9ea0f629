"""Limits on a real host: memory, processes, CPU shares, disk. Jobs are real, under a real starter process."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from slotwise.execution.cgroup.probe import CgroupHost
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.ads import number_of, texts_of
from tests.support.starter_bench import job_python, processes_below, starter_bench

pytestmark = pytest.mark.host
HELD = schedd_pb2.RunEnded.HELD
HOG = "b = bytearray()\nwhile True: b += bytes(8 << 20)"


async def test_a_memory_hog_is_held_with_htcondors_code_and_words(memory_cgroup: Any) -> None:
    async with starter_bench() as bench:
        run = bench.submit(job_python(), "-S", "-c", HOG, slot={"Memory": 64})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 102)
        assert ended.reason == (
            "Job has gone over cgroup memory limit of 64 megabytes. Last measured usage: 64 megabytes.  "
            "Consider resubmitting with a higher request_memory."
        )
        assert bench.shadow.runs[run].end_ad.eval("MemoryUsage") == 64
        assert (await bench.gone(run)).how == "held"


async def test_page_cache_is_not_counted_against_the_job(memory_cgroup: Any) -> None:
    if any(line.split()[1:3] == ["/var/tmp", "tmpfs"] for line in Path("/proc/self/mounts").read_text().splitlines()):
        pytest.skip("needs /var/tmp on a disk: on a tmpfs files are memory")
    async with starter_bench() as bench:
        script = "dd if=/dev/zero of=big bs=1M count=150 2>/dev/null; cat big big > /dev/null; rm big"
        run = bench.submit("/bin/sh", "-c", script, slot={"Memory": 48})
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (schedd_pb2.RunEnded.EXITED, 0)
        assert number_of(bench.shadow.runs[run].end_ad, "MemoryUsage") < 48


@pytest.mark.parametrize("version", ["none", "2"])
async def test_memory_is_measured_where_no_memory_cgroup_is(root: None, cgroups: CgroupHost, version: str) -> None:
    """The core of version 2 is there on hosts whose controllers are those of version 1."""
    if version == "2" and cgroups.version == 2:
        pytest.skip("needs a hierarchy of version 2 without the memory controller")
    if version == "2":
        host.need(host.cgroup("", 2))
    knobs: dict[str, Any] = {
        "SLOTWISE_CGROUP_VERSION": version,
        "STARTER_UPDATE_INTERVAL": 1,
        "STARTER_INITIAL_UPDATE_INTERVAL": 1,
    }
    async with starter_bench(CGROUP_POLLING_INTERVAL=0.2, **knobs) as bench:
        assert (await bench.facts()).eval("CgroupVersion") == int(version == "2") * 2
        script = "import os, time\nos.fork()\nb = b'x' * (60 << 20)\ntime.sleep(600)"
        run = bench.submit(job_python(), "-S", "-c", script)
        await bench.running(run)
        updates = bench.shadow.runs[run].updates
        await bench.eventually(
            lambda: any(number_of(ad, "ResidentSetSize") >= 120 << 10 for ad in updates), "both processes count"
        )
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True})
        await bench.ended(run)


async def test_no_limit_without_a_policy(memory_cgroup: Any) -> None:
    async with starter_bench(CGROUP_MEMORY_LIMIT_POLICY="none") as bench:
        run = bench.submit(job_python(), "-S", "-c", "b = b'x' * (96 << 20)", slot={"Memory": 32})
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (schedd_pb2.RunEnded.EXITED, 0)


async def test_a_custom_limit_is_an_expression_over_machine_and_job(memory_cgroup: Any) -> None:
    knobs: dict[str, Any] = {
        "CGROUP_MEMORY_LIMIT_POLICY": "custom",
        "CGROUP_HARD_MEMORY_LIMIT_EXPR": "MY.Memory / 2 + TARGET.Extra",
    }
    async with starter_bench(**knobs) as bench:
        run = bench.submit(job_python(), "-S", "-c", HOG, slot={"Memory": 100}, Extra=10)
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (HELD, 34)
        assert "limit of 60 megabytes" in ended.reason


@pytest.mark.parametrize(
    ("policy", "swap", "limit_mib", "soft_mib"),
    [
        ("none", "true", None, None),
        ("soft", "true", None, 64),
        ("hard", "true", 64, None),
        ("hard", "false", 64, None),
        ("custom", "true", 80, None),
    ],
)
async def test_each_policy_writes_its_limits(
    memory_cgroup: CgroupHost, policy: str, swap: str, limit_mib: int | None, soft_mib: int | None
) -> None:
    knobs: dict[str, Any] = {
        "CGROUP_MEMORY_LIMIT_POLICY": policy,
        "CGROUP_HARD_MEMORY_LIMIT_EXPR": "MY.Memory + 16",
        "DISABLE_SWAP_FOR_JOB": swap,
        "CGROUP_LOW_MEMORY_LIMIT": "MY.Memory / 4",
    }
    first = memory_cgroup.version == 1
    base = memory_cgroup.bases["memory" if first else ""].parent / "htcondor"
    async with starter_bench(**knobs) as bench:
        run = bench.submit("/bin/sleep", "600", slot={"Memory": 64, "Cpus": 2})
        await bench.running(run)
        (group,) = (path for path in base.glob(f"*{bench.root.name}*") if path.is_dir())

        def number(name: str) -> int | None:
            """A limit; None when there is none."""
            path = group / name
            if not path.exists():
                return None
            text = path.read_text().strip()
            return None if text == "max" or int(text) > 1 << 60 else int(text)

        limit = None if limit_mib is None else limit_mib << 20
        assert number("memory.limit_in_bytes" if first else "memory.max") == limit
        if first:
            assert number("memory.soft_limit_in_bytes") == (soft_mib << 20 if soft_mib else None)
            if (group / "memory.memsw.limit_in_bytes").exists():
                assert number("memory.memsw.limit_in_bytes") == (limit if swap == "true" else None)
        else:
            assert number("memory.swap.max") == (0 if limit and swap == "true" else None)
            assert number("memory.low") == 16 << 20 and number("cpu.weight") == 200
            assert number("memory.oom.group") == 1
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True})
        await bench.ended(run)


async def test_death_by_kill_9_alone_is_no_lack_of_memory(root: None) -> None:
    async with starter_bench() as bench:
        run = bench.submit("/bin/sh", "-c", "kill -9 $$")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (schedd_pb2.RunEnded.SIGNALED, 9)


async def test_a_job_that_others_memory_killed_goes_back_to_idle(memory_cgroup: Any) -> None:
    total_kib = int(Path("/proc/meminfo").read_text().split()[1])
    if total_kib > 4 << 20:
        pytest.skip("needs a machine with little memory (the guest): the test uses all of it up")
    async with starter_bench(STARTER_ALWAYS_HOLD_ON_OOM="false", CGROUP_POLLING_INTERVAL=0.2) as bench:
        run = bench.submit(job_python(), "-S", "-c", HOG, slot={"Memory": 2 * total_kib // 1024})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason) == (schedd_pb2.RunEnded.EVICTED, "Worker node is out of memory")
        # At its own limit it is held as ever.
        run = bench.submit(job_python(), "-S", "-c", HOG, slot={"Memory": 48})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 102)


async def test_a_fork_bomb_is_contained_and_ended(root: None, cgroups: Any) -> None:
    host.need(host.cgroup("pids", cgroups.version))
    assert cgroups.has("pids"), cgroups.problems
    async with starter_bench(SLOTWISE_JOB_MAX_PROCESSES=50) as bench:
        bomb = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(0.01)"
        run = bench.submit(job_python(), "-S", "-c", bomb)
        await bench.running(run)
        pids_max = list(Path("/sys/fs/cgroup/pids/htcondor").glob(f"*{bench.root.name}*/pids.max"))
        pids_max += list(Path("/sys/fs/cgroup").glob(f"htcondor/*{bench.root.name}*/pids.max"))
        assert [path.read_text().strip() for path in pids_max] == ["50"]
        current = pids_max[0].with_name("pids.current")
        await bench.eventually(lambda: int(current.read_text()) >= 40, "the bomb goes off")
        assert int(current.read_text()) <= 50
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True})
        assert (await bench.ended(run)).how == schedd_pb2.RunEnded.EVICTED
        assert not pids_max[0].exists()


#: Forks until it may not, says how far it came, and stays.
COUNTED_BOMB = """
import os, time
open("begun", "w").close()
while True:
    try:
        if not os.fork():
            while True: time.sleep(60)
    except OSError:
        open("refused", "w").close()
        time.sleep(0.05)
"""


# Each has an account that no other test uses: the limit is on all processes of the account.
@pytest.mark.parametrize(
    ("account", "knobs"),
    [
        ("backup", {"SLOT1_USER": "backup"}),
        ("news", {}),
        ("list", {"SLOT1_USER": "list", "USE_PID_NAMESPACES": "true"}),
    ],
    ids=["root", "ordinary", "pid-namespace"],
)
async def test_without_a_pids_cgroup_the_account_is_limited(root: None, account: str, knobs: dict[str, Any]) -> None:
    host.need(host.account(account))
    uid = pwd.getpwnam(account).pw_uid
    user = None if knobs else uid
    async with starter_bench(user, SLOTWISE_JOB_MAX_PROCESSES=40, BASE_CGROUP="", **knobs) as bench:
        assert any("limited for the account" in gap for gap in texts_of(await bench.facts(), "EnforcementGaps"))
        run = bench.submit(job_python(), "-S", "-c", COUNTED_BOMB)
        await bench.eventually(lambda: list(bench.execute.glob("dir_*/scratch/refused")), "the bomb is stopped")
        # The limit is 40 more than the account's threads at the job's start. Where the starter has the account, too,
        # each thread that it makes later is one process less for the bomb, and each that it ends one more.
        assert 15 <= len(processes_below(bench.execute)) <= 80
        other = bench.submit("/bin/sh", "-c", "(:) && echo fine")
        assert (await bench.ended(other)).how == schedd_pb2.RunEnded.EXITED
        assert bench.output(other) == "fine\n"
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True})
        assert (await bench.ended(run)).how == schedd_pb2.RunEnded.EVICTED
        assert processes_below(bench.execute) == []


async def test_jobs_share_processors_by_the_cores_of_their_slots(root: None, cgroups: CgroupHost) -> None:
    """The kernel gives groups beside each other time by these numbers, however busy the host is."""
    host.need(host.cgroup("cpu", cgroups.version))
    assert cgroups.has("cpu"), cgroups.problems
    controller, file = ("cpu", "cpu.shares") if cgroups.version == 1 else ("", "cpu.weight")
    async with starter_bench() as bench:
        runs = [bench.submit("/bin/sleep", "600", slot={"Cpus": cpus}) for cpus in (4, 1)]
        groups = []
        for run in runs:
            pid = (await bench.running(run)).pid
            lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
            (found,) = [path for _, names, path in lines if controller in names.split(",")]
            groups.append(Path(found))
        assert groups[0] != groups[1] and groups[0].parent == groups[1].parent
        places = [next(cgroups.bases[controller].parent.glob(f"**/{group.name}")) for group in groups]
        assert [int((place / file).read_text()) for place in places] == [400, 100]
        for run in runs:
            assert bench.startd is not None
            bench.startd.command(run, kill={"fast": True})
            await bench.ended(run)


async def test_without_volumes_disk_use_is_measured_and_held(root: None, tmp_path: Path) -> None:
    knobs: dict[str, Any] = {"CGROUP_POLLING_INTERVAL": 0.2, "SLOTWISE_SCRATCH_VOLUMES": "none"}
    async with starter_bench(STARTD_ENFORCE_DISK_LIMITS="true", **knobs) as bench:
        assert (await bench.facts()).eval("EnforcesDisk") == "measured"
        script = "dd if=/dev/zero of=big bs=1M count=40 2>/dev/null; sync; sleep 60"
        run = bench.submit("/bin/sh", "-c", script, slot={"Disk": 20_000})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 104)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
async def test_jobs_are_bound_to_cores_of_their_own_and_cannot_leave_them(root: None, cgroups: CgroupHost) -> None:
    everywhere = sorted(os.sched_getaffinity(0))
    leave = f"import os,time; os.sched_setaffinity(0, range({everywhere[-1] + 1})); time.sleep(600)"
    async with starter_bench(ASSIGN_CPU_AFFINITY="Bound") as bench:
        runs = [bench.submit(job_python(), "-S", "-c", leave, slot={"Cpus": 1}, Bound=True) for _ in range(2)]
        pids = [(await bench.running(run)).pid for run in runs]
        if cgroups.has("cpuset"):
            await bench.eventually(lambda: all(len(os.sched_getaffinity(pid)) == 1 for pid in pids), "they stay")
            assert sorted(core for pid in pids for core in os.sched_getaffinity(pid)) == everywhere[:2]
        free = bench.submit("/bin/sleep", "600", slot={"Cpus": 1}, Bound=False)
        assert sorted(os.sched_getaffinity((await bench.running(free)).pid)) == everywhere
        for run in (*runs, free):
            assert bench.startd is not None
            bench.startd.command(run, kill={"fast": True})
            await bench.ended(run)


async def test_a_slot_has_the_cores_of_its_knob(root: None) -> None:
    last = max(os.sched_getaffinity(0))
    async with starter_bench(ENFORCE_CPU_AFFINITY="true", SLOT3_CPU_AFFINITY=str(last)) as bench:
        run = bench.submit("/bin/sleep", "600", slot={"Cpus": 1, "SlotID": 3})
        assert os.sched_getaffinity((await bench.running(run)).pid) == {last}
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True})
        await bench.ended(run)
