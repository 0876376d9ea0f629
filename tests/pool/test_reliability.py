"""Daemons are killed one after the other while jobs are in flight: each job completes once, nothing is left behind.

300 jobs by default; ``SLOTWISE_TEST_JOBS=1000 SLOTWISE_TEST_ROUNDS=4`` is the long form.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

JOBS = int(os.environ.get("SLOTWISE_TEST_JOBS", "300"))
ROUNDS = int(os.environ.get("SLOTWISE_TEST_ROUNDS", "2"))
VICTIMS = ("schedd", "negotiator", "collector", "startd", "starter", "master")
CONFIG = """
NUM_CPUS = 20
# The jobs report through a directory under /tmp.
MOUNT_UNDER_SCRATCH =
"""
#: The lock is held while an instance of the job lives, so a second one at the same time tells on itself.
SCRIPT = """#!/bin/sh
exec 9>>"$1/lock.$2"
flock -n 9 || echo "$2" >> "$1/overlaps"
echo "$2" >> "$1/starts"
sleep 0.8
echo "result $2"
"""
_EVENT = re.compile(r"^(\d{3}) \((\d+)\.(\d+)\.\d+\)", re.MULTILINE)


def submit(pool: Pool, jobs: int) -> Path:
    """Queue the jobs; returns the directory they report to."""
    marks = pool.root / "marks"
    marks.mkdir()
    marks.chmod(0o777)
    pool.root.parent.chmod(0o755)
    script = pool.root / "job.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    (pool.root / "jobs.sub").write_text(
        f"executable = {script}\n"
        f"arguments = {marks} $(Process)\n"
        "output = out/$(Process)\n"
        "error = err/$(Process)\n"
        "log = jobs.log\n"
        "request_memory = 10\n"
        f"queue {jobs}\n"
    )
    for name in ("out", "err"):
        (pool.root / name).mkdir()
    pool.run("submit", "jobs.sub")
    return marks


def events(pool: Pool) -> dict[str, Counter[str]]:
    """Per job, how often each event number is in the log."""
    found: dict[str, Counter[str]] = {}
    log = pool.root / "jobs.log"
    for number, cluster, proc in _EVENT.findall(log.read_text() if log.exists() else ""):
        found.setdefault(f"{int(cluster)}.{int(proc)}", Counter())[number] += 1
    return found


def finished(pool: Pool) -> int:
    return sum(1 for seen in events(pool).values() if seen["005"])


def processes_of(pool: Pool) -> list[str]:
    """Processes that were given the pool's home, or a scratch directory in it: daemons, keepers, jobs."""
    needle = os.fsencode(pool.home.root)
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) == os.getpid():
            continue
        try:
            about = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if needle in about and words:
            found.append(f"{entry.name} {words.replace(bytes(1), b' ').decode(errors='replace')}")
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_job_completes_once_whatever_dies(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(CONFIG)
    pool.up()
    marks = submit(pool, JOBS)
    pool.until("jobs run", lambda: finished(pool) > 0)
    killed = 0
    for _ in range(ROUNDS):
        for victim in VICTIMS:
            if finished(pool) >= JOBS:
                break
            pool.until(f"a {victim} lives", lambda v=victim: pool.pid(v))
            pool.kill(victim)
            killed += 1
            time.sleep(0.5)  # the spacing of blows, not a wait for a result
    assert killed >= len(VICTIMS), "the jobs were over before every daemon had been killed"

    def done() -> bool:
        return finished(pool) >= JOBS

    pool.until("all jobs are done", done, limit_s=4 * LIMIT_S)
    seen = events(pool)
    assert len(seen) == JOBS
    assert {job: n["005"] for job, n in seen.items() if n["005"] != 1} == {}, "jobs that ended more than once"
    assert {job: n["000"] for job, n in seen.items() if n["000"] != 1} == {}
    assert not [job for job, n in seen.items() if n["009"] or n["012"]]
    wrong = [n for n in range(JOBS) if (pool.root / "out" / str(n)).read_text() != f"result {n}\n"]
    assert wrong == []
    assert not (marks / "overlaps").exists(), (marks / "overlaps").read_text()
    pool.until("the queue is empty", lambda: pool.json("q", "-allusers") == [])
    history = pool.json("history")
    assert sorted(ad["ProcId"] for ad in history) == list(range(JOBS))
    assert {ad["JobStatus"] for ad in history} == {4}
    pool.down()
    pool.until("no process is left", lambda: not processes_of(pool))


def test_a_pool_that_was_taken_down_goes_on_where_it_was(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(CONFIG)
    pool.up()
    submit(pool, 60)
    pool.until("jobs run", lambda: finished(pool) > 0)
    pool.down()
    assert not processes_of(pool)
    pool.up()
    pool.until("all jobs are done", lambda: finished(pool) >= 60, limit_s=2 * LIMIT_S)
    assert all(n["005"] == 1 for n in events(pool).values())
    for number in range(60):
        assert (pool.root / "out" / str(number)).read_text() == f"result {number}\n"
    pool.down()
