"""Common input files: a host gets them once for many jobs, and no job sees what is not its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.pool import Pool

pytestmark = pytest.mark.filterwarnings("error")

#: Says what the job has got, and tries to change it in place; waits for a file named like the job.
PROGRAM = """#!/bin/sh
cat big d/in d/e/deep own
stat -c '%h %U' big
echo changed 2>/dev/null >> big || echo refused
rm -f big && echo mine > big && cat big
while [ ! -e "$1" ]; do sleep 0.1; done
"""
WHOLE = ["big", "in", "deep", "own"]


@pytest.fixture
def place(open_directory: Path) -> Path:
    """A directory that jobs of other accounts reach, with the files of the jobs."""
    open_directory.chmod(0o777)
    (open_directory / "d" / "e").mkdir(parents=True)
    for name in ("big", "d/in", "d/e/deep", "own"):
        (open_directory / name).write_text(f"{name.rpartition('/')[2]}\n")
        (open_directory / name).chmod(0o644)
    (open_directory / "job.sh").write_text(PROGRAM)
    (open_directory / "job.sh").chmod(0o755)
    return open_directory


@pytest.fixture
def pool(make_pool: Callable[[str], Pool]) -> Pool:
    """A pool of one host with three slots."""
    pool = make_pool("NUM_CPUS = 3\nKEEP_DATA_CLAIM_IDLE = 3600\nMOUNT_UNDER_SCRATCH =\n")
    pool.up()
    return pool


def submit(pool: Pool, place: Path, count: int = 1, *commands: str) -> str:
    """Submit jobs whose ends are waited for as ``end CLUSTER``; the cluster."""
    text = [
        "executable = job.sh",
        f"arguments = {place}/end.$(Cluster)",
        "should_transfer_files = yes",
        "transfer_common_input = big, d",
        "transfer_input_files = own",
        "output = out.$(Cluster).$(Process)",
        "log = log.$(Cluster)",
        "request_memory = 1",
        'transfer_output_files = ""',
        *commands,
        f"queue {count}",
    ]
    (place / "s.sub").write_text("\n".join([*text, ""]))
    return pool.run("submit", "-terse", "s.sub", cwd=place).stdout.split()[0].partition(".")[0]


def wait(pool: Pool, place: Path, cluster: str, jobs: int = 1) -> str:
    """Let the jobs of a cluster end; their event log. ``jobs``: how many there are to be, some of them late."""
    (place / f"end.{cluster}").touch()
    log = place / f"log.{cluster}"
    pool.until("all have been submitted", lambda: log.read_text().count("000 (") >= jobs)
    pool.run("wait", "-wait", "60", f"log.{cluster}", cwd=place)
    pool.until("the log has all", lambda: log.read_text().count("Job terminated.") == log.read_text().count("000 ("))
    return log.read_text()


def kept(pool: Pool) -> list[Path]:
    """The sets that the host keeps."""
    return sorted((pool.home.execute / "common_inputs").glob("*"))


def test_a_host_gets_them_once_for_all_jobs_of_a_cluster(pool: Pool, place: Path) -> None:
    cluster = submit(pool, place, 5)
    log = wait(pool, place, cluster)
    for number in range(5):
        assert (place / f"out.{cluster}.{number}").read_text().split()[:4] == WHOLE, number
    assert log.count("Common files event: TransferStarted\n\tStarted transferring common files") == 1
    assert log.count("Common files event: TransferFinished") == 1
    # As HTCondor records it, but for the job: one of the cluster's rather than a job of its own.
    attributes = ("ClusterId", "CedarFilesCount", "CedarSizeBytes", "Protocols", "NumShadowStarts", "EpochAdType")
    records = ("history", "-epochs", "-type", "COMMON", cluster, "-af", *attributes)
    pool.until("the transfer is recorded", lambda: pool.run(*records).stdout.strip())
    assert pool.run(*records).stdout.splitlines() == [f"{cluster} 3 12 cedar 1 COMMON"]
    assert len(kept(pool)) == 1
    assert (kept(pool)[0] / "big").read_text() == "big\n", "what jobs did to theirs changes nothing"
    if os.geteuid() == 0:
        assert kept(pool)[0].parent.stat().st_mode & 0o777 == 0o700
        said = (place / f"out.{cluster}.0").read_text().split()
        assert said[5:] == ["root", "refused", "mine"] and int(said[4]) > 1, "a link that the job cannot write"


def test_a_changed_file_is_sent_anew_and_another_cluster_has_its_own(pool: Pool, place: Path) -> None:
    cluster = submit(pool, place, 2, "max_materialize = 1")
    pool.until("the first has its files", lambda: len(kept(pool)) == 1)
    pool.until("the first runs", lambda: "Job executing" in (place / f"log.{cluster}").read_text())
    (place / "big").write_text("new\n")
    log = wait(pool, place, cluster, 2)
    assert (place / f"out.{cluster}.0").read_text().startswith("big\n")
    assert (place / f"out.{cluster}.1").read_text().startswith("new\n")
    assert log.count("TransferStarted") == 2
    other = submit(pool, place)
    assert wait(pool, place, other).count("TransferStarted") == 1
    assert len(kept(pool)) == 3


def test_what_cannot_be_read_holds_and_the_next_is_sent_it(pool: Pool, place: Path) -> None:
    (place / "big").unlink()
    cluster = submit(pool, place, 2)
    pool.until("both are held", lambda: len(pool.json("q", cluster, "-constraint", "JobStatus == 5") or []) == 2)
    reasons = {ad["HoldReasonCode"] for ad in pool.json("q", cluster)}
    assert reasons == {13} and not kept(pool)
    (place / "big").write_text("big\n")
    pool.run("release", cluster)
    log = wait(pool, place, cluster)
    assert log.count("TransferStarted") == 1
    assert (place / f"out.{cluster}.1").read_text().split()[:4] == WHOLE


def test_a_list_that_leads_elsewhere_brings_nothing_out_of_its_place(pool: Pool, place: Path) -> None:
    (place / "in").mkdir()
    (place / "in" / "x").write_text("x\n")
    cluster = submit(pool, place, 1, "transfer_common_input = in/../big, d, in/")
    wait(pool, place, cluster)
    assert (place / f"out.{cluster}.0").read_text().split()[:4] == WHOLE
    assert (kept(pool)[0] / "x").read_text() == "x\n" and len(kept(pool)) == 1


def test_a_starter_that_begins_anew_keeps_nothing(pool: Pool, place: Path) -> None:
    wait(pool, place, submit(pool, place))
    former = kept(pool)
    pool.kill("starter")
    pool.until("they are gone", lambda: not kept(pool))
    log = wait(pool, place, submit(pool, place))
    assert log.count("TransferStarted") == 1 and former != kept(pool)


def test_a_site_can_forbid_it(make_pool: Callable[[str], Pool], place: Path) -> None:
    pool = make_pool("NUM_CPUS = 2\nFORBID_COMMON_FILE_TRANSFER = true\nMOUNT_UNDER_SCRATCH =\n")
    pool.up()
    cluster = submit(pool, place, 2)
    log = wait(pool, place, cluster)
    assert "Common files event" not in log and not kept(pool)
    assert (place / f"out.{cluster}.1").read_text().split()[:4] == WHOLE
