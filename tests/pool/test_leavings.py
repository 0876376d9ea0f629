"""kill -9 of startd, starter and keepers in a pool with volumes and cgroups: every job ends once, nothing is left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from slotwise.execution.control_dir import control_root
from slotwise.execution.launcher import holder

from tests.support import host
from tests.support.pool import Pool
from tests.support.starter_bench import groups_of
from tests.support.waiting import LIMIT_S

CONFIG = """
NUM_CPUS = 4
RunBenchmarks = false
NEGOTIATOR_INTERVAL = 2
STARTD_ENFORCE_DISK_LIMITS = true
SLOTWISE_SCRATCH_VOLUMES = loop
"""
JOBS = 24
#: Leaves a process in a session of its own.
SCRIPT = "(setsid sleep 60 &); sleep 0.4; echo done"


def loops(place: Path) -> str:
    """Loop devices on files below a directory."""
    said = subprocess.run(["losetup", "-l", "-n", "-O", "BACK-FILE"], capture_output=True, text=True, check=False)
    return "\n".join(line for line in said.stdout.splitlines() if str(place) in line)


def jobs_below(execute: Path) -> list[str]:
    """Processes whose environment tells of a scratch directory below ``execute``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"_CONDOR_SCRATCH_DIR={execute}/".encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def test_nothing_is_left_whoever_is_killed(make_pool: Callable[[str], Pool]) -> None:
    host.need(host.loop_mounts)
    chance = random.Random(7)
    pool = make_pool(CONFIG)
    pool.up()
    pool.root.parent.chmod(0o755)
    log = pool.root / "log"
    lines = ["executable = /bin/sh", f"arguments = \"-c '{SCRIPT}'\"", "transfer_executable = false", f"log = {log}",
             "should_transfer_files = yes", "request_disk = 20M", "request_memory = 32", f"queue {JOBS}"]  # fmt: skip
    (pool.root / "jobs.sub").write_text("\n".join(lines) + "\n")
    pool.run("submit", str(pool.root / "jobs.sub"))
    execute = pool.home.execute
    control = control_root(execute)

    def ended() -> int:
        return sum(line.startswith("005 (") for line in log.read_text().splitlines())

    pool.until("a process of a job is seen", lambda: jobs_below(execute))
    for victim in ("starter", "startd", "keeper", "starter", "keeper", "startd"):
        pool.until("jobs run", lambda: list(control.glob("dir_*/state")) or ended() == JOBS)
        if victim == "keeper":
            runs = [pid for path in control.glob("dir_*") if (pid := holder(path))]
            for pid in runs[: chance.randrange(1, 3)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        else:
            pool.until(f"the {victim} is there again", lambda victim=victim: pool.pid(victim))
            pool.kill(victim)
        deadline = time.monotonic() + chance.random()
        while time.monotonic() < deadline:
            time.sleep(0.02)
    pool.until("every job has ended", lambda: ended() == JOBS, limit_s=2 * LIMIT_S)
    assert sorted(line.split()[1] for line in log.read_text().splitlines() if line.startswith("005 (")) == sorted(
        f"(001.{number:03d}.000)" for number in range(JOBS)
    )
    pool.until("no directory is left", lambda: not list(execute.glob("dir_*")) and not list(control.glob("dir_*")))
    pool.until("no process is left", lambda: not jobs_below(execute))
    pool.until("no cgroup is left", lambda: not groups_of(execute))
    assert not list(execute.glob(".starter/volumes/dir_*"))
    assert str(execute) not in Path("/proc/self/mounts").read_text()
    pool.until("no loop device is left", lambda: not loops(execute))
