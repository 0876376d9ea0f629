"""How what is done to a queue costs by the number of its jobs, in one cluster and in a thousand.

Each size has an access point in a process of its own, which is client, negotiator and schedd at once. For each step the
answer is checked before its time counts. The exponent is that of the processor time by the number of jobs, fitted over
the sizes: 1 is linear, and the program fails above ``--most``. A step that takes less than ten milliseconds has none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import Report, short
from slotwise.table import limit_evaluations, unpack_ads
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint

OUT = Path(__file__).parent / "out"
#: Steps that change the queue are done once, others so often.
REPEAT = 3
#: Seconds below which a step has no exponent.
_SHORT_S = 0.01
_LIMITS = ("MAX_JOBS_PER_SUBMISSION", "MAX_JOBS_PER_OWNER", "MAX_JOBS_SUBMITTED")


class Queue:
    """An access point with so many jobs in so many clusters, and what is asked of it."""

    def __init__(self, schedd: RunningAccessPoint, jobs: int, clusters: int) -> None:
        self.schedd = schedd
        self.jobs = jobs
        self.clusters = clusters
        self.each = jobs // clusters
        self.first = 0
        #: By step, of each time that it was done: seconds by the clock, and of the processor.
        self.times: dict[str, list[tuple[float, float]]] = {}

    async def step(self, name: str, work: Callable[[], Awaitable[object]], wanted: object, repeat: int = 1) -> None:
        """Time it; the answer has to be ``wanted``."""
        for _ in range(repeat):
            start, cpu = time.perf_counter(), time.process_time()
            found = await work()
            took = time.perf_counter() - start, time.process_time() - cpu
            if found != wanted:
                raise SystemExit(f"{name}, {self.jobs} jobs in {self.clusters} clusters: {found!r}, not {wanted!r}")
            self.times.setdefault(name, []).append(took)

    async def submit(self) -> int:
        """Submit all jobs; returns how many there are."""
        for number in range(self.clusters):
            cluster = await self.schedd.submit(self.each, Arguments="77", UserLog=False, Batch=number)
            self.first = self.first or cluster
        return sum(self.schedd.point.queue.counts())

    async def ads(self, constraint: str = "", *ids: str, names: Sequence[str] = ("ProcId",), limit: int = 0) -> int:
        """How many ads a query gives."""
        query = schedd_pb2.JobQuery(jobs=schedd_pb2.JobSelection(ids=ids))
        query.query.constraint = constraint
        query.query.projection.extend(names)
        query.query.limit = limit
        count = 0
        async for chunk in self.schedd.stub.Query(query, metadata=self.schedd.user):
            count += len(unpack_ads(chunk.data)) if chunk.data else 0
        return count

    async def counted(self) -> dict[int, int]:
        """The jobs by status."""
        rows = await self.schedd.point.questions.count_by(self.schedd.point.ads.table, ["JobStatus"], "")
        return {int(str(status)): int(str(count)) for status, count in rows}

    async def edit(self, constraint: str) -> int:
        """Edit an attribute of these jobs."""
        request = schedd_pb2.EditRequest(set={"Remark": '"edited"'})
        request.jobs.constraint = constraint
        await self.schedd.stub.Edit(request, metadata=self.schedd.user)
        return self.schedd.point.ads.table.count('Remark == "edited"')

    async def act(self, action: str, status: int, constraint: str, *ids: str) -> int:
        """Act on jobs; returns how many have that status afterwards, once all that was asked for is done."""
        request = schedd_pb2.ActRequest(action=action, jobs=schedd_pb2.JobSelection(ids=ids))
        request.jobs.constraint = constraint
        await self.schedd.stub.Act(request, metadata=self.schedd.user)
        while self.schedd.point.actions.background.ads():
            await asyncio.sleep(0.01)
        return self.schedd.point.queue.counts()[status]

    async def restart(self, knobs: dict[str, str]) -> int:
        """Another schedd takes the queue over."""
        await self.schedd.stop()
        await self.schedd.start(**knobs)
        return sum(self.schedd.point.queue.counts())

    async def requests(self) -> int:
        """What a negotiator is told of idle jobs; nothing matches."""
        await self.schedd.negotiate("", slots=0)
        return len(self.schedd.point.queue.runnable.unclustered)


async def measure(jobs: int, clusters: int, root: Path) -> dict[str, Any]:
    """All steps with so many jobs: their times, and the peak memory in MiB."""
    knobs = {**dict.fromkeys(_LIMITS, "100000000"), "SCHEDD_INTERVAL": "100000", "PERIODIC_EXPR_INTERVAL": "100000"}
    schedd = await RunningAccessPoint(root).start(**knobs)
    limit_evaluations()
    queue = Queue(schedd, jobs, clusters)
    last = queue.each - 1
    # Procs of the last cluster whose numbers begin so, as the computed constraint asks.
    await queue.step("submit", queue.submit, jobs)
    number = queue.first + clusters - 1
    wanted = sum(str(proc).startswith(str(last)[:-1]) for proc in range(queue.each))
    computed = f'regexp("^{number}[.]{str(last)[:-1]}", strcat(ClusterId, ".", ProcId))'
    await queue.step("a job by its id", lambda: queue.ads("", f"{number}.{last}"), 1, REPEAT)
    await queue.step("ProcId == N", lambda: queue.ads(f"ProcId == {last}"), clusters, REPEAT)
    of_one = f"ClusterId == {number} && ProcId == {last}"
    await queue.step("ClusterId == N && ProcId == N", lambda: queue.ads(of_one), 1, REPEAT)
    await queue.step("a computed constraint", lambda: queue.ads(computed), wanted, REPEAT)
    await queue.step("two attributes of all jobs", lambda: queue.ads(names=("ClusterId", "ProcId")), jobs)
    await queue.step("jobs by status", queue.counted, {1: jobs}, REPEAT)
    await queue.step("requests to a negotiator", queue.requests, 0)
    some = max(1, queue.each // 10)
    await queue.step("edit one in ten", lambda: queue.edit(f"ProcId < {some}"), some * clusters)
    await queue.step("hold a job by its id", lambda: queue.act("HOLD", 5, "", f"{number}.{last}"), 1)
    await queue.step("hold by constraint", lambda: queue.act("HOLD", 5, f"ProcId < {some}"), some * clusters + 1)
    await queue.step("restart", lambda: queue.restart(knobs), jobs)
    await queue.step("release all", lambda: queue.act("RELEASE", 1, "true"), jobs)
    await queue.step("remove all", lambda: queue.act("REMOVE", 1, "true"), 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    await schedd.stop()
    return {"times": queue.times, "peak": peak}


def median_cpu(times: Sequence[Sequence[float]]) -> float:
    """The processor time that is the middle one."""
    return statistics.median(cpu for _, cpu in times)


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float | None:
    """Of the cost by the number of jobs, least squares over logarithms; None where too little is measurable."""
    points = [(math.log(n), math.log(t)) for n, t in zip(sizes, times, strict=True) if t > _SHORT_S]
    if len(points) < 2:
        return None
    x, y = (statistics.fmean(values) for values in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--clusters", type=int, nargs="+", default=[1, 1000])
    parser.add_argument("--most", type=float, default=1.25, help="fail above this exponent (default: %(default)s)")
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    if options.one:
        with tempfile.TemporaryDirectory() as root:
            print(json.dumps(asyncio.run(measure(options.one[0], options.one[1], Path(root) / "pool"))))
        return
    report, steep = Report("queue"), []
    for clusters in options.clusters:
        found = []
        for jobs in options.jobs:
            command = [sys.executable, __file__, "--one", str(jobs), str(clusters)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
            for name, times in found[-1]["times"].items():
                what = f"{name}, {jobs} jobs, {clusters} clusters"
                report.add(
                    what, "s", [clock for clock, _ in times], note=f"{short(median_cpu(times))} s of the processor"
                )
            report.add(f"peak memory, {jobs} jobs, {clusters} clusters", "MiB", found[-1]["peak"])
        for name in found[0]["times"]:
            slope = exponent(options.jobs, [median_cpu(each["times"][name]) for each in found])
            if slope is not None:
                report.add(f"exponent of {name}, {clusters} clusters", "", slope, target=f"{options.most}")
                steep += [f"{name} ({slope:.2f})"] if slope > options.most else []
    report.save(OUT)
    if steep:
        raise SystemExit(f"costs more than linear in the number of jobs: {', '.join(steep)}")


if __name__ == "__main__":
    main()
