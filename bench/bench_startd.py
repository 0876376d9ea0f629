"""The startd: slots carved and jobs activated a second over real gRPC, decisions alone, polling of 256 busy slots.

The starter and the schedd are pretended and live in this process, so the figures over gRPC are lower bounds.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import Report
from slotwise.config import load
from slotwise.startd.fingerprint.x_input import XProbe
from slotwise.startd.monitor import sampler
from slotwise.startd.settings import Sampled
from slotwise.table import PackBuilder

from tests.support.startd_host import schedd_at, startd_host
from tests.support.startd_point import Point, job, point

RUNS, SLOTS, JOBS = 3, 40, 2000


async def over_grpc(report: Report) -> None:
    """One stream, forty claims, each activated again as soon as its run is over."""
    rates, carves = [], []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as directory:
            async with (
                startd_host(Path(directory), f"NUM_CPUS = {SLOTS}\nMEMORY = 40000\n") as host,
                schedd_at(host) as schedd,
            ):
                host.starter.instant = True
                began = time.perf_counter()
                granted = (await schedd.claim(host.capability(), num_dynamic_slots=SLOTS)).granted
                carves.append(SLOTS / (time.perf_counter() - began))
                assert len(granted.slots) == SLOTS
                began, started, done, seen = time.perf_counter(), 0, 0, 0
                for slot in granted.slots:
                    started += 1
                    await schedd.send_activate(slot.claim_id, f"{started}.0#1")
                while done < JOBS:
                    await asyncio.sleep(0.001)
                    fresh, seen = schedd.events[seen:], len(schedd.events)
                    for event in fresh:
                        assert event.WhichOneof("what") != "activation_refused"
                        if event.WhichOneof("what") == "state" and event.state.activity == "Idle":
                            done += 1
                            if started < JOBS:
                                started += 1
                                await schedd.send_activate(event.claim_id, f"{started}.0#1")
                rates.append(JOBS / (time.perf_counter() - began))
                assert len({command.run_id for command in host.starter.told("start")}) == JOBS
    report.add("dynamic slots carved in one exchange", "slots/s", carves)
    report.add("activations over one stream, claims reused", "jobs/s", rates, target="200")


def decisions(report: Report) -> None:
    """The execution point alone: activate, end, again."""
    p = point(NUM_CPUS="40", MEMORY="40000")
    p.it.validate = lambda: None  # type: ignore[method-assign]
    claim_id = p.claim()
    rates = []
    for run in range(RUNS):
        began = time.perf_counter()
        for number in range(JOBS):
            p.activate(claim_id, f"{run}.{number}#1", job())
            p.gone(f"{run}.{number}#1")
            p.forget()
        rates.append(JOBS / (time.perf_counter() - began))
    assert p["slot1_1"].slot.counters.job_starts == RUNS * JOBS
    report.add("activations decided, without any I/O", "jobs/s", rates)


#: What an owner may want of a machine, from the templates of HTCondor.
POLICIES = {
    "no policy": "",
    "desktop": "use POLICY : UWCS_Desktop\n"
    "use POLICY : Hold_If_Memory_Exceeded\nuse POLICY : Preempt_If_Cpus_Exceeded\n",
}
SHAPES = {"static": "NUM_SLOTS = 256\n", "dynamic": ""}


def machine_of_256(policy: str, shape: str, directory: Path) -> Point:
    """256 busy slots under a configuration; the owner is away."""
    path = directory / "condor_config"
    path.write_text(f"NUM_CPUS = 256\nMEMORY = 262144\nRunBenchmarks = false\n{SHAPES[shape]}{POLICIES[policy]}")
    config = load(str(path), subsystem="STARTD", env={}, home=None)
    p = Point(config)
    p.it.validate = lambda: None  # type: ignore[method-assign]
    away(p)
    p.it.poll(p.now)
    if shape == "dynamic":
        claims = p.request(count=256).slots
    else:
        claims = [(p.claim(f"slot{number}"), f"slot{number}") for number in range(1, 257)]
    for number, (claim_id, _) in enumerate(claims, 1):
        assert p.activate(claim_id, f"{number}.0#1") is None
    return p


def away(p: Point) -> None:
    """Measure, with a keyboard that nobody touches and nothing of the owner's running."""
    far = (10**6, 10**6)
    machine = {"ClockMin": 0, "ClockDay": 1, "CpuIsBusy": False, "CpuBusyTime": 0}
    p.it.settings.sample = Sampled(machine, dict.fromkeys(p.it.slots.names(), (0.0, 0.0)), far, far)
    for record in p.it.slots:
        p.it.ads.refresh(record, p.now)


def polling(report: Report) -> None:
    """256 busy slots, looked at every five seconds; every full update whole; and 256 idle ones."""
    for shape in SHAPES:
        for policy in POLICIES:
            with tempfile.TemporaryDirectory() as directory:
                p = machine_of_256(policy, shape, Path(directory))
                host, looks, updates = sampler.HostSampler(Path("/"), XProbe({}), p.now), [], []
                for _ in range(20):
                    p.now += 5
                    p.forget()
                    began = time.process_time()
                    host.sample(p.it.host, p.knobs, p.now)
                    away(p)
                    p.it.poll(p.now)
                    looks.append(time.process_time() - began)
                for _ in range(3):
                    p.now += 1
                    began = time.process_time()
                    for record in p.it.slots:
                        p.it.ads.show(record, p.now)
                        PackBuilder().update(record.name, {"MyCurrentTime": int(p.now)}, [])
                    updates.append(time.process_time() - began)
                assert sum(record.slot.state_activity[1] == "Busy" for record in p.it.slots) == 256
                update_s = sorted(updates)[1]
                shares = [(look / 5 + update_s / 300) * 100 for look in looks]
                report.add(
                    f"256 busy {shape} slots, {policy}: looks every 5 s, updates every 300 s",
                    "% core",
                    shares,
                    target="1",
                )
    p = point(NUM_CPUS="256", MEMORY="262144", NUM_SLOTS="256")
    shares = []
    host = sampler.HostSampler(Path("/"), XProbe({}), p.now)
    for _ in range(5):
        p.now += 60
        began = time.process_time()
        host.sample(p.it.host, p.knobs, p.now)
        away(p)
        p.it.poll(p.now)
        shares.append((time.process_time() - began) / 60 * 100)
    report.add("256 idle slots, looked at every minute", "% core", shares, target="1")


def main() -> None:
    """Run all."""
    report = Report("startd")
    decisions(report)
    polling(report)
    asyncio.run(over_grpc(report))
    report.save(Path(__file__).resolve().parent / "out")


if __name__ == "__main__":
    main()
