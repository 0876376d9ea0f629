"""Jobs of the vanilla, parallel, scheduler and local universes in one pool, while what runs them is killed.

The blows are random and the same each time; ``SLOTWISE_TEST_SEED=7`` deals others, ``SLOTWISE_TEST_BLOWS=40`` more.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.daemon import process

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

SEED = int(os.environ.get("SLOTWISE_TEST_SEED", "1"))
BLOWS = int(os.environ.get("SLOTWISE_TEST_BLOWS", "10"))
CONFIG = """
DedicatedScheduler = "DedicatedScheduler@$(FULL_HOSTNAME)"
NUM_CPUS = 12
MEMORY = 4096
RunBenchmarks = false
NEGOTIATOR_INTERVAL = 1
MASTER_BACKOFF_CEILING = 1
MOUNT_UNDER_SCRATCH =
SLOTWISE_USE_GPUS = false
UID_DOMAIN = here.test
QUEUE_SUPER_USERS = root
QUEUE_SUPER_USER_MAY_IMPERSONATE = nobody
"""
#: The lock is held while an instance of the job, or of its node, lives: a second one at the same time tells on itself.
#: They end one after the other once the gate is open.
SCRIPT = """#!/bin/sh
exec 9>>"$1/lock.$2"
flock -n 9 || echo "$2" >> "$1/overlaps"
until [ -e "$1/gate" ]; do sleep 0.1; done
sleep "$3"
"""
#: Clusters of each universe: how many, the procs of each, further lines.
UNIVERSES = {
    "vanilla": (1, 6, ""),
    "scheduler": (1, 6, ""),
    "local": (1, 6, ""),
    "parallel": (4, 1, "machine_count = 2\n"),
}
_ENTRY = re.compile(r"^(\d{3}) \((\d+)\.(\d+)\.\d+\)", re.MULTILINE)


@pytest.fixture
def pool() -> Iterator[Pool]:
    # Where the tests run as root the jobs are another user's, as root's do not run on the access point.
    root = Path(tempfile.mkdtemp(prefix="sw-"))
    root.chmod(0o755)
    made = Pool(root / "pool", CONFIG)
    try:
        yield made
    finally:
        made.destroy()
        shutil.rmtree(root, ignore_errors=True)


def submit(pool: Pool) -> set[tuple[int, int]]:
    """Queue the jobs; returns their ids."""
    work = pool.root / "work"
    work.mkdir()
    is_root = os.geteuid() == 0
    if is_root:
        shutil.chown(work, "nobody")
    script = pool.root / "job.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    found: set[tuple[int, int]] = set()
    for universe, (clusters, procs, more) in UNIVERSES.items():
        (pool.root / "job.sub").write_text(
            f"universe = {universe}\nexecutable = {script}\nlog = jobs.log\nrequest_memory = 10\nrequest_disk = 100\n"
            f"arguments = {work} $(Cluster).$(Process).{'$(NODE)' if universe == 'parallel' else 0} 0.$(Process)\n"
            + ('My.Owner = "nobody"\n' if is_root else "")
            + f"{more}queue {procs}\n"
        )
        for _ in range(clusters):
            said = pool.run("submit", "-terse", str(pool.root / "job.sub"), cwd=work).stdout
            cluster = int(said.split(".")[0])
            found.update((cluster, proc) for proc in range(procs))
    return found


def entries(pool: Pool) -> dict[tuple[int, int], Counter[str]]:
    """Per job, how often each number of an event is in the log."""
    found: dict[tuple[int, int], Counter[str]] = {}
    log = pool.root / "work" / "jobs.log"
    for number, cluster, proc in _ENTRY.findall(log.read_text() if log.exists() else ""):
        found.setdefault((int(cluster), int(proc)), Counter())[number] += 1
    return found


def finished(pool: Pool) -> int:
    return sum(1 for seen in entries(pool).values() if seen["005"])


def keepers(pool: Pool) -> list[int]:
    """The processes that each keep a job of the pool: they are above the script, whose argument is the directory."""
    work = os.fsencode(pool.root / "work")
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            above = int(entry.name) if work in (entry / "cmdline").read_bytes().split(b"\0") else 0
            while above > 1 and Path(f"/proc/{above}/comm").read_text() != "slotwise-keeper\n":
                above = int(Path(f"/proc/{above}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if above > 1:
            found.add(above)
    return sorted(found)


def strike(pool: Pool, victim: str, choose: random.Random) -> None:
    """Kill a daemon, or the keeper of some job, once there is one."""
    if victim == "keeper":
        alive = pool.until("a job runs", lambda: keepers(pool))
        process.send(choose.choice(alive), signal.SIGKILL)
    else:
        pool.until(f"a {victim} lives", lambda: pool.pid(victim))
        pool.kill(victim)
    time.sleep(choose.uniform(0.1, 0.6))  # the spacing of blows, not a wait for a result


def test_each_job_of_each_universe_ends_once_whatever_dies(pool: Pool) -> None:
    pool.up()
    jobs = submit(pool)
    choose = random.Random(SEED)
    pool.until("jobs run", lambda: any(seen["001"] for seen in entries(pool).values()))
    victims = ["schedd", "keeper", "starter", "keeper", "startd"]
    while len(victims) < BLOWS:
        victims.append(choose.choice(("schedd", "schedd", "keeper", "keeper", "starter", "startd")))
    choose.shuffle(victims)
    for number, victim in enumerate(victims):
        if number == max(0, BLOWS - 3):
            (pool.root / "work" / "gate").touch()  # the last blows fall while jobs end
        if victim != "keeper" or not finished(pool):
            strike(pool, victim, choose)

    def are_gone() -> bool:
        queue = pool.run("q", "-af", "JobStatus", check=False)
        return queue.returncode == 0 and not queue.stdout

    pool.until("all jobs have left", are_gone, limit_s=3 * LIMIT_S)
    pool.until("the log has all ends", lambda: finished(pool) >= len(jobs))
    seen = entries(pool)
    assert seen.keys() == jobs
    assert {job: counts for job, counts in seen.items() if (counts["000"], counts["005"]) != (1, 1)} == {}, victims
    assert not [job for job, counts in seen.items() if counts["009"] or counts["012"]]
    overlaps = pool.root / "work" / "overlaps"
    assert not overlaps.exists(), overlaps.read_text()
    past = pool.json("history")
    assert Counter((ad["ClusterId"], ad["ProcId"]) for ad in past) == Counter(jobs)
    assert {(ad["JobStatus"], ad["ExitCode"]) for ad in past} == {(4, 0)}

    def in_file() -> Counter[tuple[int, int]]:
        told = pool.run("history", "-local", "-af", "ClusterId", "ProcId", check=False).stdout
        return Counter((int(cluster), int(proc)) for cluster, proc in map(str.split, told.splitlines()))

    pool.until("the HISTORY file has all", lambda: in_file().total() >= len(jobs))
    assert in_file() == Counter(jobs)
