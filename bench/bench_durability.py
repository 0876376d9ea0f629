"""What flushes cost: submissions and whole jobs a second by the settings that say what is flushed.

An access point on the disk of ``--directory``, with callers that submit one job after another, each as soon as the
former is acknowledged, and a pretended execution point whose jobs end at once with an output of a few bytes. The time
of one flush of that disk is measured beside it, as all else depends on it. ``--flush-takes 5`` makes each take 5 ms
longer (a library that is loaded before libc's holds the calls up), as on a disk that has to write before it answers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import Report

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script

OUT = Path(__file__).parent / "out"
#: Flushes that end later: strace, too, can delay system calls, but it doubles the kernel's time of all others.
_SLOW_FLUSHES = """
#include <unistd.h>
#include <sys/syscall.h>
static int slow(long call, int file) { int status = syscall(call, file); usleep(DELAY_US); return status; }
int fsync(int file) { return slow(SYS_fsync, file); }
int fdatasync(int file) { return slow(SYS_fdatasync, file); }
int syncfs(int file) { return slow(SYS_syncfs, file); }
"""
SETTINGS: dict[str, dict[str, str]] = {
    "FULL": {},
    "FULL, ENABLE_USERLOG_FSYNC": {"ENABLE_USERLOG_FSYNC": "true"},
    "FULL, outputs not flushed": {"SLOTWISE_OUTPUT_FSYNC": "false"},
    "NORMAL": {"SLOTWISE_SCHEDD_SYNCHRONOUS": "NORMAL"},
    "NORMAL, outputs not flushed": {"SLOTWISE_SCHEDD_SYNCHRONOUS": "NORMAL", "SLOTWISE_OUTPUT_FSYNC": "false"},
    "OFF, outputs not flushed": {"SLOTWISE_SCHEDD_SYNCHRONOUS": "OFF", "SLOTWISE_OUTPUT_FSYNC": "false"},
}


@contextlib.contextmanager
def home(directory: str) -> Iterator[Path]:
    """A place on the disk."""
    with tempfile.TemporaryDirectory(prefix="sw-", dir=directory) as root:
        yield Path(root)


def flush_ms(directory: str, times: int = 50) -> list[float]:
    """How long the disk takes for each of so many flushes of an appended line, milliseconds."""
    with home(directory) as root, open(root / "file", "wb", buffering=0) as file:
        took = []
        for _ in range(times):
            file.write(b"x" * 100)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(1000 * (time.perf_counter() - began))
    return took


async def submissions(root: Path, knobs: dict[str, str], callers: int, jobs: int) -> float:
    """Acknowledged submissions a second, of so many callers at once."""
    schedd = await RunningAccessPoint(root / "pool").start(**knobs)

    async def call() -> None:
        for _ in range(jobs // callers):
            await schedd.submit(UserLog="job.log")

    began = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(callers)))
    took = time.perf_counter() - began
    if sum(schedd.point.queue.counts()) != jobs // callers * callers:
        raise SystemExit("jobs are missing")
    await schedd.stop()
    return jobs / took


async def runs(root: Path, knobs: dict[str, str], jobs: int) -> float:
    """Jobs a second from the match to the last acknowledged end, with a log and an output for each."""
    schedd = await RunningAccessPoint(root / "pool").start(**knobs)
    point = ExecutionPoint(root / "ep.sock", schedd.daemon_token, slots=16)
    point.script = lambda ad: Script(outputs={f"out.{ad['ProcId']}": b"done\n"})
    await point.start()
    await schedd.submit(jobs, UserLog="job.log")
    began = time.perf_counter()
    await schedd.negotiate(point.address, slots=16)
    await schedd.until_gone()
    took = time.perf_counter() - began
    if len(list(schedd.home.root.glob("out.*"))) != jobs:
        raise SystemExit("outputs are missing")
    await schedd.stop()
    await point.stop()
    return jobs / took


def hold_up(milliseconds: float) -> None:
    """Run this anew with flushes that end so much later.

    :raises OSError: where there is no C compiler.
    """
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        library = Path(directory) / "slow_flushes.so"
        command = [
            "cc",
            "-shared",
            "-fPIC",
            f"-DDELAY_US={int(1000 * milliseconds)}",
            "-o",
            str(library),
            "-x",
            "c",
            "-",
        ]
        subprocess.run(command, input=_SLOW_FLUSHES, text=True, check=True)
        environment = os.environ | {"LD_PRELOAD": str(library)}
        again = [sys.executable, *sys.argv, "--flush-takes", "0"]
        raise SystemExit(subprocess.run(again, env=environment, check=False).returncode)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", default="/var/tmp", help="on the disk to measure (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=400, help="of each measurement (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--flush-takes", type=float, default=0, metavar="MS", help="longer, for each flush")
    asked = parser.parse_args()
    if asked.flush_takes:
        hold_up(asked.flush_takes)
    logging.getLogger().setLevel(logging.ERROR)
    report = Report("durability")
    report.add("a flush of this disk", "ms", statistics.quantiles(flush_ms(asked.directory), n=10)[4])
    for name, knobs in SETTINGS.items():
        for callers in (1, 16):
            rates = []
            for _ in range(asked.repeat):
                with home(asked.directory) as root:
                    rates.append(asyncio.run(submissions(root, knobs, callers, asked.jobs)))
            report.add(f"submissions by {callers} at once, {name}", "a second", rates)
        rates = []
        for _ in range(asked.repeat):
            with home(asked.directory) as root:
                rates.append(asyncio.run(runs(root, knobs, asked.jobs)))
        report.add(f"jobs, {name}", "a second", rates)
    report.save(OUT)


if __name__ == "__main__":
    main()
