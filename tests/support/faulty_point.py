"""A pretended execution point that loses streams, claims, runs and itself when told to."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from random import Random
from typing import Any

import grpc
from slotwise.classad import ClassAd
from slotwise.table import pack_ads
from slotwise.wire import channel
from slotwise.wire.credential import bearer
from slotwise.wire.gen import common_pb2, schedd_pb2, schedd_pb2_grpc, startd_pb2
from slotwise.wire.run_tokens import for_stream

from tests.support.execution_point import ExecutionPoint, PretendedRun, Script, _StarterSide, place_of


class FaultyPoint(ExecutionPoint):
    """Strict where the real startd is: it knows its claims only, and a claim that ends takes its run along."""

    def __init__(self, path: Path, token: str, random: Random, *, slots: int = 3) -> None:
        super().__init__(path, token, slots=slots)
        self.random = random
        self.script = lambda ad: Script(run_s=random.choice((0.0, 0.01, 0.05, 0.2)))
        #: Runs whose end was acknowledged.
        self.acknowledged: list[str] = []
        #: Runs that were asked for again after that.
        self.again: list[str] = []
        #: Runs that execute, by job.
        self.executing: dict[str, set[str]] = {}
        #: Jobs that executed in two places.
        self.twice: list[str] = []
        #: Whether runs say all that a starter may say.
        self.talkative = False
        self._talks: set[asyncio.Task[Any]] = set()
        self._lives: dict[str, asyncio.Task[Any]] = {}
        self._newest: Any = None

    # ---- faults

    def break_claims(self) -> None:
        for talk in list(self._talks):
            talk.cancel()

    def break_shadow(self) -> None:
        for side in self._starters.values():
            if isinstance(side, FaultySide):
                side.hang_up()

    def repeat_hello(self) -> None:
        for run in list(self.runs.values()):
            side = self._starters[run.address]
            side.say(run, hello=schedd_pb2.RunHello(token=run.token, starter_address="starter@ep", resume=run.started))

    def repeat_end(self) -> None:
        for run in list(self.runs.values()):
            if run.ended:
                self._starters[run.address].finish(run)

    def end_claim(self) -> None:
        if not self.claims:
            return
        claim_id = self.random.choice(sorted(self.claims))
        self.drop_claim(claim_id)
        self.tell(startd_pb2.ClaimEvent(claim_id=claim_id, ended=startd_pb2.ClaimEnded(reason="preempted")))

    def lose_run(self) -> None:
        """The starter died with all it knew of its runs; the startd sees that."""
        self.break_shadow()
        for run in list(self.runs.values()):
            self._forget(run)
            state = startd_pb2.ClaimState(state="Claimed", activity="Idle", run_id=run.run_id)
            self.tell(startd_pb2.ClaimEvent(claim_id=run.claim_id, state=state))

    def reset(self) -> None:
        """The host starts anew: nothing is known of claims and runs."""
        self.break_shadow()
        self.break_claims()
        for run in list(self.runs.values()):
            self._forget(run)
        self.claims.clear()

    # ---- what differs from the plain one

    def _forget(self, run: PretendedRun) -> None:
        self._stopped(run)
        if not run.ended:
            if life := self._lives.pop(run.run_id, None):  # it may not have begun
                life.cancel()
            self.concurrent[place_of(run.run_id)] -= 1
            self.claim_runs.pop(run.claim_id, None)
        self.runs.pop(run.run_id, None)

    def drop_claim(self, claim_id: str) -> None:
        self.claims.pop(claim_id, None)
        if run := self.runs.get(self.claim_runs.get(claim_id, "")):
            run.killed.set()
            run.ready.set()

    async def Claims(self, request_iterator: Any, context: Any) -> None:
        talk = asyncio.get_running_loop().create_task(super().Claims(request_iterator, context))
        self._talks.add(talk)
        try:
            await asyncio.wait({talk})
        finally:
            talk.cancel()
            self._talks.discard(talk)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "broken")

    def take(self, request: Any, queue: Any) -> None:
        what = request.WhichOneof("what")
        if queue is not self._newest and what != "hello":
            return  # what was still in the pipe of a former stream
        if what == "hello":
            self._newest = queue
            for claim_id in [claim for claim in self.claims if claim not in request.hello.claim_ids]:
                self.drop_claim(claim_id)
        if what == "release":
            self.drop_claim(request.claim_id)
        elif what == "deactivate":
            if run := self.runs.get(self.claim_runs.get(request.claim_id, "")):
                run.killed.set()
                run.ready.set()
        elif what == "keep_alive":
            unknown = [claim for claim in request.keep_alive.claim_ids if claim not in self.claims]
            queue.put_nowait(startd_pb2.ClaimEvent(alive=startd_pb2.KeepAliveReply(unknown=unknown)))
        elif what == "activate" and (request.claim_id not in self.claims or self.random.random() < 0.03):
            refused = startd_pb2.ActivationRefused(run_id=request.activate.run_id, code=1034, reason="no such claim")
            queue.put_nowait(startd_pb2.ClaimEvent(claim_id=request.claim_id, activation_refused=refused))
            self.drop_claim(request.claim_id)
        else:
            super().take(request, queue)

    def activate(self, request: Any, queue: Any) -> None:
        activate = request.activate
        if activate.run_id in self.acknowledged:
            self.again.append(activate.run_id)
        self._starters.setdefault(activate.shadow_address, None)  # type: ignore[arg-type]
        if self._starters[activate.shadow_address] is None:
            side = self._starters[activate.shadow_address] = FaultySide(self, activate.shadow_address)
            self.spawn(side.talk())
        super().activate(request, queue)

    async def live(self, run: PretendedRun, side: _StarterSide) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._lives[run.run_id] = task
        await run.ready.wait()
        if not run.killed.is_set():
            executing = self.executing.setdefault(place_of(run.run_id), set())
            executing.add(run.run_id)
            if len(executing) > 1:
                self.twice.append(f"{executing}")
        try:
            await super().live(run, side)
        finally:
            self._stopped(run)

    def _stopped(self, run: PretendedRun) -> None:
        self.executing.get(place_of(run.run_id), set()).discard(run.run_id)


class FaultySide(_StarterSide):
    """A starter's side whose stream can be cut."""

    def __init__(self, point: FaultyPoint, address: str) -> None:
        super().__init__(point, address)
        self._faulty = point
        self._talking: asyncio.Task[Any] | None = None

    def hang_up(self) -> None:
        if self._talking is not None:
            self._talking.cancel()

    def finish(self, run: PretendedRun) -> None:
        if self._faulty.talkative:
            self.say(run, need_input=schedd_pb2.FileNeed())
            usage = pack_ads([ClassAd({"ImageSize": 1000 + len(self._faulty.history), "ResidentSetSize": 900})])
            self.say(run, update=common_pb2.AdBatch(pack=usage))
            self.say(run, output=schedd_pb2.FilePiece(name=b"state", mode=0o644, data=b"1", last=True))
            self.say(run, checkpoint=schedd_pb2.RunCheckpoint(number=1, at=1, ad=usage))
            self.say(run, io=schedd_pb2.RemoteIo(id=1, op="get_attr", name="Cmd"))
            self.say(run, visit=schedd_pb2.JobVisit(id=1, taken=1))
            self.say(run, transfer=schedd_pb2.FileTransferState(stage="output_started", at=1, host="ep"))
        super().finish(run)

    async def talk(self) -> None:
        while True:
            async with channel.open_async(self.address) as opened:
                stream = schedd_pb2_grpc.ScheddStub(opened).Shadow(metadata=bearer(for_stream(self.token())))
                self._talking = asyncio.get_running_loop().create_task(self.converse(stream))
                try:
                    await asyncio.wait({self._talking})
                finally:
                    self._talking.cancel()
                    with contextlib.suppress(Exception, asyncio.CancelledError):
                        await self._talking
                    stream.cancel()
            self.out = None
            await asyncio.sleep(self._faulty.random.choice((0.0, 0.05, 0.2)))

    def take(self, message: Any) -> None:
        if message.WhichOneof("what") == "ack" and message.run_id in self.point.runs:
            self._faulty.acknowledged.append(message.run_id)
        super().take(message)
