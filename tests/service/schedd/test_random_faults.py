"""Streams break, messages repeat, hosts reset, the schedd dies or fails at a message, clocks are set, users hold and
remove, also by force: still every job ends once, nothing is left behind, and the log tells a story that can be true."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import htcondor2
import pytest

from tests.support import access_point
from tests.support.fault_world import JOBS, SteppedClock, World, hasten

#: How many seeds; SLOTWISE_FAULT_SEEDS asks for more.
_SEEDS = range(int(os.environ.get("SLOTWISE_FAULT_FIRST", "0")), int(os.environ.get("SLOTWISE_FAULT_SEEDS", "12")))


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
    hasten(monkeypatch)
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
        assert sorted(ad["ProcId"] for ad in history) == list(range(JOBS)), told
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


def legal_of_nodes(numbers: list[int]) -> str:
    """What is wrong with the order of a parallel job's events; "" for nothing. Nodes may start or end while others are
    out of reach."""
    nodes = (14, 15)
    seen: list[int] = []
    for at, number in enumerate(numbers):
        if number in nodes:
            began = number == 14 and not any(later in (1, 4, 7, 9, 12, 24) for later in numbers[at:])
            if began:
                return "a node starts, and nothing follows"
        elif number in (22, 23) and 1 not in seen[-1:] + seen[-2:-1]:
            continue  # while not all nodes execute
        else:
            seen.append(number)
    return "" if seen[-1] in (5, 9) and sum(seen.count(end) for end in (5, 9)) == 1 else f"not one end last: {seen}"


@pytest.mark.parametrize("seed", _SEEDS)
async def test_whatever_happens_every_parallel_job_ends_once(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch)
    clock = SteppedClock()
    monkeypatch.setattr(access_point, "SystemClock", lambda: clock)
    world = World(tmp_path, seed, clock, parallel=True)
    await world.begin()
    try:
        for _ in range(world.random.randrange(4, 14)):
            for _ in range(world.random.randrange(4)):
                await world.tick()
            await world.fault()
        await world.settle()
        told: Any = (world.told, world.point.history)
        history = await world.schedd.history()
        assert sorted(ad["ClusterId"] for ad in history) == list(range(1, JOBS + 1)), told
        assert {ad["JobStatus"] for ad in history} <= {3, 4}, told
        assert not world.point.twice, (world.point.twice, told)
        assert not world.point.again, told
        log: dict[int, list[int]] = {}
        for event in htcondor2.JobEventLog(str(world.root / "pool" / "job.log")).events(stop_after=0):
            log.setdefault(event.cluster, []).append(int(event.type))
        for ad in history:
            numbers = log[ad["ClusterId"]]
            assert not legal_of_nodes(numbers), (legal_of_nodes(numbers), ad["ClusterId"], numbers, told)
            assert numbers[-1] == (5 if ad["JobStatus"] == 4 else 9), told
        world.schedd.point.queue.validate()
    finally:
        await world.end()
