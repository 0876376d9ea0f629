"""Starting and removing very many running jobs: one access point, twenty pretended execution points.

The execution points run in a process of their own and answer everything as it comes, so what is measured is the access
point: how long until every job executes, and how long until one command has removed them all, every claim is given back
and the history has each of them. Its CPU time and peak memory are those of this process, which also is the client and
the negotiator. ``--steps`` adds what else may be done to all jobs on the way: ``edit``, ``restart`` (the schedd dies
and another takes over), ``vacate`` (all run again), ``hold`` (none runs when they are removed).
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import logging
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import Report
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script

OUT = Path(__file__).parent / "out"
#: How long anything may take before the benchmark fails, seconds.
PATIENCE_S = 1800.0


class Points:
    """The execution points, in a process of their own."""

    def __init__(self, process: asyncio.subprocess.Process, addresses: list[str]) -> None:
        self._process = process
        self.addresses = addresses

    @classmethod
    async def start(cls, root: Path, token: str, count: int, slots: int) -> Points:
        """Start ``count`` of them with ``slots`` slots each."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).resolve()),
            "--serve",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        points = cls(process, [])
        points.addresses = await points.ask({"root": str(root), "token": token, "count": count, "slots": slots})
        return points

    async def ask(self, question: Any) -> Any:
        """Send one line of JSON and return the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        return json.loads(await self._process.stdout.readline())

    async def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


async def serve() -> None:
    """The process of the execution points: reads what to start, then answers each line with what there is."""
    loop = asyncio.get_running_loop()
    ask = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    points = []
    for number in range(ask["count"]):
        socket = Path(ask["root"]) / f"ep{number}.sock"
        point = ExecutionPoint(socket, ask["token"], slots=ask["slots"], name=f"ep{number}")
        point.script = lambda ad: Script(until_killed=True)
        await point.start()
        points.append(point)
    print(json.dumps([point.address for point in points]), flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        found = {
            "claims": sum(len(point.claims) for point in points),
            "released": sum(len(set(point.releases)) for point in points),
            "runs": sum(len(point.runs) for point in points),
            "ran": sum(len(point.history) for point in points),
        }
        print(json.dumps(found), flush=True)
    for point in points:
        await point.stop()


class Stretch:
    """Wall and CPU time of this process since its creation."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def add(self, report: Report, what: str, jobs: int, target: str = "") -> None:
        """Report ``jobs`` done in it."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        report.add(f"{what}, by the clock", "jobs/s", jobs / wall, target=target)
        report.add(f"{what}, CPU time of the access point", "ms/job", cpu / jobs * 1000)


async def until(reached: Callable[[], Awaitable[bool]]) -> None:
    """Wait until ``reached`` holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not await reached():
        if time.monotonic() > deadline:
            raise TimeoutError
        await asyncio.sleep(0.1)


async def change_all(schedd: RunningAccessPoint) -> None:
    """Edit an attribute of every job."""
    request = schedd_pb2.EditRequest(set={"Remark": '"edited"'})
    request.jobs.constraint = "true"
    await schedd.stub.Edit(request, metadata=schedd.user)


async def measure(report: Report, options: argparse.Namespace, root: Path, profile: cProfile.Profile | None) -> None:
    """Start all jobs, take the steps asked for, and remove them all with one command."""
    jobs, each = options.jobs, -(-options.jobs // options.points)
    knobs = {"MAX_JOBS_RUNNING": str(jobs), **dict(pair.split("=", 1) for pair in options.knob)}
    schedd = await RunningAccessPoint(root / "pool").start(**knobs)
    points = await Points.start(root, schedd.daemon_token, options.points, each)
    stretch = Stretch()
    cluster = await schedd.submit(jobs, UserLog=str(root / "jobs.log"))
    stretch.add(report, "submitted", jobs)

    async def executing() -> bool:
        runs = schedd.point.claiming.claim_table.runs.values()
        return sum(run.executing_at > 0 and run.stream is not None for run in runs) == jobs

    async def silent() -> bool:
        return not schedd.point.claiming.claim_table.runs

    async def again(above: int) -> bool:
        return await executing() and (await points.ask("?"))["ran"] >= above

    async def removed() -> bool:
        return cluster not in schedd.point.queue.clusters and not schedd.point.claiming.claim_table.claims

    async def released() -> bool:
        there = await points.ask("?")
        return there["claims"] == there["runs"] == 0

    stretch = Stretch()
    if profile is not None and options.stage == "start":
        profile.enable()
    for address in points.addresses:
        await schedd.negotiate(address, slots=each)
    await until(executing)
    if profile is not None:
        profile.disable()
    stretch.add(report, "started", jobs)
    if options.idle:
        differing = [{"RequestMemory": 128 + number % options.autoclusters} for number in range(options.idle)]
        await schedd.submit(procs=differing, UserLog=str(root / "jobs.log"), Requirements=False)

    for step in options.steps:
        stretch = Stretch()
        if profile is not None and options.stage == step:
            profile.enable()
        if step == "edit":
            await change_all(schedd)
        elif step == "hold":
            await schedd.act("HOLD", "true")
            stretch.add(report, "hold answered", jobs)
            await until(silent)
        elif step == "vacate":
            ran = (await points.ask("?"))["ran"]
            await schedd.act("VACATE_FAST", "true")
            stretch.add(report, "vacate answered", jobs)
            await until(partial(again, ran + jobs))
        elif step == "restart":
            await schedd.kill()
            stretch = Stretch()
            await schedd.start(**knobs)
            await until(executing)
        if profile is not None:
            profile.disable()
        stretch.add(report, step, jobs)

    stretch = Stretch()
    if profile is not None and options.stage == "remove":
        profile.enable()
    await schedd.act("REMOVE", f"ClusterId == {cluster}")
    stretch.add(report, "remove answered", jobs)
    await until(removed)
    await until(released)
    if profile is not None:
        profile.disable()
    stretch.add(report, "removed", jobs, target="1000")
    report.add("peak memory", "MiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

    there = await points.ask("?")
    ran = jobs * (1 + options.steps.count("vacate"))
    assert there == {"claims": 0, "released": jobs, "runs": 0, "ran": ran}, there
    assert len(await schedd.jobs()) == options.idle
    left = {ad["ProcId"] for ad in await schedd.history() if ad["ClusterId"] == cluster and ad["JobStatus"] == 3}
    assert left == set(range(jobs)), f"{len(left)} of {jobs} jobs are in the history"
    await schedd.point.committer.logs_written()
    text = (root / "jobs.log").read_text()
    assert text.count("\n009 (") == jobs, "not every job has its 'aborted' event"
    await points.stop()
    await schedd.stop()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--knob", action="append", default=[], metavar="NAME=VALUE", help="configure the access point")
    parser.add_argument("--steps", nargs="*", choices=["edit", "restart", "vacate", "hold"], default=[])
    parser.add_argument("--idle", type=int, default=0, metavar="N", help="so many idle jobs of the user beside them")
    parser.add_argument("--autoclusters", type=int, default=1, metavar="N", help="how many kinds of idle jobs")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="keep a profile of the access point's code")
    parser.add_argument("--stage", default="remove", help="what --profile is of: start, remove or a step")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.getLogger().setLevel(logging.WARNING)
    if options.serve:
        asyncio.run(serve())
        return
    report = Report("removal")
    profile = cProfile.Profile() if options.profile else None
    with tempfile.TemporaryDirectory() as root:
        asyncio.run(measure(report, options, Path(root), profile))
    report.save(OUT)
    if profile is not None:
        profile.dump_stats(options.profile)


if __name__ == "__main__":
    main()
