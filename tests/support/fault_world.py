"""One schedd after another and one execution point, and what can go wrong between them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from slotwise.clock import SystemClock
from slotwise.schedd.claims.startds import startd_messages as said
from slotwise.schedd.jobs import queue
from slotwise.schedd.lifecycle import run

from tests.support.access_point import RunningAccessPoint
from tests.support.faulty_point import FaultyPoint
from tests.support.injection import InjectedError, Injection
from tests.support.waiting import until

JOBS = 6
FAULTS = (
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
    "remove_force",
    "exception",
)
#: What a schedd hears: of starters, of startds and of the negotiator.
_STARTER_SAYS = (
    "runs",
    "hello",
    "need_input",
    "started",
    "update",
    "output",
    "transfer",
    "io",
    "visit",
    "checkpoint",
    "ended",
)
_STARTD_SAYS: dict[str, type] = {
    "granted": said.ClaimsGranted,
    "refused": said.ClaimRefused,
    "known": said.ClaimsKnown,
    "alive": said.KeptAlive,
    "activation_refused": said.ActivationRefused,
    "activated": said.RunActivated,
    "state": said.SlotChanged,
    "ended": said.ClaimTaken,
}
_OTHERS = ("offer", "rejections", "committed", "kill", "tick")
KINDS = (*(f"starter {what}" for what in _STARTER_SAYS), *(f"startd {what}" for what in _STARTD_SAYS), *_OTHERS)


def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the schedd be less patient with silence and failure."""
    monkeypatch.setattr(run, "GRACE_S", 0.3)
    monkeypatch.setattr(run, "ASK_AGAIN_S", 0.05)
    monkeypatch.setattr(run, "FAILED_PATIENCE_S", 0.3)
    monkeypatch.setattr(run, "HELLO_S", 0.5)
    monkeypatch.setattr(queue, "_COOL_FIRST_S", 0.01)
    monkeypatch.setattr(queue, "_COOL_MOST_S", 0.05)


def inject(schedd: RunningAccessPoint, injection: Injection, kind: str) -> None:
    """Put faults into what the schedd does with a kind of message: ``starter ended``, ``startd granted``, ``offer``."""
    point = schedd.point
    who, _, what = kind.partition(" ")
    parts: dict[str, tuple[Any, str]] = {
        "starter": (point.shadows, "_take"),
        "startd": (point.claiming.reports, "on_message"),
        "offer": (point.claiming.requests, "offer"),
        "rejections": (point.servicer._rejections, "note"),
        "committed": (point.committer, "_committed"),
        "kill": (point.shadows, "kill"),
        "tick": (point.claiming.upkeep, "tick"),
    }
    owner, name = parts[who]

    def when(*args: Any, **named: Any) -> bool:
        if kind == "committed":  # a submission is the affair of its client
            told = args[-2]
            return "submission" not in str(getattr(getattr(told, "func", told), "__module__", ""))
        if who == "startd":
            return isinstance(args[-1], _STARTD_SAYS[what])
        return not what or args[-1].WhichOneof("what") == what

    setattr(owner, name, injection.wrapped(getattr(owner, name), when))


class SteppedClock(SystemClock):
    """A clock that is set now and then."""

    offset = 0.0

    def now(self) -> float:
        return super().now() + self.offset


class World:
    """One schedd after another, and one execution point."""

    def __init__(self, root: Path, seed: int, clock: SteppedClock, *, parallel: bool = False) -> None:
        """
        :param parallel: the jobs are of two and three nodes each, in clusters of their own.
        """
        self.root, self.random, self.clock, self.parallel = root, Random(seed), clock, parallel
        self.told: list[str] = []
        self.injection = Injection()
        self.schedd: RunningAccessPoint

    async def begin(self) -> None:
        self.schedd = await self._schedd()
        self.point = FaultyPoint(self.root / "ep.sock", self.schedd.daemon_token, self.random)
        await self.point.start()
        if not self.parallel:
            keep = self.random.choice((0, 0, 1))
            self.cluster = await self.schedd.submit(JOBS, UserLog="job.log", KeepClaimIdle=keep)
            return
        for number in range(JOBS):
            policy = self.random.choice(("", "WAIT_FOR_ALL"))
            nodes = 2 + number % 2
            wanted: dict[str, Any] = {
                "JobUniverse": 11,
                "MinHosts": nodes,
                "MaxHosts": nodes,
                "ParallelShutdownPolicy": policy,
            }
            self.cluster = await self.schedd.submit(1, UserLog="job.log", **wanted)

    async def _schedd(self) -> RunningAccessPoint:
        return await RunningAccessPoint(self.root / "pool").start(UNUSED_CLAIM_TIMEOUT="1")

    async def fault(self) -> None:
        what = self.random.choice(FAULTS)
        self.told.append(what)
        if what == "kill":
            await self.schedd.kill()
            self.schedd = await self._schedd()
        elif what == "clock":
            self.clock.offset += self.random.choice((-7200.0, 7200.0, 30.0))
        elif what == "exception":
            self.injection.arm(self.random.choice((1, 2, 3, 5, 8, 13, 21, 34)))
            inject(self.schedd, self.injection, self.random.choice(KINDS))
        elif what in ("hold", "release", "remove", "vacate", "remove_force"):
            await self.act(what.upper())
        else:
            getattr(self.point, what)()

    async def act(self, action: str) -> None:
        number = self.random.randrange(JOBS)
        which = f"ClusterId == {number + 1}" if self.parallel else f"ProcId == {number}"
        acting = asyncio.ensure_future(self.schedd.act(action, which))
        if self.random.random() < 0.3:
            await asyncio.sleep(self.random.choice((0.0, 0.001, 0.004)))
            acting.cancel()  # the client leaves
        await asyncio.gather(acting, return_exceptions=True)

    async def negotiate(self) -> None:
        try:
            await self.schedd.negotiate(self.point.address, slots=4)
        except grpc.RpcError:
            if not self.injection.raised:
                raise

    async def tick(self) -> None:
        with contextlib.suppress(InjectedError):
            self.schedd.point.claiming.upkeep.tick()
        await self.negotiate()
        await asyncio.sleep(self.random.choice((0.0, 0.01, 0.05)))

    def left(self) -> list[str]:
        """What is left over when all jobs are gone."""
        claim_table, moment = self.schedd.point.claiming.claim_table, time.monotonic()
        return [
            *(f"run {one.id} {one.state} at {moment:.1f} gone={one.claim.gone}" for one in claim_table.runs.values()),
            *(f"link {link.target} {link.connected}" for link in self.schedd.point.claiming.links),
            *(f"claim {claim}" for claim in claim_table.claims),
            *(f"request {serial}" for serial in claim_table.pending),
            *(f"gang {gang}" for gang in claim_table.gangs),
            *(f"claim at the startd {claim}" for claim in self.point.claims),
            *(f"run at the starter {run}" for run in self.point.runs),
        ]

    async def settle(self) -> None:
        async def settled() -> bool:
            if not await self.schedd.jobs() and all(one.startswith("link") for one in self.left()):
                return True
            await self.schedd.act("RELEASE", "JobStatus == 5")
            await self.tick()
            return False

        async def told() -> str:
            names = ("ProcId", "JobStatus", "HoldReason", "JobCoolDownExpiration")
            jobs = [{name: ad.get(name) for name in names} for ad in await self.schedd.jobs()]
            return f"{jobs} {self.left()} after {self.told}"

        await until(settled, "all jobs have left, and nothing is left of them", told=told)
        await self.schedd.point.committer._idle.wait()

    async def end(self) -> None:
        await self.schedd.stop()
        await self.point.stop()
