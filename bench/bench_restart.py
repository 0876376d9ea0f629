"""Daemons of a pool with 1,000 running jobs are killed and restarted; no job is lost, and none runs twice.

``python bench/bench_restart.py [JOBS]``: jobs sleep until they are let go. Each step says how long it takes until the
daemon answers and all jobs are known to run again, and what memory the daemons have then.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from bench_pool import Pool

_JOB = """executable = /bin/sh
arguments = "-c 'while ! test -e {gate}; do sleep 20; done; echo >> {done}/$(ProcId)'"
transfer_executable = false
should_transfer_files = no
request_memory = 16M
request_disk = 1M
log = jobs.log
queue {count}
"""
_PATIENCE_S = 900.0


def until(what: str, holds: Callable[[], bool]) -> float:
    """Seconds until a condition holds.

    :raises SystemExit: it does not hold in time.
    """
    began = time.monotonic()
    while not holds():
        if time.monotonic() > began + _PATIENCE_S:
            raise SystemExit(f"not within {_PATIENCE_S:g} s: {what}")
        time.sleep(0.5)
    return time.monotonic() - began


def lines_of(pool: Pool, *words: str) -> int:
    """How many lines a command prints; -1 while the daemon that it asks is away."""
    try:
        return pool.run(*words).count("\n")
    except SystemExit:
        return -1


def running(pool: Pool) -> int:
    """Jobs that the schedd knows to run."""
    return lines_of(pool, "q", "-constraint", "JobStatus == 2", "-af", "ProcId")


def claimed(pool: Pool) -> int:
    """Slots that the collector knows to be busy."""
    return lines_of(pool, "status", "-constraint", 'Activity == "Busy"', "-af", "Name")


def memory(pool: Pool) -> str:
    """Memory of the daemons, and of all keepers, in MiB."""
    daemons = {name: process.memory_full_info().uss / 2**20 for name, process in pool.daemons().items()}
    shown = [f"{name} {daemons[name]:.0f}" for name in ("schedd", "startd", "starter") if name in daemons]
    keepers = [one for one in psutil.process_iter(["name"]) if "keeper" in (one.info["name"] or "")]
    total = sum(one.memory_full_info().uss for one in keepers) / 2**20
    return ", ".join([*shown, f"{len(keepers)} keepers {total:.0f}"]) + " MiB"


def main() -> None:
    """Fill the pool, go through the steps, let the jobs end, and count."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory(prefix="sw-restart-", ignore_cleanup_errors=True) as directory:
        pool = Pool(Path(directory))
        done, gate = pool.root / "done", pool.root / "go"
        done.mkdir()
        done.chmod(0o777)
        config = pool.root / "condor_config"
        config.write_text(f"NUM_CPUS = {count}\nMEMORY = {count * 128}\nFILESYSTEM_DOMAIN = here\nUID_DOMAIN = here\n")
        pool.run("up")
        try:
            began = time.monotonic()
            pool.submit(_JOB.format(gate=gate, done=done, count=count))
            until("all jobs run", lambda: running(pool) == count and claimed(pool) >= count)
            print(f"{count} jobs run after {time.monotonic() - began:.1f} s: {memory(pool)}", flush=True)

            def kill(name: str) -> Callable[[], object]:
                return lambda: os.kill(pool.daemons()[name].pid, signal.SIGKILL)

            steps: list[tuple[str, Callable[[], object]]] = [
                ("kill -9 schedd", kill("schedd")),
                ("restart schedd", lambda: pool.run("restart", "schedd")),
                ("kill -9 startd", kill("startd")),
                ("restart --keep startd", lambda: pool.run("restart", "--keep", "startd")),
                ("restart --keep (all)", lambda: pool.run("restart", "--keep")),
            ]
            for what, step in steps:
                before = {name: one.pid for name, one in pool.daemons().items()}
                began = time.monotonic()
                step()

                def settled(former: dict[str, int] = before) -> bool:
                    now = {name: one.pid for name, one in pool.daemons().items()}
                    return now != former and running(pool) == count and claimed(pool) >= count

                until(f"all jobs run after {what}", settled)
                print(f"{what}: all run, known after {time.monotonic() - began:.1f} s: {memory(pool)}", flush=True)
            began = time.monotonic()
            gate.touch()
            until("all jobs have ended", lambda: pool.run("q", "-af", "ProcId") == "")
            log = (pool.root / "jobs.log").read_text()
            starts, evictions, ends = (log.count(f"\n{number:03d} (") for number in (1, 4, 5))
            ran = sorted(int(path.name) for path in done.iterdir())
            lines = sum(path.read_text().count("\n") for path in done.iterdir())
            print(f"ended {time.monotonic() - began:.1f} s after they were let go: {memory(pool)}")
            print(
                f"{len(ran)} of {count} jobs have ended, {lines} ends; in the log {starts} starts, "
                f"{evictions} evictions, {ends} ends"
            )
            if ran != list(range(count)) or lines != count or evictions:
                raise SystemExit("jobs were lost, or ran twice")
        finally:
            pool.run("down", "-fast")


if __name__ == "__main__":
    main()
