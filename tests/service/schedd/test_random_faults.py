"""Streams break, messages repeat, hosts reset, the schedd dies, clocks are set, users hold and remove: still every
job ends once, nothing is left behind, and the log tells a story that can be true."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from random import Random
from typing import Any

import htcondor2
import pytest
from slotwise.clock import SystemClock
from slotwise.schedd import claim_runs, claiming, queue, reattach

from tests.support import access_point
from tests.support.access_point import RunningAccessPoint
from tests.support.faulty_point import FaultyPoint
from tests.support.patience import PATIENCE

#: How many seeds; SLOTWISE_FAULT_SEEDS asks for more.
_SEEDS = range(int(os.environ.get("SLOTWISE_FAULT_FIRST", "0")), int(os.environ.get("SLOTWISE_FAULT_SEEDS", "12")))
_JOBS = 6
_FAULTS = (
    "break_claims",
    "break_shadow",
    "repeat_hello",
    "repeat_end",
    "end_claim",
    "lose_run",
    "reset",
    "kill",
    "clock",
    "hold",
    "release",
    "remove",
    "vacate",
)


class SteppedClock(SystemClock):
    """A clock that is set now and then."""

    offset = 0.0

    def now(self) -> float:
        return super().now() + self.offset


class World:
    """One schedd after another, and one execution point."""

    def __init__(self, root: Path, seed: int, clock: SteppedClock) -> None:
        self.root, self.random, self.clock = root, Random(seed), clock
        self.told: list[str] = []
        self.schedd: RunningAccessPoint

    async def begin(self) -> None:
        self.schedd = await RunningAccessPoint(self.root / "pool").start()
        self.point = FaultyPoint(self.root / "ep.sock", self.schedd.daemon_token, self.random)
        await self.point.start()
        self.cluster = await self.schedd.submit(_JOBS, UserLog="job.log", KeepClaimIdle=self.random.choice((0, 0, 1)))

    async def fault(self) -> None:
        what = self.random.choice(_FAULTS)
        self.told.append(what)
        if what == "kill":
            await self.schedd.kill()
            self.schedd = await RunningAccessPoint(self.root / "pool").start()
        elif what == "clock":
            self.clock.offset += self.random.choice((-7200.0, 7200.0, 30.0))
        elif what in ("hold", "release", "remove", "vacate"):
            await self.act(what.upper())
        else:
            getattr(self.point, what)()

    async def act(self, action: str) -> None:
        acting = asyncio.ensure_future(self.schedd.act(action, f"ProcId == {self.random.randrange(_JOBS)}"))
        if self.random.random() < 0.3:
            await asyncio.sleep(self.random.choice((0.0, 0.001, 0.004)))
            acting.cancel()  # the client leaves
        await asyncio.gather(acting, return_exceptions=True)

    async def tick(self) -> None:
        self.schedd.point.reattachment.tick()
        await self.schedd.negotiate(self.point.address, slots=4)
        await asyncio.sleep(self.random.choice((0.0, 0.01, 0.05)))

    def left(self) -> list[str]:
        """What is left over when all jobs are gone."""
        book, moment = self.schedd.point.claiming.book, time.monotonic()
        return [
            *(
                f"run {run.id} speaks={run.stream is not None} silent={run.silent_until - moment:.1f}"
                f" lost={run.lost_at - moment:.1f} gone={run.claim.gone} executes={run.executing_at > 0}"
                for run in book.runs.values()
            ),
            *(f"link {link.target} {link.connected}" for link in self.schedd.point.claiming.links.values()),
            *(f"claim {claim}" for claim in book.claims),
            *(f"request {serial}" for serial in book.pending),
            *(f"claim at the startd {claim}" for claim in self.point.claims),
            *(f"run at the starter {run}" for run in self.point.runs),
        ]

    async def settle(self) -> None:
        deadline = time.monotonic() + 8 * PATIENCE
        while await self.schedd.jobs() or any(not one.startswith("link") for one in self.left()):
            if time.monotonic() > deadline:
                jobs = [
                    {name: ad.get(name) for name in ("ProcId", "JobStatus", "HoldReason", "JobCoolDownExpiration")}
                    for ad in await self.schedd.jobs()
                ]
                raise AssertionError(f"{jobs} {self.left()} after {self.told}")
            await self.schedd.act("RELEASE", "JobStatus == 5")
            await self.tick()
        await self.schedd.point.ledger._idle.wait()

    async def end(self) -> None:
        await self.schedd.stop()
        await self.point.stop()


def legal(numbers: list[int]) -> str:
    """What is wrong with the order of a job's events; "" for nothing."""
    if numbers[0] != 0 or numbers.count(0) != 1:
        return "not one submission first"
    if numbers[-1] not in (5, 9) or sum(numbers.count(end) for end in (5, 9)) != 1:
        return "not one end last"
    state = "idle"
    for number in numbers[1:]:
        allowed = {
            "idle": {1: "running", 12: "held", 9: "over", 7: "idle", 4: "idle"},
            "running": {4: "idle", 7: "idle", 22: "silent", 5: "over", 9: "over", 12: "held"},
            "silent": {23: "running", 24: "idle", 4: "idle", 7: "idle", 9: "over", 5: "over", 12: "held"},
            "held": {13: "idle", 9: "over"},
        }.get(state, {})
        if number not in allowed:
            return f"{number} while {state}"
        state = allowed[number]
    return ""


@pytest.mark.parametrize("seed", _SEEDS)
async def test_whatever_happens_every_job_ends_once(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (claiming, reattach):
        monkeypatch.setattr(module, "GRACE_S", 0.3)
        monkeypatch.setattr(module, "ASK_AGAIN_S", 0.05)
    monkeypatch.setattr(claim_runs, "HELLO_S", 0.5)
    monkeypatch.setattr(queue, "_COOL_FIRST_S", 0.01)
    monkeypatch.setattr(queue, "_COOL_MOST_S", 0.05)
    clock = SteppedClock()
    monkeypatch.setattr(access_point, "SystemClock", lambda: clock)
    world = World(tmp_path, seed, clock)
    await world.begin()
    try:
        for _ in range(world.random.randrange(4, 14)):
            for _ in range(world.random.randrange(4)):
                await world.tick()
            await world.fault()
        await world.settle()
        told: Any = (world.told, world.point.history)
        history = await world.schedd.history()
        assert sorted(ad["ProcId"] for ad in history) == list(range(_JOBS)), told
        assert {ad["JobStatus"] for ad in history} <= {3, 4}, told
        assert not world.point.twice, (world.point.twice, told)
        assert not world.point.again, told
        log: dict[int, list[int]] = {}
        for event in htcondor2.JobEventLog(str(world.root / "pool" / "job.log")).events(stop_after=0):
            log.setdefault(event.proc, []).append(int(event.type))
        for ad in history:
            numbers = log[ad["ProcId"]]
            assert not legal(numbers), (legal(numbers), ad["ProcId"], numbers, told)
            assert numbers[-1] == (5 if ad["JobStatus"] == 4 else 9), told
        world.schedd.point.queue.validate()
    finally:
        await world.end()
