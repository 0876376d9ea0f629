"""GPUs of a driver that is pretended: discovery, slots, jobs and measurements with the unchanged libraries' clients."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pool import Pool

SOURCES = Path(__file__).parent.parent / "support" / "gpus"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler makes the pretended driver")


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


def test_jobs_get_gpus_and_are_told_how_much_they_used_them(pool: Pool) -> None:
    script, go = pool.root / "gpu.sh", pool.root / "go"
    script.write_text(f"#!/bin/sh\necho $CUDA_VISIBLE_DEVICES\nwhile ! test -e {go}; do sleep 0.1; done\n")
    script.chmod(0o755)
    (pool.root / "job.sub").write_text(
        "executable = gpu.sh\nrequest_gpus = 1\nrequire_gpus = Capability >= 8\nrequest_memory = 64M\n"
        "request_disk = 1M\noutput = out.$(Process)\nlog = log\nqueue 2\n"
    )

    def shown(attribute: str, constraint: str) -> list[str]:
        words = pool.run("status", "-constraint", constraint, "-af", attribute).stdout.split()
        return [word for word in words if word != "undefined"]

    # As with HTCondor, a job's use is known where its devices were measured before it began.
    pool.until("the devices are measured", lambda: shown("DeviceGPUsAverageUsage", "true"), 40)
    pool.run("submit", "job.sub")
    pool.until("both jobs' use is known", lambda: len(shown("GPUsAverageUsage", "GPUs == 1")) == 2, 40)
    go.touch()
    pool.run("wait", "log")
    assert sorted((pool.root / f"out.{n}").read_text() for n in (0, 1)) == ["GPU-c0ffee00\n", "GPU-c0ffee01\n"]
    used = [float(line) for line in pool.run("history", "-af", "GPUsAverageUsage").stdout.splitlines()]
    assert len(used) == 2 and all(0.2 < value < 0.8 for value in used), used


def test_a_device_that_is_lost_goes_offline_and_comes_back(pool: Pool, driver: Path) -> None:
    def gpus() -> list[str]:
        return pool.run("status", "-af", "GPUs", "OfflineGPUs").stdout.split()

    pool.until("both are there", lambda: gpus() == ["2"])
    (driver / "lost").write_text("1")
    pool.until("one is offline", lambda: gpus() == ["1", "GPU-c0ffee01"])
    assert "GPU-c0ffee01 does not answer any more; it is offline" in (pool.root / "home/log/StartLog").read_text()
    (driver / "lost").unlink()
    pool.until("both are there", lambda: gpus() == ["2"])
