"""A full disk below the home of a pool: what stops, releases or cleans works, and what a user asks for is done or
refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import host
from tests.support.pool import Pool
from tests.support.small_disk import SmallDisk, small_disk

pytestmark = host.needs(host.loop_mounts)

QUICK = "NUM_CPUS = 2\nNEGOTIATOR_INTERVAL = 1\nRESERVED_DISK = 0\n"


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    with small_disk(60) as made:
        yield made


@pytest.fixture
def pool(disk: SmallDisk) -> Iterator[Pool]:
    """A pool whose home, and nothing else of it, is on the disk."""
    made = Pool(disk.at, QUICK)
    try:
        yield made
    finally:
        disk.make_room()
        made.destroy()


def submit(pool: Pool, count: int, *lines: str) -> None:
    path = Path(pool.root, "it.sub")
    path.write_text(
        "executable = /bin/sleep\narguments = 1000\nrequest_memory = 10\nrequest_disk = 1\n"
        + "".join(f"{line}\n" for line in lines)
        + f"queue {count}\n"
    )
    pool.run("submit", str(path))


def jobs(pool: Pool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pool.json("q")
    return found


@pytest.mark.parametrize("mode", [(), ("--fast",)], ids=["gracefully", "fast"])
def test_a_pool_goes_down_while_the_disk_is_full_and_comes_up_when_there_is_room(
    pool: Pool, disk: SmallDisk, mode: tuple[str, ...]
) -> None:
    pool.up()
    submit(pool, 2)
    pool.until("both run", lambda: [ad["JobStatus"] for ad in jobs(pool)] == [2, 2])
    disk.fill()
    done = pool.run("down", *mode, check=False)
    assert done.returncode == 0, done.stderr
    assert pool.pids() == {}
    disk.make_room()
    pool.up()
    pool.until("the jobs run again", lambda: [ad["JobStatus"] for ad in jobs(pool)] == [2, 2])


@pytest.mark.parametrize("free", [0, 1 << 16, 400_000], ids=["nothing", "64K", "400K"])
def test_up_on_a_full_disk_says_so(pool: Pool, disk: SmallDisk, free: int) -> None:
    """Whether a daemon could still write it into its log or not."""
    pool.up()
    assert pool.run("down").returncode == 0
    disk.fill()
    if free:
        disk.leave(free)
    while (failed := pool.run("up", check=False)).returncode == 0:  # the room is enough as yet: logs take some of it
        pool.run("down")
        disk.fill()
    assert f"{pool.home.root} has no room for daemons" in failed.stderr and "make room" in failed.stderr, failed.stderr
    assert "Traceback" not in failed.stderr, failed.stderr
    assert pool.pids() == {}
    disk.make_room()
    pool.up()


def test_daemons_that_fail_at_their_start_end_and_come_back_when_there_is_room(pool: Pool, disk: SmallDisk) -> None:
    """They have begun much by the time that they cannot write their address: runs that they took over, above all."""
    pool.config_file.write_text(f"{QUICK}MASTER_BACKOFF_CONSTANT = 1\nMASTER_BACKOFF_CEILING = 2\n")
    pool.up()
    submit(pool, 2)
    pool.until("both run", lambda: [ad["JobStatus"] for ad in jobs(pool)] == [2, 2])
    disk.fill()
    for name in ("starter", "startd", "schedd"):
        tried = {pool.kill(name)}

        def started_twice(name: str = name, tried: set[int] = tried) -> bool:
            if (pid := pool.pid(name)) is not None:
                tried.add(pid)
            return len(tried) > 2 or pool.answers(name)  # where a block was left, it has come up

        pool.until(f"a {name} that failed has ended, and another one has started", started_twice)
    disk.make_room()
    for name in ("starter", "startd", "schedd"):
        pool.until(f"the {name} answers", lambda name=name: pool.answers(name))
    pool.until("the jobs go on", lambda: [ad["JobStatus"] for ad in jobs(pool)] == [2, 2])


def test_a_job_that_has_filled_its_part_of_the_disk_outlives_its_startd(pool: Pool, disk: SmallDisk) -> None:
    """What is free then is less than what the job was given."""
    pool.up()
    script = Path(pool.root, "fill.sh")
    script.write_text("#!/bin/sh\nhead -c 25000000 /dev/zero > data\nmv data done\nsleep 1000\n")
    Path(pool.root, "it.sub").write_text(f"executable = {script}\nrequest_memory = 10\nrequest_disk = 30000\nqueue\n")
    pool.run("submit", str(Path(pool.root, "it.sub")))
    pool.until("it has written", lambda: list(disk.at.rglob("done")))
    before = pool.kill("startd")
    pool.until("another startd answers", lambda: pool.pid("startd") not in (None, before) and pool.answers("startd"))
    pool.until("it has taken over the job", lambda: "slot1_1" in pool.run("status", "-af", "Name").stdout)
    (job,) = jobs(pool)
    assert (job["JobStatus"], job["NumJobStarts"]) == (2, 1)


def test_slots_of_a_startd_that_starts_on_a_full_disk_have_disk_once_there_is_room(pool: Pool, disk: SmallDisk) -> None:
    pool.config_file.write_text(f"{QUICK}UPDATE_INTERVAL = 2\n")
    pool.up()
    disk.fill()
    disk.leave(600_000)
    before = pool.kill("startd")
    pool.until("another startd answers", lambda: pool.pid("startd") not in (None, before) and pool.answers("startd"))

    def amounts() -> list[int]:
        return [int(word) for word in pool.run("status", "-af", "Disk", "Memory").stdout.split()]

    pool.until("its slot", lambda: amounts()[0] < 1024 < amounts()[1])
    disk.make_room()
    pool.until("the slot has disk", lambda: amounts()[0] > 10_000)
    submit(pool, 1)
    pool.until("a job runs", lambda: [ad["JobStatus"] for ad in jobs(pool)] == [2])


def test_a_pool_that_was_never_down_goes_down_without_an_inode(pool: Pool, disk: SmallDisk) -> None:
    """The first `down` makes no file."""
    pool.up()
    before = {path.name for path in pool.home.run.iterdir()}
    assert {"down.lock", "staying-up"} <= before
    pool.down()
    assert {path.name for path in pool.home.run.iterdir()} - before <= {"going-down"}


def test_what_a_user_asks_for_is_refused_while_the_disk_is_full_and_is_not_done_later(
    pool: Pool, disk: SmallDisk
) -> None:
    pool.up()
    submit(pool, 4, "hold = true", f"log = {pool.root}/it.log")
    submit(pool, 2, "requirements = false")
    disk.fill()
    acts = [
        ("hold", "2.0"),
        ("rm", "1.0"),
        ("release", "1.1"),
        ("prio", "-p", "5", "1.2"),
        ("qedit", "1.3", "Told", "7"),
        ("rm", "2"),
    ]
    for words in acts:
        done = pool.run(*words, check=False)
        assert done.returncode != 0, words
        assert "make room on the disk of SPOOL" in done.stderr, (words, done.stderr)
    disk.make_room()
    pool.until("acts are taken", lambda: pool.run("qedit", "2.1", "Room", "1", check=False).returncode == 0)
    found = {f"{ad['ClusterId']}.{ad['ProcId']}": ad for ad in jobs(pool)}
    assert {key: ad["JobStatus"] for key, ad in found.items()} == {
        "1.0": 5, "1.1": 5, "1.2": 5, "1.3": 5, "2.0": 1, "2.1": 1
    }  # fmt: skip
    assert found["1.2"]["JobPrio"] == 0
    assert "Told" not in found["1.3"]
    pool.run("hold", "2.0")
    pool.run("rm", "1.0")
    assert sum(ad["JobStatus"] == 5 for ad in jobs(pool)) == 4
