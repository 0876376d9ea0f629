"""An exception while the schedd processes a message costs the run or the claim it is about: nothing stays behind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from slotwise.wire.gen import schedd_pb2, startd_pb2

from tests.support import access_point
from tests.support.execution_point import Script
from tests.support.fault_world import KINDS, SteppedClock, World, hasten, inject
from tests.support.injection import Injection

#: A fault is raised at every so manieth call; SLOTWISE_FAULT_STEP=1 tries all of them.
_STEP = int(os.environ.get("SLOTWISE_FAULT_STEP", "8"))


class Stage(World):
    """Lets a message of a kind come."""

    async def begin(self) -> None:
        await super().begin()
        self.point.script = lambda ad: Script(run_s=0.03)
        self.point.talkative = True

    async def until_running(self) -> None:
        async def running() -> bool:
            table = self.schedd.point.claiming.claim_table
            if not table.claims and not table.pending:  # the request for a claim was on the stream that a fault ended
                await self.negotiate()
            return bool(await self.schedd.jobs("NumJobStarts >= 1"))

        await self.schedd.until(running)

    def tell(self, claim_id: str, **what: Any) -> None:
        self.point.tell(startd_pb2.ClaimEvent(claim_id=claim_id, **what))

    async def provoke(self, kind: str) -> None:
        """Two jobs, and what lets the message come."""
        (self.schedd.home.root / "in").write_text("x")
        lasting = kind in ("starter runs", "startd known", "startd alive", "startd ended", "startd state", "kill")
        self.point.script = lambda ad: Script(run_s=0.2 if lasting else 0.03)
        self.point.refuse_claims = kind == "startd refused"
        self.point.refuse_activations = int(kind == "startd activation_refused")
        await self.schedd.submit(2, UserLog="job.log", TransferInput="in", WantIOProxy=True)
        await self.negotiate()
        if lasting:
            await self.until_running()
        if kind == "starter runs":
            self.point.break_shadow()
        elif kind == "startd known":
            self.point.break_claims()
        elif kind == "startd ended":
            self.point.end_claim()
        elif kind == "startd alive":
            for claim_id in list(self.point.claims):
                self.point.drop_claim(claim_id)
                self.tell("", alive=startd_pb2.KeepAliveReply(unknown=[claim_id]))
        elif kind == "startd state":
            for claim_id in list(self.point.claims):
                run_id = self.point.claim_runs.get(claim_id, "")
                for activity in ("Suspended", "Busy"):
                    self.tell(claim_id, state=startd_pb2.ClaimState(state="Claimed", activity=activity, run_id=run_id))
        elif kind == "kill":
            await self.schedd.act("HOLD", "ProcId == 0")
            await self.schedd.act("REMOVE", "ProcId == 1")
        elif kind == "rejections":
            batch = schedd_pb2.MatchBatch(negotiator_name="test")
            group = batch.submitters.add(submitter=f"{self.schedd.owner}@here")
            group.rejections.add(autocluster_id=1, reason="no match found", count=2)
            await self.schedd.submit(1)
            await self.schedd.stub.OfferMatches(batch, metadata=self.schedd.daemon)
        elif kind == "startd refused":
            await asyncio.sleep(0.02)
            self.point.refuse_claims = False
        await self.settle()
        await self.tick()
        self.schedd.point.queue.validate()
        assert not self.schedd.point.claiming.sweep.is_due


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    hasten(monkeypatch)
    clock = SteppedClock()
    monkeypatch.setattr(access_point, "SystemClock", lambda: clock)
    stage = Stage(tmp_path, 0, clock)
    await stage.begin()
    await stage.settle()
    yield stage
    await stage.end()


@pytest.mark.parametrize("kind", KINDS)
async def test_an_exception_at_any_point_leaves_nothing_behind(stage: Stage, kind: str) -> None:
    injection = stage.injection = Injection()
    inject(stage.schedd, injection, kind)
    await stage.provoke(kind)
    assert injection.most > 0, "the message did not come"
    tried = []
    for at in range(kind in ("committed", "tick", "offer"), injection.most, _STEP):
        injection.arm(at)
        stage.told = [f"{kind} {at}"]
        await stage.provoke(kind)
        tried.append(injection.raised)
    assert any(tried), "no fault was raised"
    assert not stage.point.twice
