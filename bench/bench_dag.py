"""DAGs: reading their files, and running them on a pool of eight cores with all defaults.

``--dagman PATH``: HTCondor's condor_dagman, which runs the same DAGs on the same pool beside ours.
``--only TEXT``: the parts whose name contains this. HTCondor's figures are those of HTCondor 25 on a machine of the
same kind (2 cores).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import bench_pool
import psutil
from harness import Report

bench_pool.CONFIG = "NUM_CPUS = 8\nMEMORY = 16384\nRUNBENCHMARKS = False\n"
TRUE = "executable = /bin/true\ntransfer_executable = false\nrequest_memory = 16M\nrequest_disk = 1M\nqueue\n"
#: Reads a DAG in a process of its own: nodes, seconds, and the peak of its memory beyond that before, MB.
READ = """
import sys, time
from slotwise.dag.reading import ReadOptions, read
def peak():  # not ru_maxrss, which a program inherits from who has started it
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
before, start = peak(), time.perf_counter()
dag = read([sys.argv[1]], ReadOptions(sys.argv[2]))
seconds = time.perf_counter() - start
print(dag.node_count, seconds, peak() - before)
"""


def nodes(count: int, words: str) -> str:
    """So many nodes."""
    return "".join(f"JOB N{n} a.sub{words}\n" for n in range(count))


def read(report: Report, directory: Path) -> None:
    """Files of many nodes."""
    half = 50_000
    first, second = (" ".join(f"N{n}" for n in range(at, at + half)) for at in (0, half))
    edges = "".join(f"PARENT N{n} CHILD N{n + half}\n" for n in range(half))
    million = nodes(1_000_000, "")
    for name, text, count, target, reference in (
        ("100,000 nodes, two PARENT lines", f"PARENT {first} CHILD J\nPARENT J CHILD {second}\n", 100_001, 0.3, "0.39"),
        ("100,000 nodes, a line an edge", edges, 100_000, 0.8, "3.0"),
        ("1,000,000 nodes", "", 1_000_000, 8, ""),
    ):
        own = million if count == 1_000_000 else nodes(100_000, "") + ("JOB J a.sub\n" if count % 10 else "")
        (directory / "x.dag").write_text(own + text)
        found = []
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", READ, "x.dag", str(directory)], cwd=directory, capture_output=True, text=True
            )
            assert not done.returncode, done.stderr
            found.append([float(word) for word in done.stdout.split()])
        assert all(values[0] == count for values in found), found
        report.add(f"reading {name}", "s", [values[1] for values in found], target=f"{target}", reference=reference)
        most = "600" if count == 1_000_000 else "80"
        report.add(f"memory of {name}", "MB", [values[2] for values in found], target=most)


class Dags:
    """DAGs on a pool."""

    def __init__(self, pool: bench_pool.Pool, dagman: str) -> None:
        self.pool, self.dagman, self.number = pool, dagman, 0

    def write(self, text: str) -> Path:
        """A DAG in a directory of its own."""
        self.number += 1
        place = self.pool.root / f"dag{self.number}"
        place.mkdir()
        (place / "a.sub").write_text(TRUE)
        (place / "x.dag").write_text(text)
        return place

    def submit(self, place: Path, *, theirs: bool = False) -> str:
        """Submit it; gives its cluster."""
        words = ["-dagman", self.dagman] if theirs else []
        done = subprocess.run(
            [self.pool.command, "condor_submit_dag", *words, "x.dag"], cwd=place, env=self.pool.env,
            capture_output=True, text=True,
        )  # fmt: skip
        assert not done.returncode, done.stderr
        return done.stdout.partition("submitted to cluster ")[2].partition(".")[0]

    def end(self, places: Sequence[Path], count: int, look: Callable[[], None] = lambda: None) -> None:
        """Wait until they have ended, and see that each has done all of its nodes."""
        for place in places:
            while not (place / "x.dag.metrics").exists():
                look()
                time.sleep(0.02)
            found = json.loads((place / "x.dag.metrics").read_text())
            assert (found["exitcode"], found["nodes_succeeded"]) == (0, count), found

    def timed(self, text: str, count: int, *, theirs: bool) -> tuple[float, float]:
        """Seconds from the submission to the end, and CPU seconds of the runner."""
        place = self.write(text)
        start, cpu = time.perf_counter(), [0.0]

        def look() -> None:
            for one in runners(place):
                cpu[0] = max(cpu[0], sum(one.cpu_times()[:2]))

        self.submit(place, theirs=theirs)
        self.end([place], count, look)
        return time.perf_counter() - start, cpu[0]


def runners(*places: Path) -> list[psutil.Process]:
    """The processes that run DAGs in these directories; all without any."""
    found = []
    for one in psutil.process_iter(["cmdline", "cwd"]):
        words = one.info["cmdline"] or []
        if "x.dag.lock" in words and (not places or one.info["cwd"] in map(str, places)):
            found.append(one)
    return found


def run(report: Report, dags: Dags, only: str) -> None:
    """Whole DAGs."""
    chain = nodes(1000, "") + "".join(f"PARENT N{n} CHILD N{n + 1}\n" for n in range(999))
    for name, text, count, target, reference in (
        ("1,000 NOOP nodes", nodes(1000, " NOOP"), 1000, "1", "47"),
        ("10,000 NOOP nodes", nodes(10_000, " NOOP"), 10_000, "1", "103; 3.8 without throttles"),
        ("500 nodes of /bin/true", nodes(500, ""), 500, "6", "36; 17 tuned"),
        ("a chain of 1,000 jobs of /bin/true", chain, 1000, "100", ""),
    ):
        if only not in name:
            continue
        seconds, cpu = dags.timed(text, count, theirs=False)
        report.add(name, "s", seconds, target=target, reference=reference)
        report.add(f"CPU of the runner of {name}", "s", cpu)
        if dags.dagman:
            seconds, cpu = dags.timed(text, count, theirs=True)
            report.add(f"{name}, by {dags.dagman}", "s", seconds)
            report.add(f"CPU of the runner of {name}, by {dags.dagman}", "s", cpu)


def together(report: Report, dags: Dags) -> None:
    """A hundred DAGs at once beside one of as many nodes; the memory of each runner."""
    seconds, _ = dags.timed(nodes(10_000, " NOOP"), 10_000, theirs=False)
    places = [dags.write(nodes(100, " NOOP")) for _ in range(100)]
    start = time.perf_counter()
    for place in places:
        dags.submit(place)
    dags.end(places, 100)
    report.add("100 DAGs of 100 NOOP nodes, with their submission", "s", time.perf_counter() - start)
    report.add("one DAG of 10,000 NOOP nodes", "s", seconds)
    held = [dags.write(nodes(100, "") + "CATEGORY ALL_NODES none\nMAXJOBS none 0\n") for _ in range(20)]
    clusters = [dags.submit(place) for place in held]
    while len(found := runners(*held)) < len(held):
        time.sleep(0.1)
    time.sleep(2)
    report.add("memory of a runner of 20 (PSS)", "MB", [one.memory_full_info().pss / 1e6 for one in found], target="15")
    for cluster in clusters:
        dags.pool.run("rm", cluster)


def main(args: list[str]) -> int:
    """All parts, or those that are chosen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dagman", default="", metavar="PATH")
    parser.add_argument("--only", default="", metavar="TEXT")
    asked = parser.parse_args(args)
    if os.geteuid() == 0:
        raise SystemExit("run this as an ordinary user: root's jobs do not run on access points, and a DAG's is one")
    report = Report("DAGs")
    with tempfile.TemporaryDirectory(prefix="slotwise-bench-") as directory:
        if asked.only in "reading":
            read(report, Path(directory))
        pool = bench_pool.Pool(Path(directory))
        pool.run("up")
        try:
            dags = Dags(pool, asked.dagman)
            run(report, dags, asked.only)
            if asked.only in "together":
                together(report, dags)
        finally:
            pool.run("down", "--fast")
    report.save(bench_pool.OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
