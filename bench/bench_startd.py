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
from slotwise.startd import survey
from slotwise.startd.fingerprint.x_input import XProbe

from tests.support.startd_host import schedd_at, startd_host
from tests.support.startd_point import job, point

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


def polling(report: Report) -> None:
    """256 busy static slots, looked at every five seconds."""
    p = point(NUM_CPUS="256", MEMORY="262144", NUM_SLOTS="256")
    p.it.validate = lambda: None  # type: ignore[method-assign]
    for number in range(1, 257):
        p.run(f"slot{number}", f"{number}.0#1")
    shares, x = [], XProbe({})
    for _ in range(20):
        p.now += 5
        p.forget()
        began = time.process_time()
        survey.take_sample(p.it, p.knobs, Path("/"), p.now, x)
        for h in p.it.holdings.values():
            p.it.refresh(h, p.now)
        p.it.poll(p.now)
        shares.append((time.process_time() - began) / 5 * 100)
    assert all(h.slot.place[1] == "Busy" for h in p.it.holdings.values())
    report.add("policy of 256 busy slots, every 5 s", "% core", shares, target="1")


def main() -> None:
    """Run all."""
    report = Report("startd")
    decisions(report)
    polling(report)
    asyncio.run(over_grpc(report))
    report.save(Path(__file__).resolve().parent / "out")


if __name__ == "__main__":
    main()
