"""The execution point in a real pool: draining, vacating, rank preemption, a killed startd under claims in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.pool import Pool

BASE = "NUM_CPUS = 4\nRunBenchmarks = false\nNEGOTIATOR_INTERVAL = 2\n"


def submit(pool: Pool, seconds: float, count: int = 1, *extra: str) -> Path:
    """Queue jobs that sleep; the path of their event log."""
    pool.root.parent.chmod(0o755)  # jobs run as another user
    log = pool.root / "jobs.log"
    lines = [
        "executable = /bin/sleep", f"arguments = {seconds}", f"log = {log}", "transfer_executable = false", *extra,
        f"queue {count}",
    ]  # fmt: skip
    description = pool.root / "job.sub"
    description.write_text("\n".join(lines) + "\n")
    pool.run("submit", str(description))
    return log


def events(log: Path, kind: str) -> int:
    """How many events of a kind (``001``: executing) the log has."""
    return sum(line.startswith(f"{kind} (") for line in log.read_text().splitlines()) if log.exists() else 0


def slots(pool: Pool, **wanted: str) -> list[dict[str, object]]:
    """The slot ads that say so."""
    return [ad for ad in pool.json("status") if all(ad.get(name) == value for name, value in wanted.items())]


def test_a_drained_machine_keeps_its_jobs_for_their_retirement_and_takes_no_new_ones(
    make_pool: Callable[[str], Pool],
) -> None:
    pool = make_pool(BASE + "MaxJobRetirementTime = 3600\n")
    pool.up()
    log = submit(pool, 60, 2)
    pool.until("two jobs run", lambda: events(log, "001") == 2)
    host = str(slots(pool)[0]["Machine"])
    assert "Sent request to drain the startd" in pool.run("drain", "-reason", "kernel", host).stdout
    pool.until("jobs retire", lambda: len(slots(pool, State="Claimed", Activity="Retiring")) == 2)
    pool.until("the rest is drained", lambda: slots(pool, State="Drained", DrainReason="kernel"))
    assert pool.run("drain", host, check=False).returncode != 0
    pool.run("drain", "-cancel", host)
    pool.until("jobs go on", lambda: len(slots(pool, State="Claimed", Activity="Busy")) == 2)
    pool.run("vacate", "-fast", host)
    pool.until("both were evicted and run again", lambda: events(log, "004") == 2 and events(log, "001") == 4)
    pool.run("rm", "-all")


def test_a_job_that_the_machine_likes_better_takes_the_slot(make_pool: Callable[[str], Pool]) -> None:
    one_slot = "NUM_CPUS = 1\nNUM_SLOTS = 1\nRunBenchmarks = false\nNEGOTIATOR_INTERVAL = 2\n"
    pool = make_pool(one_slot + "RANK = (TARGET.Fancy =?= true) * 10\n")
    pool.up()
    log = submit(pool, 60)
    pool.until("the plain job runs", lambda: events(log, "001") == 1)
    submit(pool, 0.2, 1, "+Fancy = true")
    pool.until("the fancy job has run", lambda: events(log, "005") == 1)
    text = log.read_text()
    assert "Job was evicted. Code 1018" in text
    pool.until("the plain one runs again", lambda: events(log, "001") == 3)
    pool.run("rm", "-all")


def test_jobs_live_through_the_death_of_the_startd(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE)
    pool.up()
    log = submit(pool, 3, 4)
    pool.until("all run", lambda: events(log, "001") == 4)
    pool.kill("startd")
    pool.until("all have ended", lambda: events(log, "005") == 4)
    assert (events(log, "001"), events(log, "004")) == (4, 0)
    pool.until("the machine is whole again", lambda: [ad["Cpus"] for ad in slots(pool)] == [4])
