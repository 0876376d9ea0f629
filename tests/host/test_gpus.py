"""GPUs of a driver that is pretended: discovery, slots, jobs and measurements with the unchanged libraries' clients."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import host
from tests.support.pool import Pool

SOURCES = Path(__file__).parent.parent / "support" / "gpus"

pytestmark = host.needs(host.programs("cc"))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the pretended libraries."""
    where = tmp_path_factory.mktemp("driver")
    where.chmod(0o755)
    for source, library in (("nvml.c", "libnvidia-ml.so.1"), ("cuda.c", "libcuda.so.1")):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", where / library, SOURCES / source], check=True)
    return where


def discovered(driver: Path, *options: str, **variables: str) -> str:
    env = {**os.environ, "LD_LIBRARY_PATH": str(driver), **variables}
    words = [sys.executable, "-m", "slotwise", "gpu-discovery", *options]
    return subprocess.run(words, env=env, check=True, capture_output=True, text=True).stdout


def test_devices_of_the_driver_are_reported(driver: Path) -> None:
    assert discovered(driver, "-properties", "-dynamic").splitlines() == [
        'DetectedGPUs="GPU-c0ffee00, GPU-c0ffee01"',
        'Common=[ Capability=9.0; DeviceName="Pretended _GPU_"; DriverVersion=12.40; ECCEnabled=true; '
        'GlobalMemoryMb=16384; MaxSupportedVersion=12040; NvidiaDriver="550.54.15"; ]',
        'GPU_c0ffee00=[ id="GPU-c0ffee00"; DevicePciBusId="0000:3B:00.0"; '
        'DeviceUuid="c0ffee00-1111-2222-3333-444455556666"; DieTempC=40; PowerUsage_mw=51000; ]',
        'GPU_c0ffee01=[ id="GPU-c0ffee01"; DevicePciBusId="0000:3C:00.0"; '
        'DeviceUuid="c0ffee01-1111-2222-3333-444455556666"; DieTempC=41; PowerUsage_mw=51000; ]',
    ]


def test_a_dying_device_and_a_host_without_any(driver: Path) -> None:
    dying = discovered(driver, "-dynamic", PRETENDED_GPUS="4", PRETENDED_LOST="2").splitlines()
    assert [("DieTempC" in line) for line in dying[2:]] == [True, True, False, True]
    assert discovered(driver, PRETENDED_GPUS="0") == "DetectedGPUs=0\n"
    assert discovered(driver, PRETENDED_GPUS="4", CUDA_VISIBLE_DEVICES="3") == 'DetectedGPUs="GPU-c0ffee03"\n'


@pytest.fixture
def pool(driver: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    monkeypatch.setenv("PRETENDED_GPUS", "4")
    monkeypatch.setenv("PRETENDED_LOST_FILE", str(driver / "lost"))
    (driver / "lost").unlink(missing_ok=True)
    # Not below pytest's directories: the jobs' account must be able to see a file there.
    root = Path(tempfile.mkdtemp(prefix="sw-"))
    root.chmod(0o755)
    pool = Pool(
        root,
        "use feature : GPUs\nuse feature : PartitionableSlot\nNUM_CPUS = 4\nMEMORY = 1024\n"
        "STARTD_CRON_GPUs_MONITOR_ARGS = --interval 1\nUPDATE_INTERVAL = 1\nSLOTWISE_DEVICE_CHECK_INTERVAL = 0.5\n"
        "MOUNT_UNDER_SCRATCH =\n",  # jobs see the file "go"
    )
    try:
        pool.up()
        yield pool
    finally:
        pool.destroy()
        shutil.rmtree(root, ignore_errors=True)


def shown(pool: Pool, attribute: str, constraint: str = "true") -> list[str]:
    """An attribute of the slots that have it."""
    words = pool.run("status", "-constraint", constraint, "-af", attribute).stdout.split()
    return [word for word in words if word != "undefined"]


def begin(pool: Pool, *gpus: int) -> Path:
    """Submit a job for each number of GPUs; each writes which it sees, and stays until the returned file is there."""
    script, go = pool.root / "gpu.sh", pool.root / "go"
    script.write_text(f"#!/bin/sh\necho $CUDA_VISIBLE_DEVICES\nwhile ! test -e {go}; do sleep 0.1; done\n")
    script.chmod(0o755)
    (pool.root / "job.sub").write_text(
        "executable = gpu.sh\nrequest_gpus = $(wanted)\nrequire_gpus = Capability >= 8\nrequest_memory = 64M\n"
        f"request_disk = 1M\noutput = out.$(Process)\nlog = log\nqueue wanted in ({' '.join(map(str, gpus))})\n"
    )
    pool.run("submit", "job.sub")
    return go


def test_jobs_get_gpus_and_are_told_how_much_they_used_them(pool: Pool) -> None:
    """Four devices, each busy for half of the time; the first has 1 GiB in use, the fourth 4."""
    # As with HTCondor, a job's use is known where its devices were measured before it began.
    pool.until("the devices are measured", lambda: shown(pool, "DeviceGPUsAverageUsage"))
    go = begin(pool, 1, 1, 2)
    # A slot whose job has not begun yet shows what its devices' peak was without one.
    busy = 'DynamicSlot && Activity == "Busy"'
    pool.until("all jobs' use is known", lambda: len(shown(pool, "GPUsMemoryUsage", busy)) == 3)
    # Once more: then the starter has been told of the first time, too, and the jobs' ads will have it.
    first = set(shown(pool, "DeviceGPUsAverageUsage", "DynamicSlot"))
    pool.until("it is known anew", lambda: first.isdisjoint(shown(pool, "DeviceGPUsAverageUsage", "DynamicSlot")))

    def halves() -> bool:
        used = [
            (ad["GPUs"], float(ad["DeviceGPUsAverageUsage"]))
            for ad in pool.json("status", "-constraint", "DynamicSlot")
        ]
        return all(0.2 * count < usage < 0.8 * count for count, usage in used)

    # The longer they are measured, the less one late look at them counts.
    pool.until("the busy seconds of a slot's devices are added", halves)
    ads = pool.json("status", "-constraint", "DynamicSlot")
    for ad in ads:
        memory = float(ad["GPUsMemoryUsage"])
        assert ad["GPUs_NvidiaDriver"] == "550.54.15", "by which containers are shown the driver"
        numbers = [int(name[-2:]) for name in str(ad["AssignedGPUs"]).split(",")]
        assert memory == 1024 * (max(numbers) + 1), "of their memory the highest counts"
    go.touch()
    pool.run("wait", "log")
    seen = [(pool.root / f"out.{n}").read_text().strip().split(",") for n in (0, 1, 2)]
    assert [len(names) for names in seen] == [1, 1, 2]
    assert sorted(name for names in seen for name in names) == [
        f"GPU-c0ffee0{n}-1111-2222-3333-444455556666" for n in range(4)
    ]
    last = [[name[10:12] for name in names] for names in seen]
    used = dict(line.split() for line in pool.run("history", "-af", "ProcId", "GPUsAverageUsage").stdout.splitlines())
    assert all(0.2 * n < float(used[proc]) < 0.8 * n for proc, n in (("0", 1), ("1", 1), ("2", 2))), used
    log = (pool.root / "log").read_text()
    assert len(re.findall(r"GPUs +: +(?:0\.[2-7]|[01]\.)\d", log)) == 3
    assert sorted(re.findall(r"GpusMemory \(MB\) +: +(\d+)", log)) == sorted(
        str(1024 * (max(map(int, n)) + 1)) for n in last
    )


def test_a_device_that_dies_under_a_job_goes_offline_and_comes_back(pool: Pool, driver: Path) -> None:
    """Its job keeps it; the slot and the pool are told, and nobody else gets it."""

    def gpus() -> list[str]:
        return pool.run("status", "-constraint", "PartitionableSlot", "-af", "GPUs", "OfflineGPUs").stdout.split()

    pool.until("all are there", lambda: gpus() == ["4"])
    go = begin(pool, 4)
    pool.until("a job has all", lambda: shown(pool, "AssignedGPUs", "DynamicSlot") and gpus() == ["0"])
    (driver / "lost").write_text("1")
    pool.until("one is offline", lambda: gpus() == ["0", "GPU-c0ffee01"])
    assert shown(pool, "OfflineGPUs", "DynamicSlot") == ["GPU-c0ffee01"], "the slot that has it is told"
    assert shown(pool, "GPUs", "DynamicSlot") == ["4"]
    go.touch()
    pool.run("wait", "log")
    pool.until("it does not come back to the others", lambda: gpus() == ["3", "GPU-c0ffee01"])
    log, line = pool.root / "home/log/StartLog", "GPU-c0ffee01 does not answer any more; it is offline"
    pool.until("the log has it", lambda: line in log.read_text())
    pool.config_file.write_text(pool.config_file.read_text() + "OFFLINE_MACHINE_RESOURCE_GPUs = GPU-c0ffee03\n")
    pool.run("reconfig")
    pool.until("so is the administrator's", lambda: sorted(gpus()[1:]) == ["GPU-c0ffee01", "GPU-c0ffee03,"])
    (driver / "lost").unlink()
    pool.until("it is there again", lambda: gpus() == ["3", "GPU-c0ffee03"])
