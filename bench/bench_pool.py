"""A personal pool at full speed: jobs a second, time from submit to running, submissions, listings, idle cost.

HTCondor's figures are those of HTCondor 25 on a machine of the same kind (2 cores).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from harness import Report, timed
from slotwise.client import Schedd

OUT = Path(__file__).resolve().parent / "out"
#: One submission is of 100,000 jobs: more than the default limits allow.
CONFIG = "NUM_CPUS = 40\nMEMORY = 40960\nMAX_JOBS_PER_SUBMISSION = 100000\nMAX_JOBS_PER_OWNER = 200000\n"
TRUE = "executable = /bin/true\nrequest_memory = 64M\nrequest_disk = 1M\n"


class Pool:
    """A pool in a temporary home, driven by the installed command."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.chmod(0o755)
        (root / "condor_config").write_text(CONFIG)
        self.env = {**os.environ, "SLOTWISE_HOME": str(root / "home"), "CONDOR_CONFIG": str(root / "condor_config")}
        self.env["_CONDOR_SLOTWISE_MIN_UID"] = "0"  # root may run this
        beside = Path(sys.executable).with_name("slotwise")
        self.command = str(beside) if beside.exists() else "slotwise"

    def run(self, *words: str) -> str:
        """Standard output of ``slotwise words...``; a failure ends the benchmark."""
        done = subprocess.run(
            [self.command, *words], cwd=self.root, env=self.env, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"slotwise {' '.join(words)} failed: {done.stderr}")
        return done.stdout

    def submit(self, text: str) -> str:
        """Submit a description; returns the cluster."""
        path = self.root / "job.sub"
        path.write_text(text)
        return self.run("submit", "-terse", path.name).partition(".")[0].strip()

    def processor_s(self) -> float:
        """The processor time that the daemons, what they have started and waited for, and the commands of this program
        have used so far, in seconds. Unlike the time that passes it hardly depends on what else the machine does."""
        mine = os.times()
        times = [process.cpu_times() for process in self.daemons().values()]
        theirs = sum(one.user + one.system + one.children_user + one.children_system for one in times)
        return theirs + mine.children_user + mine.children_system

    def daemons(self) -> dict[str, psutil.Process]:
        """The pool's daemons by name, as their address files tell: forked ones have no command line."""
        paths = sorted((self.root / "home" / "run").glob("*.json"))
        return {path.stem: psutil.Process(json.loads(path.read_text())["pid"]) for path in paths}


def jobs_per_second(pool: Pool, report: Report, count: int = 1000) -> None:
    """Submit to last completion of ``count`` jobs of /bin/true."""
    rates, used = [], []
    for _ in range(3):
        start, before = time.perf_counter(), pool.processor_s()
        log = pool.root / f"true{start}.log"
        pool.submit(f"{TRUE}log = {log.name}\nqueue {count}\n")
        pool.run("wait", log.name)
        seconds = time.perf_counter() - start
        ended = log.read_text().count("\n005 (")
        assert ended == count, f"{ended} of {count} jobs ended in the log"
        rates.append(count / seconds)
        used.append((pool.processor_s() - before) / count * 1000)
    report.add("jobs of /bin/true, submit to last completion", "jobs/s", rates, target="200", reference="37..40")
    report.add("jobs of /bin/true, processor time of each", "ms", used)


def submit_to_running(pool: Pool, report: Report) -> None:
    """From the start of the submit command to the job's first instruction."""
    delays, used = [], []
    for number in range(10):
        mark = pool.root / f"began{number}"
        script = pool.root / "mark.sh"
        script.write_text("#!/bin/sh\ndate +%s.%N\n")
        script.chmod(0o755)
        start, before = time.time(), pool.processor_s()
        pool.submit(
            f"executable = mark.sh\nrequest_memory = 64M\nrequest_disk = 1M\nshould_transfer_files = YES\n"
            f"output = {mark.name}\nlog = mark{number}.log\nqueue\n"
        )
        pool.run("wait", f"mark{number}.log")
        delays.append(float(mark.read_text()) - start)
        used.append((pool.processor_s() - before) * 1000)
        time.sleep(0.3)
    report.add("submit command to job's first instruction, idle pool", "s", delays, target="0.1", reference="0.1..58")
    report.add("one job, from submission to its end: processor time", "ms", used)


def submissions(pool: Pool, report: Report) -> None:
    """One cluster of 100,000 jobs, and listings over it; separate submits from a shell."""
    hold = f"{TRUE}hold = true\n"
    text = f"{hold}arguments = $(Process)\nqueue 100000\n"
    start, before = time.perf_counter(), pool.processor_s()
    cluster = pool.submit(text)
    seconds, used = time.perf_counter() - start, pool.processor_s() - before
    totals = pool.run("q", "-totals")
    assert "100000 jobs" in totals, totals
    report.add("one cluster of 100,000 jobs", "jobs/s", 100_000 / seconds, target="20,000", reference="4,200")
    report.add("one cluster of 100,000 jobs, processor time", "s", used)
    report.add("q -totals over 100,000 jobs", "s", timed(lambda: pool.run("q", "-totals")), target="0.1")
    table = pool.run("q", "-nobatch")
    assert table.count("\n") > 100_000, "the full table has a line for each job"
    before = pool.processor_s()
    values = timed(lambda: pool.run("q", "-nobatch"), repeat=3)
    used = (pool.processor_s() - before) / len(values)
    report.add("q -nobatch, 100,000 lines", "s", values, target="0.5", reference="1.1")
    report.add("q -nobatch, 100,000 lines, processor time", "s", used)
    pool.run("rm", cluster)
    (pool.root / "one.sub").write_text(f"{hold}queue\n")
    command = [pool.command, "submit", "-terse", "one.sub"]

    def shell(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            subprocess.run(command, cwd=pool.root, env=pool.env, check=True, capture_output=True)
        return count / (time.perf_counter() - start)

    report.add(
        "separate submits, one after another, from a shell",
        "1/s",
        [shell(100) for _ in range(3)],
        target="150",
        reference="75",
    )
    pool.run("rm", "-all")


def submissions_from_python(pool: Pool, report: Report, count: int = 1000) -> None:
    """Separate submissions of one job each from one Python process: as a batch, and one after another."""
    job = {"executable": "/bin/true", "hold": True}
    many, single = [], []
    with Schedd(pool.env["SLOTWISE_HOME"], env=pool.env) as schedd:
        for _ in range(5):
            start = time.perf_counter()
            made = {one.cluster for one in schedd.submit_many([job] * count)}
            many.append(count / (time.perf_counter() - start))
            assert len(made) == count, "each has a cluster of its own"
            start = time.perf_counter()
            made = {schedd.submit(job).cluster for _ in range(count)}
            single.append(count / (time.perf_counter() - start))
            assert len(made) == count
        assert len(schedd.query("true", ["ClusterId"])) == 10 * count, "all are in the queue"
    report.add("separate submits, submit_many in one process", "1/s", many, target="1,500", reference="450")
    report.add("separate submits, submit() after submit() in one process", "1/s", single, reference="450")
    pool.run("rm", "-all")


def memory_after(pool: Pool, report: Report) -> None:
    """The schedd's memory when the jobs of all these measurements have gone."""
    schedd = pool.daemons()["schedd"]
    deadline = time.monotonic() + 60
    while pool.run("q", "-totals").count(" 0 jobs") == 0 and time.monotonic() < deadline:
        time.sleep(1)
    time.sleep(5)
    report.add("schedd after 110,000 jobs came and went", "MiB", schedd.memory_info().rss / 2**20)


def idle_cost(pool: Pool, report: Report) -> None:
    """CPU and memory of each daemon over ten idle seconds."""
    time.sleep(3)
    processes = pool.daemons()
    before = {name: process.cpu_times() for name, process in processes.items()}
    time.sleep(10)
    for name, process in processes.items():
        now, then = process.cpu_times(), before[name]
        share = (now.user + now.system - then.user - then.system) / 10 * 100
        report.add(f"idle {name}: share of a core", "%", share, target="1")
        report.add(f"idle {name}: memory (own pages)", "MiB", process.memory_full_info().uss / 2**20, target="60")


def main() -> int:
    """Run all on one pool."""
    report = Report("Personal pool")
    with tempfile.TemporaryDirectory(prefix="slotwise-bench-") as directory:
        pool = Pool(Path(directory))
        starts = []
        for _ in range(3):
            start = time.perf_counter()
            pool.run("up")
            starts.append(time.perf_counter() - start)
            if len(starts) < 3:
                pool.run("down")
        report.add("slotwise up", "s", starts, note=f"median {statistics.median(starts):.2f}")
        try:
            idle_cost(pool, report)
            submit_to_running(pool, report)
            jobs_per_second(pool, report)
            submissions(pool, report)
            submissions_from_python(pool, report)
            memory_after(pool, report)
        finally:
            pool.run("down")
    report.save(OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
