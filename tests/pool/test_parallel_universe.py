"""Parallel jobs on a real pool: four nodes, their output and events, the death of the schedd, a slot that is taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.pool import Pool

#: Pools of tests lie below /tmp, which jobs otherwise have one of their own of.
CONFIG = """
SCHEDD_NAME = tests@
NUM_CPUS = 4
MEMORY = 2048
RunBenchmarks = false
NEGOTIATOR_INTERVAL = 2
MOUNT_UNDER_SCRATCH =
SLOTWISE_USE_GPUS = false
"""
DEDICATED = 'DedicatedScheduler = "DedicatedScheduler@tests@"\n'


@pytest.fixture
def pool(make_pool: Callable[[str], Pool]) -> Pool:
    made = make_pool(CONFIG + DEDICATED)
    made.up()
    return made


def submit(pool: Pool, script: str, *lines: str, nodes: int = 4) -> Path:
    """Queue a job whose nodes run ``script``; returns the path of its event log."""
    pool.root.parent.chmod(0o755)
    pool.root.chmod(0o755)
    (pool.root / "work.sh").write_text(f"#!/bin/sh\n{script}\n")
    (pool.root / "work.sh").chmod(0o755)
    head = [
        "universe = parallel", "executable = work.sh", f"machine_count = {nodes}", "output = out.$(NODE)",
        "error = err.$(NODE)", "arguments = $(NODE)", "log = log", "should_transfer_files = yes",
        "request_memory = 100", "request_disk = 1000",
    ]  # fmt: skip
    (pool.root / "job.sub").write_text("\n".join([*head, *lines, "queue"]) + "\n")
    pool.run("submit", "job.sub")
    return pool.root / "log"


def heads(log: Path) -> list[tuple[str, str]]:
    """Number and node of each entry."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(line[:3], line.partition(")")[0][-3:]) for line in lines if line[:3].isdigit() and line[3:5] == " ("]


def ends(pool: Pool, log: Path) -> None:
    pool.until("the job ends", lambda: ("005", "000") in heads(log))


def texts(pool: Pool, nodes: int = 4) -> list[str]:
    return [(pool.root / f"out.{node}").read_text() for node in range(nodes)]


def test_four_nodes_run_together_through_the_death_of_the_schedd(pool: Pool) -> None:
    gate = pool.root / "gate"
    log = submit(
        pool,
        f'echo "$1 $_CONDOR_PROCNO $_CONDOR_NPROCS"; until [ -e {gate} ]; do sleep 0.1; done; exit $1',
        '+ParallelShutdownPolicy = "WAIT_FOR_ALL"',
    )
    pool.until("all nodes execute", lambda: ("001", "000") in heads(log))
    assert sorted(heads(log))[1:6] == [("001", "000"), *(("014", f"00{node}") for node in range(4))]
    (job,) = pool.json("q", "-all")
    assert (job["CurrentHosts"], len(set(job["AllRemoteHosts"].split(",")))) == (4, 4)
    number = ("ssh-to-job", "1.0.2", "echo $_CONDOR_PROCNO of $_CONDOR_NPROCS")
    assert pool.run(*number).stdout == "2 of 4\n"
    assert pool.run("tail", "1.0.3").stdout == "3 3 4\n" and pool.run("tail", "1").stdout == "0 0 4\n"
    for job in ("1", "1.0.4"):
        refused = pool.run("ssh-to-job", job, "true", check=False)
        assert "Please specify job 1.0.X where X is an integer from 0 to 3" in refused.stderr, refused
    pool.kill("schedd")
    pool.until("all nodes are back", lambda: ("023", "000") in heads(log))
    # A name that names no host is the schedd's as before, and so are its submitters.
    (schedd,) = pool.json("status", "-schedd")
    pool.until("its submitter is advertised", lambda: pool.json("status", "-submitters"))
    told = {(ad["ScheddName"], ad["Machine"]) for ad in pool.json("status", "-submitters")}
    assert told == {("tests@", schedd["Machine"])}
    assert "refused" not in (pool.home.log / "CollectorLog").read_text()
    gate.touch()
    ends(pool, log)
    assert texts(pool) == [f"{node} {node} 4\n" for node in range(4)]
    # 006: what the nodes use, told when it is measured.
    numbers = [number for number, _ in heads(log) if number != "006"]
    assert {number: numbers.count(number) for number in sorted(set(numbers))} == {
        "000": 1, "001": 1, "005": 1, "014": 4, "015": 4, "022": 1, "023": 1,
    }  # fmt: skip


def test_the_death_of_a_starter_sends_the_whole_job_back(pool: Pool) -> None:
    gate = pool.root / "gate"
    log = submit(pool, f"until [ -e {gate} ]; do sleep 0.1; done")
    pool.until("all nodes execute", lambda: ("001", "000") in heads(log))
    (job,) = pool.json("q", "-all")
    pool.run("vacate", "-fast", job["AllRemoteHosts"].split(",")[2])
    pool.until("it was evicted", lambda: ("004", "000") in heads(log))
    pool.until("all nodes execute again", lambda: heads(log).count(("001", "000")) >= 2)
    gate.touch()
    ends(pool, log)
    assert heads(log).count(("004", "000")) == 1


def test_without_slots_for_it_the_user_is_told_what_to_set(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(CONFIG)
    pool.up()
    submit(pool, "true", nodes=2)
    told = pool.run("analyze", "1").stdout
    assert 'No slot has DedicatedScheduler = "DedicatedScheduler@tests@"' in told
    pool.until(
        "the queue says it", lambda: "DedicatedScheduler@tests@" in pool.run("q", "-af", "LastRejMatchReason").stdout
    )
    pool.config_file.write_text(CONFIG + DEDICATED)
    pool.run("reconfig")
    ends(pool, pool.root / "log")
