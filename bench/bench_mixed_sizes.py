"""Large jobs among small ones, over hours of simulated time: nothing, the defragmenter, or a machine kept for them.

Workloads of jobs of one core up to a whole machine on 100 machines with 16 cores (``pool_simulator.py``, which
calls the code that decides in the daemons). For each policy: waits by size, cores idle while jobs wait, evictions and
work done. Writes ``bench/out/mixed-sizes.png``. ``--quick``: fewer machines, one workload; ``--only TEXT``: workloads
whose name contains it.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import Report, short
from plot import Chart, write
from pool_simulator import START, Job, Policy, Result, Simulation
from slotwise.defrag.rules import DefragRules

OUT = Path(__file__).resolve().parent / "out"
HOUR = 3600.0
CORES = 16
#: Jobs that come in the first hour are not judged: the pool fills.
WARM_S = 1 * HOUR
_DRAINS = DefragRules(
    name="defrag", interval_s=300, per_hour=24, max_draining=10, max_whole=4, requirements="PartitionableSlot"
)
POLICIES = (
    Policy("nothing", {"NEGOTIATOR_RESERVE_FOR_LARGE_JOBS": "False"}),
    Policy("defrag", {"NEGOTIATOR_RESERVE_FOR_LARGE_JOBS": "False"}, _DRAINS, retirement_s=24 * HOUR),
    Policy("defrag, evicting", {"NEGOTIATOR_RESERVE_FOR_LARGE_JOBS": "False"}, _DRAINS, retirement_s=HOUR),
    Policy("reservation", {"NEGOTIATOR_RESERVE_FOR_LARGE_JOBS": "True"}),
)


@dataclass(frozen=True)
class Workload:
    """Jobs, and how the pool is when they come."""

    name: str
    make: Callable[[random.Random, int, float], list[Job]]
    hours: float = 6.0
    factors: tuple[tuple[str, float], ...] = ()


class _Maker:
    """Jobs in the order in which they are made up; clusters of up to 40 jobs come together."""

    def __init__(self, rng: random.Random, cores: int, seconds: float) -> None:
        self.rng, self.cores, self.seconds = rng, cores, seconds
        self.jobs: list[Job] = []
        self.cluster = 0

    def add(
        self,
        user: str,
        size: int,
        share: float,
        length: Callable[[], float],
        *,
        batch: int = 1,
        mean: float,
        since: float = 0.0,
    ) -> None:
        """Jobs of a user that would fill this share of the pool."""
        gap = batch * size * mean / (share * self.cores)
        at = since + self.rng.expovariate(1 / gap)
        while at < self.seconds:
            self.cluster += 1
            for _ in range(batch):
                self.jobs.append(Job(0, user, size, max(1.0, length()), START + at, self.cluster))
            at += self.rng.expovariate(1 / gap)

    def done(self) -> list[Job]:
        """All of them, numbered by when they come."""
        self.jobs.sort(key=lambda job: (job.submitted, job.cluster))
        for number, job in enumerate(self.jobs):
            job.number = number
        return self.jobs

    def lognormal(self, median: float, sigma: float) -> tuple[Callable[[], float], float]:
        """Lengths, and their mean."""
        return lambda: min(6 * HOUR, self.rng.lognormvariate(math.log(median), sigma)), median * math.exp(sigma**2 / 2)


def mixed(rng: random.Random, cores: int, seconds: float, load: float = 1.1) -> list[Job]:
    """Six users, mostly one-core jobs, and jobs of every size up to a machine; somewhat more than the pool can do."""
    make = _Maker(rng, cores, seconds)
    for user, size, share, median in (
        ("ann", 1, 0.35, 1200.0),
        ("ben", 1, 0.25, 600.0),
        ("cat", 2, 0.10, 1800.0),
        ("dan", 4, 0.10, 1800.0),
        ("eve", 8, 0.10, 2400.0),
        ("fay", 16, 0.10, 2400.0),
    ):
        length, mean = make.lognormal(median, 0.9)
        batch = 40 if size == 1 else 8 // size or 1
        make.add(user, size, share * load, length, batch=batch, mean=mean)
    return make.done()


def light(rng: random.Random, cores: int, seconds: float) -> list[Job]:
    """As mixed, but less than the pool can do."""
    return mixed(rng, cores, seconds, load=0.9)


def exponential(rng: random.Random, cores: int, seconds: float) -> list[Job]:
    """Two users of one-core jobs and one of whole machines; lengths are exponential."""
    make = _Maker(rng, cores, seconds)
    for user, size, share in (("ann", 1, 0.55), ("ben", 1, 0.4), ("fay", 16, 0.15)):
        make.add(user, size, share, lambda: rng.expovariate(1 / 1200), batch=40 if size == 1 else 1, mean=1200.0)
    return make.done()


def lone(rng: random.Random, cores: int, seconds: float) -> list[Job]:
    """One user submits jobs of all sizes."""
    jobs = mixed(rng, cores, seconds)
    for job in jobs:
        job.user = "ann"
    return jobs


def endless(rng: random.Random, cores: int, seconds: float) -> list[Job]:
    """As mixed, and on most machines one job that never ends."""
    jobs = mixed(rng, cores, seconds, load=1.0)
    for at in range(cores // CORES * 3 // 4):
        jobs.append(Job(0, "zoe", 1, 1e7, START + 60.0 * at, -1))
    jobs.sort(key=lambda job: (job.submitted, job.cluster))
    for number, job in enumerate(jobs):
        job.number = number
    return jobs


def short_jobs(rng: random.Random, cores: int, seconds: float) -> list[Job]:
    """One-core jobs of two minutes, whose claims are used again and again, and a few whole machines."""
    make = _Maker(rng, cores, seconds)
    length, mean = make.lognormal(120.0, 0.5)
    make.add("ann", 1, 0.55, length, batch=200, mean=mean)
    make.add("ben", 1, 0.45, length, batch=200, mean=mean)
    length, mean = make.lognormal(1800.0, 0.5)
    make.add("fay", 16, 0.08, length, mean=mean)
    return make.done()


def lublin(rng: random.Random, cores: int, seconds: float) -> list[Job]:
    """Sizes and lengths as Lublin and Feitelson fitted them to logs of parallel machines (JPDC 63(11), 2003).

    Cut at a machine's cores and at six hours. Twenty users, each of whom submits jobs of all sizes; arrivals are evenly
    random.
    """

    def gamma(a: float, b: float) -> float:
        return rng.gammavariate(a, b)

    def draw() -> tuple[int, float]:
        size = 1
        if rng.random() >= 0.244:
            high = math.log2(CORES)
            power = rng.uniform(0.8, 3.5) if rng.random() < 0.86 else rng.uniform(3.5, high)
            size = 2 ** round(power) if rng.random() < 0.576 / 0.756 else round(2**power)
            size = min(CORES, max(2, size))
        first = rng.random() < -0.0054 * size + 0.78
        return size, min(6 * HOUR, math.exp(gamma(4.2, 0.94) if first else gamma(312.0, 0.03)))

    jobs: list[Job] = []
    work = 0.0
    while work < 1.05 * cores * seconds:
        size, length = draw()
        work += size * length
        user = f"user{int(20 * rng.random() ** 2):02}"
        jobs.append(Job(0, user, size, length, START + rng.random() * seconds, hash_of(user, size)))
    jobs.sort(key=lambda job: job.submitted)
    for number, job in enumerate(jobs):
        job.number = number
    return jobs


def hash_of(user: str, size: int) -> int:
    """A cluster number for jobs of a user and size."""
    return int(user[-2:]) * 100 + size


WORKLOADS = (
    Workload("mixed, load 1.1", mixed),
    Workload("mixed, load 0.9", light),
    Workload("mixed, large jobs' users over share", mixed, factors=(("eve", 50_000.0), ("fay", 50_000.0))),
    Workload("exponential", exponential),
    Workload("short jobs", short_jobs, hours=4),
    Workload("one user", lone),
    Workload("endless claims", endless),
    Workload("lublin", lublin, hours=10),
)


def waits(result: Result, end: float, sizes: Callable[[int], bool]) -> list[float]:
    """Waits of the jobs that came after the pool had filled; of one that has not started, the time so far."""
    return [
        (end if job.started is None else job.started) - job.submitted
        for job in result.jobs
        if sizes(job.cores) and START + WARM_S <= job.submitted < end - HOUR
    ]


def percentile(values: list[float], part: float) -> float:
    """The value that this part of them does not exceed."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)] if values else 0.0


def check(result: Result, machines: int, end: float) -> None:
    """What must be so whatever the policy does.

    :raises AssertionError: naming the rule.
    """
    for since, to, in_use, idle in result.use:
        assert since < to and 0 <= in_use <= machines * CORES, "more cores are in use than there are"
        assert 0 <= idle <= machines * CORES
    for job in result.jobs:
        if job.ended is not None:
            assert job.started is not None and job.ended >= job.started + job.seconds - 1e-3, "a job ended too soon"
        assert job.started is None or job.submitted <= job.started <= end
    if result.evictions == 0:
        spent = sum(
            job.cores * ((end if job.ended is None else job.ended) - job.started)
            for job in result.jobs
            if job.started is not None
        )
        used = sum((to - since) * in_use for since, to, in_use, _ in result.use)
        assert math.isclose(spent, used, rel_tol=1e-6), "core-seconds got lost"


def check_restart() -> None:
    """A negotiator that is restarted keeps the machines it kept: large jobs wait no longer.

    :raises AssertionError: if they do.
    """
    workload = Workload("restarted", mixed, hours=4)
    (through, end), (restarted, _) = (simulate(workload, POLICIES[-1], 30, at) for at in (None, 2 * HOUR))
    large = [percentile(waits(result, end, lambda cores: cores >= 8), 0.5) for result in (through, restarted)]
    assert large[1] <= 1.1 * large[0] + 60, "large jobs wait longer for a restarted negotiator"


def simulate(
    workload: Workload, policy: Policy, machines: int, restart_at: float | None = None
) -> tuple[Result, float]:
    """One run, checked; the negotiator is restarted after so many seconds."""
    seconds = workload.hours * HOUR
    jobs = workload.make(random.Random(7), machines * CORES, seconds)
    factors = dict(workload.factors)
    simulation = Simulation(jobs, machines, CORES, policy, factors=factors, restart_at=restart_at)
    result = simulation.run(seconds)
    check(result, machines, START + seconds)
    return result, START + seconds


def sizes_of(result: Result) -> Iterator[tuple[str, Callable[[int], bool]]]:
    """Groups of sizes that are told apart."""
    yield "1", lambda cores: cores == 1
    yield "2-7", lambda cores: 2 <= cores < 8
    yield "8-15", lambda cores: 8 <= cores < CORES
    yield str(CORES), lambda cores: cores == CORES


def report_one(report: Report, workload: Workload, policy: Policy, machines: int, chart: Chart) -> None:
    """Simulate, and add the figures."""
    began = time.perf_counter()
    result, end = simulate(workload, policy, machines)
    took = time.perf_counter() - began
    name = f"{workload.name}, {policy.name}"
    judged = [(to - max(since, START + WARM_S), in_use, idle) for since, to, in_use, idle in result.use]
    judged = [(length, in_use, idle) for length, in_use, idle in judged if length > 0]
    total = sum(length for length, _, _ in judged) * machines * CORES
    for label, sizes in sizes_of(result):
        values = waits(result, end, sizes)
        if not values:
            continue
        never = sum(1 for job in result.jobs if sizes(job.cores) and job.started is None and job.submitted < end - HOUR)
        note = f"95 %: {short(percentile(values, 0.95) / 60)} min; {len(values):,} jobs, {never:,} not started"
        report.add(f"{name}: wait, {label} cores", "min", statistics.median(values) / 60, note=note)
        chart.line(policy.name).points.append((int(label.split("-")[0]), max(0.1, percentile(values, 0.95) / 60)))
    idle = 100 * sum(length * idle for length, _, idle in judged) / total
    used = 100 * sum(length * in_use for length, in_use, _ in judged) / total
    report.add(f"{name}: cores idle while jobs wait", "%", idle)
    done = sum(job.cores * job.seconds for job in result.jobs if job.ended is not None) / HOUR
    note = f"{used:.1f} % in use; {result.evictions:,} evictions, {result.lost / HOUR:,.0f} core-hours lost"
    report.add(f"{name}: jobs done", "core-h", done, note=note)
    report.add(
        f"{name}: simulated in",
        "s",
        took,
        note=f"{result.cycles:,} cycles of {1000 * result.cycle_s / max(1, result.cycles):.1f} ms",
    )


def main(args: list[str]) -> int:
    """All workloads under all policies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--policy", default="", metavar="TEXT")
    asked = parser.parse_args(args)
    machines = 50 if asked.quick else 100
    check_restart()
    report = Report("Mixed sizes")
    drawn = []
    for workload in WORKLOADS:
        if asked.only not in workload.name or (asked.quick and workload is not WORKLOADS[0] and not asked.only):
            continue
        chart = Chart(f"{workload.name}: 95 % wait", "cores", "min")
        for policy in POLICIES:
            if asked.policy in policy.name:
                report_one(report, workload, policy, machines, chart)
        drawn.append(chart)
    report.save(OUT)
    write(OUT / "mixed-sizes.png", drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
