"""Scratch file systems of real jobs: files with a file system, and logical volumes (where the host has them)."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.execution.launcher import holder
from slotwise.starter.enforcement.host_programs import run as tool
from slotwise.wire.gen import schedd_pb2

from tests.support.ads import number_of
from tests.support.starter_bench import StarterBench, groups_of, starter_bench
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.host
EXITED, HELD = schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.HELD
EVICTED, NOT_STARTED = schedd_pb2.RunEnded.EVICTED, schedd_pb2.RunEnded.NOT_STARTED
KINDS = ["loop", "thick", "thin", "admins-thick", "admins-thin"]


@pytest.fixture
def admins_group(lvm: None, tmp_path: Path) -> Iterator[str]:
    """A volume group as an administrator makes it, with a thin pool."""
    name, image = f"admins_{uuid.uuid4().hex[:8]}", tmp_path / "pv.img"
    with open(image, "wb") as file:
        file.truncate(400 << 20)
    device = tool("losetup", "-f", "--show", str(image)).strip()
    tool("pvcreate", "-q", "-y", device)
    tool("vgcreate", "-q", "-y", "-s", "1m", name, device)
    tool("lvcreate", "-q", "-y", "--type", "thin-pool", "-L", "200m", "-n", "pool", name)
    yield name
    tool("vgremove", "-q", "-f", "-y", name)
    tool("losetup", "-d", device)


@pytest.fixture(params=KINDS)
def knobs(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The knobs for one kind of volume."""
    found: dict[str, Any] = {"STARTD_ENFORCE_DISK_LIMITS": "true", "CGROUP_POLLING_INTERVAL": 1}
    if request.param == "loop":
        request.getfixturevalue("loop_mounts")
        return {**found, "SLOTWISE_SCRATCH_VOLUMES": "loop"}
    request.getfixturevalue("lvm")
    found |= {"SLOTWISE_SCRATCH_VOLUMES": "lvm", "LVM_THIN_LV_EXTRA_SIZE_MB": 30}
    if "thin" in request.param:
        found["LVM_USE_THIN_PROVISIONING"] = "true"
    if "admins" in request.param:
        found["LVM_VOLUME_GROUP_NAME"] = request.getfixturevalue("admins_group")
        found["LVM_THINPOOL_NAME"] = "pool"
    else:
        backing = Path(request.getfixturevalue("tmp_path")) / "backing.img"
        found |= {"LVM_BACKING_FILE": backing, "LVM_BACKING_FILE_SIZE_MB": 300}
    return found


def volumes() -> list[str]:
    """All logical volumes of jobs on this host."""
    try:
        return [name for name in tool("lvs", "--noheadings", "-o", "lv_name").split() if "dir_" in name]
    except Exception:
        return []


def loops(bench: StarterBench) -> list[str]:
    """Loop devices on files of this bench."""
    said = subprocess.run(["losetup", "-l", "-n", "-O", "BACK-FILE"], capture_output=True, text=True, check=False)
    return [line for line in said.stdout.splitlines() if str(bench.root) in line]


async def nothing_left(bench: StarterBench) -> None:
    """No directory, mount, volume, loop device or cgroup of a job."""
    await bench.clean()
    assert not list(bench.execute.glob(".starter/volumes/dir_*"))
    assert str(bench.root) not in Path("/proc/self/mounts").read_text()
    await bench.eventually(lambda: not volumes(), "no logical volume is left")
    await bench.eventually(lambda: not loops(bench), "no loop device is left")
    await bench.eventually(lambda: not groups_of(bench.execute), "no cgroup is left")


async def test_a_disk_filler_is_held(knobs: dict[str, Any]) -> None:
    async with starter_bench(**knobs) as bench:
        assert (await bench.facts()).eval("EnforcesDisk") == "volume"
        fill = "dd if=/dev/zero of=big bs=1M count=100"
        run = bench.submit("/bin/sh", "-c", fill, slot={"Disk": 30_000})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 104), ended
        assert ended.reason.startswith("Job has exceeded allocated disk (29.30 MB).")
        # One that does not stop at the error is found by the starter's own look.
        stubborn = bench.submit("/bin/sh", "-c", f"{fill}; sleep 600", slot={"Disk": 30_000})
        ended = await bench.ended(stubborn)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 104), ended
        await nothing_left(bench)


async def test_a_job_within_its_volume_brings_its_files_back(knobs: dict[str, Any]) -> None:
    async with starter_bench(**knobs) as bench:
        script = "dd if=/dev/zero of=big bs=1M count=25 2>/dev/null && cat in > out; df -k . | tail -1"
        run = bench.submit("/bin/sh", "-c", script, slot={"Disk": 30_000}, inputs={"in": b"7"}, TransferOutput="out")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), bench.output(run, "_condor_stderr")
        assert bench.output(run, "out") == "7"
        assert bench.output(run).split()[-1].startswith(str(bench.execute))
        assert number_of(bench.shadow.runs[run].end_ad, "DiskUsage") >= 25 * 1024
        await nothing_left(bench)


async def test_a_volume_is_seen_by_its_job_only(knobs: dict[str, Any]) -> None:
    async with starter_bench(**knobs) as bench:
        waits = "touch here; until grep -q go in 2>/dev/null; do sleep 0.05; done"
        first = bench.submit("/bin/sh", "-c", waits.replace("grep -q go in", "[ -e go ]"), slot={"Disk": 20_000})
        await bench.running(first)
        (scratch,) = bench.execute.glob("dir_*/scratch")
        second = bench.submit("/bin/sh", "-c", "cat /proc/self/mounts", slot={"Disk": 20_000})
        await bench.ended(second)
        seen = [line.split()[1] for line in bench.output(second).splitlines()]
        assert [place for place in seen if place.startswith(str(bench.execute))]
        assert str(scratch) not in seen
        assert str(bench.execute) not in Path("/proc/self/mounts").read_text()
        assert not (scratch / "here").exists()
        assert bench.startd is not None
        bench.startd.command(first, kill={"fast": True})
        assert (await bench.ended(first)).how == EVICTED
        await nothing_left(bench)


@pytest.mark.parametrize("killed", ["starter", "keeper", "both"])
async def test_a_volume_outlives_the_starter_and_goes_with_its_job(knobs: dict[str, Any], killed: str) -> None:
    async with starter_bench(**knobs) as bench:
        script = "echo 1 > before; until [ -e in2 ]; do sleep 0.05; done; cat before"
        run = bench.submit("/bin/sh", "-c", script, slot={"Disk": 20_000}, KillSig="SIGTERM")
        await bench.running(run)
        (control,) = bench.execute.glob("dir_*/htcondor")
        keeper = holder(control.resolve())
        assert keeper is not None
        if killed != "keeper":
            await bench.kill_9()
        if killed != "starter":
            os.kill(keeper, signal.SIGKILL)
        if killed != "keeper":
            await bench.start()
        if killed == "starter":
            # The new starter is where the mount is: it can see and end the job, and take its files.
            await bench.eventually(lambda: bench.shadow.runs[run].accepted >= 2, "the run says hello again")
            job = bench.shadow.runs[run].started
            assert job is not None
            Path(f"/proc/{job.pid}/root/{control.parent}/scratch/in2").touch()
            ended = await bench.ended(run)
            assert (ended.how, ended.code) == (EXITED, 0)
            assert bench.output(run) == "1\n" and bench.output(run, "before") == "1\n"
        else:
            assert (await bench.ended(run)).how == EVICTED
        await nothing_left(bench)


async def test_results_on_a_volume_are_sent_after_a_restart(knobs: dict[str, Any]) -> None:
    async with starter_bench(**knobs) as bench:
        bench.shadow.acknowledges = False
        run = bench.submit("/bin/sh", "-c", "echo kept > result", slot={"Disk": 20_000})
        await bench.ended(run)
        await bench.kill_9()  # nobody is left who sees the mount: the kernel takes it down
        bench.shadow.runs[run].ended = None
        bench.shadow.runs[run].outputs.clear()
        bench.shadow.acknowledges = True
        await bench.start()
        assert (await bench.ended(run)).how == EXITED
        assert bench.output(run, "result") == "kept\n"
        await nothing_left(bench)


async def test_an_exhausted_pool_is_reported_and_not_the_jobs_fault(lvm: None, tmp_path: Path) -> None:
    knobs: dict[str, Any] = {
        "STARTD_ENFORCE_DISK_LIMITS": "true",
        "SLOTWISE_SCRATCH_VOLUMES": "lvm",
        "LVM_USE_THIN_PROVISIONING": "true",
        "LVM_BACKING_FILE": tmp_path / "backing.img",
        "LVM_BACKING_FILE_SIZE_MB": 80,
        "LVM_THIN_LV_EXTRA_SIZE_MB": 10,
    }
    async with starter_bench(**knobs) as bench:
        fill = "dd if=/dev/urandom of=big bs=1M count=100 conv=fsync; code=$?; sleep 2.5; exit $code"
        run = bench.submit("/bin/sh", "-c", fill, slot={"Disk": 200_000})
        ended = await bench.ended(run, limit_s=2 * LIMIT_S)
        assert (ended.how, ended.reason_code) == (EVICTED, 1024), ended
        assert "thin pool" in ended.reason and "full" in ended.reason
        await bench.eventually(lambda: not list(bench.execute.glob("dir_*")), "the volume is given back")
        again = bench.submit("/bin/sh", "-c", "echo fine", slot={"Disk": 20_000})
        assert (await bench.ended(again)).how == EXITED


async def test_leftovers_of_a_crash_are_removed_and_other_volumes_are_not(admins_group: str) -> None:
    knobs: dict[str, Any] = {
        "STARTD_ENFORCE_DISK_LIMITS": "true",
        "SLOTWISE_SCRATCH_VOLUMES": "lvm",
        "LVM_VOLUME_GROUP_NAME": admins_group,
    }
    async with starter_bench(**knobs) as bench:
        run = bench.submit("/bin/sh", "-c", "sleep 600", slot={"Disk": 10_000})
        await bench.running(run)
        (mine,) = [name for name in volumes() if "dir_" in name]
        tag = mine.partition("_dir_")[0]
        await bench.kill_9()
        for name in (f"{tag}_dir_1_1", "other_dir_1_1", "admins_own"):
            tool("lvcreate", "-q", "-y", "-W", "n", "-L", "8m", "-n", name, admins_group)
        await bench.start()
        await bench.eventually(lambda: f"{tag}_dir_1_1" not in volumes(), "what the crash left is gone")
        assert {mine, "other_dir_1_1"} <= set(volumes())
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True})
        await bench.ended(run)
        await bench.eventually(lambda: mine not in volumes(), "its volume is gone")
        left = tool("lvs", "--noheadings", "-o", "lv_name", admins_group).split()
        assert {"other_dir_1_1", "admins_own"} <= set(left)


async def test_what_a_starter_left_of_its_trials_is_removed(loop_mounts: None) -> None:
    knobs: dict[str, Any] = {
        "STARTD_ENFORCE_DISK_LIMITS": "true",
        "SLOTWISE_SCRATCH_VOLUMES": "loop",
        "LVM_HIDE_MOUNT": "false",
    }
    async with starter_bench(**knobs) as bench:
        await bench.kill_9()
        store = bench.execute / ".starter" / "volumes"
        for name in ("trial_1", "trial_2", "trial_3"):
            (store / f"{name}.img").write_bytes(bytes(8 << 20))
        tool("mkfs.ext4", "-q", "-F", str(store / "trial_1.img"))
        for name in ("trial_1", "trial_2"):
            (store / name).mkdir()
        tool("mount", "-o", "loop", str(store / "trial_1.img"), str(store / "trial_1"))
        await bench.start()
        assert not list(store.glob("trial_*"))
        assert str(store) not in Path("/proc/self/mounts").read_text()
        assert (await bench.ended(bench.submit("/bin/true", slot={"Disk": 10_000}))).how == EXITED


async def test_a_group_of_our_own_goes_with_the_starter(lvm: None, tmp_path: Path) -> None:
    backing = tmp_path / "backing.img"
    knobs: dict[str, Any] = {
        "STARTD_ENFORCE_DISK_LIMITS": "true",
        "SLOTWISE_SCRATCH_VOLUMES": "lvm",
        "LVM_BACKING_FILE": backing,
        "LVM_BACKING_FILE_SIZE_MB": 64,
    }
    async with starter_bench(**knobs) as bench:
        await bench.ended(bench.submit("/bin/true", slot={"Disk": 10_000}))
        assert backing.exists()
    assert not backing.exists()
    assert "slotwise_" not in tool("vgs", "--noheadings", "-o", "vg_name")
    assert str(backing) not in tool("losetup", "-l", "-n", "-O", "BACK-FILE")
