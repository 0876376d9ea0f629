"""A pretended execution point: a startd that grants claims and a starter that "runs" jobs, over real gRPC.

Scripted by :class:`Script` per job; it keeps ended runs until they are acknowledged and offers them again after a
break, as the real starter does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from slotwise.classad import ClassAd
from slotwise.table import pack_ads, unpack_ads
from slotwise.wire import channel, socket_path
from slotwise.wire.credential import bearer
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc, startd_pb2, startd_pb2_grpc
from slotwise.wire.run_tokens import for_stream


def place_of(run_id: str) -> str:
    """The job of a run, or the node of a parallel job: what has one run at a time."""
    job, _, start = run_id.partition("#")
    _, _, node = start.partition(".")
    return f"{job} node {node}" if node else job


@dataclass
class Script:
    """What a job does."""

    run_s: float = 0.0
    exit_code: int = 0
    signal: int = 0
    how: schedd_pb2.RunEnded.How = schedd_pb2.RunEnded.EXITED
    reason: str = ""
    reason_code: int = 0
    reason_subcode: int = 0
    outputs: dict[str, bytes] = field(default_factory=dict)
    #: How long before the results have come it ended, in seconds.
    ended_before_s: int = 0
    ad: dict[str, Any] = field(default_factory=dict)
    #: Runs until killed.
    until_killed: bool = False
    #: It runs until this is set.
    until: asyncio.Event | None = None
    #: It executes; else it ends before.
    starts: bool = True


@dataclass
class PretendedRun:
    """A run as the starter has it."""

    run_id: str
    token: str
    address: str
    claim_id: str
    ad: Any
    inputs: dict[str, bytes] = field(default_factory=dict)
    ended: bool = False
    killed: asyncio.Event = field(default_factory=asyncio.Event)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    acknowledged: asyncio.Event = field(default_factory=asyncio.Event)
    accepted: bool = False
    started: bool = False
    #: How often the access point has answered a request of the job.
    answers: int = 0
    #: The access point gives turns for outputs, and how often it has.
    offers_turns: bool = False
    turns: int = 0
    #: Its outputs are wanted although it was killed.
    with_outputs: bool = False
    hold: Any = None


class ExecutionPoint(startd_pb2_grpc.StartdServicer):
    """One startd with as many dynamic slots as are asked for, up to ``slots``.

    Several points of one access point need names of their own: slots, claim ids and the starter are named after them.
    """

    def __init__(
        self,
        path: Path,
        token: str,
        *,
        slots: int = 4,
        script: Callable[[Any], Script] | None = None,
        name: str = "ep",
    ) -> None:
        self.name = name
        self.starter = f"starter@{name}"
        self.address = f"unix:{path}"
        self.metadata = bearer(token)
        self.newest_token = ""
        self.slots = slots
        self.script = script or (lambda ad: Script())
        self.claims: dict[str, str] = {}
        self.claim_runs: dict[str, str] = {}
        self.runs: dict[str, PretendedRun] = {}
        self.history: list[str] = []
        self.releases: list[str] = []
        self.concurrent: dict[str, int] = {}
        self.overlaps: list[str] = []
        #: Whose job a schedd said it was, by the message that said so.
        self.users: dict[str, str] = {}
        #: The job ads that shadows gave.
        self.given: list[ClassAd] = []
        self.refuse_claims = False
        #: Which others schedds have looked for here.
        self.mistaken: list[str] = []
        #: How often schedds said they would tell that they live, seconds.
        self.alive_intervals: list[int] = []
        #: How many more times it gives what is left of its slot to a schedd that asks for it.
        self.leftovers = 0
        #: Whether its starter says when it wants the input files; tests then ask in its place.
        self.asks_for_inputs = False
        self.refuse_activations = 0
        #: Takes what a schedd says to the starter; tests put theirs in front.
        self.side_take: Callable[[Any, Any], None] = lambda side, message: side.take(message)
        self._sequence = 0
        self._server = self._make_server()
        self._streams: set[asyncio.Queue[startd_pb2.ClaimEvent]] = set()
        self._starters: dict[str, _StarterSide] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def _make_server(self) -> grpc.aio.Server:
        # The schedd's keepalives come more often than a server takes by default.
        server = grpc.aio.server(options=[("grpc.http2.max_ping_strikes", 0)])
        startd_pb2_grpc.add_StartdServicer_to_server(self, server)
        server.add_insecure_port(socket_path.usable_target(self.address))
        return server

    async def start(self) -> None:
        await self._server.start()

    async def lose_startd(self) -> None:
        """The startd is gone; its starter goes on."""
        await self._server.stop(0)

    async def regain_startd(self) -> None:
        """The startd is back, with the claims that it had."""
        self._server = self._make_server()
        await self._server.start()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop(0)

    def say(self, run: PretendedRun, **what: Any) -> None:
        """Say something as the run's starter."""
        self._starters[run.address].say(run, **what)

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def slot_ad(self, name: str) -> ClassAd:
        return ClassAd(
            {
                "Name": name,
                "Machine": self.name,
                "DynamicSlot": True,
                "Cpus": 1,
                "Memory": 1024,
                "Disk": 10_000_000,
                "SlotWeight": 1,
                "MyType": "Machine",
                "FileSystemDomain": "elsewhere",
                "Requirements": True,
            }
        )

    def tell(self, event: startd_pb2.ClaimEvent) -> None:
        for queue in self._streams:
            queue.put_nowait(event)

    async def Claims(self, request_iterator: Any, context: Any) -> None:
        queue: asyncio.Queue[startd_pb2.ClaimEvent] = asyncio.Queue()
        self._streams.add(queue)

        async def write() -> None:
            while True:
                event = await queue.get()
                while not queue.empty():
                    event.more.append(queue.get_nowait())
                await context.write(event)

        writer = asyncio.get_running_loop().create_task(write())
        try:
            while (frame := await context.read()) is not grpc.aio.EOF:
                more = list(frame.more)
                for request in [frame, *more]:
                    self.take(request, queue)
        finally:
            writer.cancel()
            self._streams.discard(queue)

    def take(self, request: Any, queue: Any) -> None:
        what = request.WhichOneof("what")
        if what == "hello":
            known = startd_pb2.ClaimsKnown(startd_name=self.name)
            if request.hello.startd_name not in ("", self.name):
                self.mistaken.append(request.hello.startd_name)
                queue.put_nowait(startd_pb2.ClaimEvent(known=known))
                return
            held = set(request.hello.claim_ids)
            for claim_id in [claim for claim in self.claims if claim not in held]:
                del self.claims[claim_id]  # granted, but the grant was lost
            for claim_id in request.hello.claim_ids:
                if claim_id in self.claims:
                    run = self.claim_runs.get(claim_id, "")
                    known.claims.add(
                        claim_id=claim_id,
                        slot_name=self.claims[claim_id],
                        state="Claimed",
                        activity="Busy" if run else "Idle",
                        run_id=run,
                    )
            queue.put_nowait(startd_pb2.ClaimEvent(known=known))
        elif what == "request":
            self.grant(request, queue)
        elif what == "activate":
            self.activate(request, queue)
        elif what == "release":
            self.claims.pop(request.claim_id, None)
            self.releases.append(request.claim_id)
        elif what == "suspend":
            activity = "Busy" if request.suspend.resume else "Suspended"
            state = startd_pb2.ClaimState(
                state="Claimed", activity=activity, run_id=self.claim_runs.get(request.claim_id, "")
            )
            queue.put_nowait(startd_pb2.ClaimEvent(claim_id=request.claim_id, state=state))

    def grant(self, request: Any, queue: Any) -> None:
        if self.refuse_claims:
            refused = startd_pb2.ClaimRefused(code=1, reason="not today")
            queue.put_nowait(startd_pb2.ClaimEvent(serial=request.serial, claim_id=request.claim_id, refused=refused))
            return
        self.users["claim"] = request.request.user
        self.alive_intervals.append(request.request.alive_interval_s)
        granted = startd_pb2.ClaimGranted()
        if parts := request.request.coalesce_claim_ids:
            for part in parts:
                del self.claims[part]
                gone = startd_pb2.ClaimEnded(reason="another slot has what it had", reason_code=1015)
                queue.put_nowait(startd_pb2.ClaimEvent(claim_id=part, ended=gone))
        room = max(0, self.slots - len(self.claims))
        for _ in range(min(room, max(1, request.request.num_dynamic_slots))):
            self._sequence += 1
            name = f"slot1_{self._sequence}@{self.name}"
            claim_id = f"<{self.name}>#1#{self._sequence}#secret{self._sequence}"
            self.claims[claim_id] = name
            slot_ad = self.slot_ad(name)
            slot_ad["Cpus"] = max(1, len(parts))
            granted.slots.add(claim_id=claim_id, slot_name=name, slot_ad=pack_ads([slot_ad]))
        if self.leftovers and request.request.want_leftovers:
            self.leftovers -= 1
            granted.leftover_claim_id = f"<{self.name}>#1#0#left{self.leftovers}"
            granted.leftover_slot_ad = pack_ads([self.slot_ad(f"slot1@{self.name}")])
        queue.put_nowait(startd_pb2.ClaimEvent(serial=request.serial, claim_id=request.claim_id, granted=granted))

    def activate(self, request: Any, queue: Any) -> None:
        activate = request.activate
        if self.refuse_activations:
            self.refuse_activations -= 1
            del self.claims[request.claim_id]
            ended = startd_pb2.ClaimEnded(reason="work life is over")
            queue.put_nowait(startd_pb2.ClaimEvent(claim_id=request.claim_id, ended=ended))
            refused = startd_pb2.ActivationRefused(run_id=activate.run_id, code=1034, reason="no such claim")
            queue.put_nowait(startd_pb2.ClaimEvent(claim_id=request.claim_id, activation_refused=refused))
            return
        self.users["activation"] = activate.user
        activated = startd_pb2.Activated(run_id=activate.run_id, starter_address=self.starter)
        queue.put_nowait(startd_pb2.ClaimEvent(serial=request.serial, claim_id=request.claim_id, activated=activated))
        if activate.run_id in self.runs:
            return
        ad = unpack_ads(activate.job_ad)[0]
        run = PretendedRun(activate.run_id, activate.run_token, activate.shadow_address, request.claim_id, ad)
        self.newest_token = run.token
        self.runs[run.run_id] = run
        self.claim_runs[request.claim_id] = run.run_id
        self.history.append(run.run_id)
        job = place_of(run.run_id)
        self.concurrent[job] = self.concurrent.get(job, 0) + 1
        if self.concurrent[job] > 1:
            self.overlaps.append(job)
        side = self._starters.get(run.address)
        if side is None:
            side = self._starters[run.address] = _StarterSide(self, run.address)
            self.spawn(side.talk())
        side.begin(run)
        self.spawn(self.live(run, side))

    async def live(self, run: PretendedRun, side: _StarterSide) -> None:
        """The life of a run, whatever happens to the stream."""
        script = self.script(run.ad)
        await run.ready.wait()
        if run.hold is None:
            run.started = script.starts
            if script.starts:
                side.say(run, started=schedd_pb2.RunStarted(pid=1, scratch_dir="/scratch", at=0))
            if script.until_killed:
                await run.killed.wait()
            elif script.until is not None:
                await script.until.wait()
            elif script.run_s:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(run.killed.wait(), script.run_s)
        run.ended = True
        job = place_of(run.run_id)
        self.concurrent[job] -= 1
        self.claim_runs.pop(run.claim_id, None)
        side.finish(run)
        state = startd_pb2.ClaimState(state="Claimed", activity="Idle", run_id=run.run_id)
        self.tell(startd_pb2.ClaimEvent(claim_id=run.claim_id, state=state))


class _StarterSide:
    """The starter's stream to one schedd."""

    def __init__(self, point: ExecutionPoint, address: str) -> None:
        self.point = point
        self.address = address
        self.out: asyncio.Queue[schedd_pb2.StarterMessage] | None = None

    def mine(self) -> list[PretendedRun]:
        return [run for run in self.point.runs.values() if run.address == self.address]

    def say(self, run: PretendedRun, **what: Any) -> None:
        if self.out is not None:
            self.out.put_nowait(schedd_pb2.StarterMessage(run_id=run.run_id, **what))

    def begin(self, run: PretendedRun) -> None:
        self._greet(run)

    def _greet(self, run: PretendedRun, *, resume: bool = False) -> None:
        hello = schedd_pb2.RunHello(
            token=run.token,
            starter_address=self.point.starter,
            resume=resume,
            asks_for_inputs=self.point.asks_for_inputs,
        )
        self.say(run, hello=hello)

    def finish(self, run: PretendedRun) -> None:
        script = self.point.script(run.ad)
        for name, data in script.outputs.items():
            self.say(run, output=schedd_pb2.FilePiece(name=os.fsencode(name), mode=0o644, data=data, last=True))
        ended = schedd_pb2.RunEnded(
            how=script.how,
            code=script.signal or script.exit_code,
            ad=pack_ads([ClassAd({"RemoteUserCpu": 1.0, **script.ad})]),
        )
        if script.ended_before_s:
            ended.at = int(time.time()) - script.ended_before_s
        if script.signal:
            ended.how = schedd_pb2.RunEnded.SIGNALED
        if run.hold is not None:
            ended.how, ended.reason = schedd_pb2.RunEnded.HELD, run.hold.error
            ended.reason_code, ended.reason_subcode = run.hold.hold_code, run.hold.hold_subcode
        elif run.killed.is_set():
            ended.how, ended.reason, ended.reason_code = schedd_pb2.RunEnded.EVICTED, "killed", 1004
        elif script.how != schedd_pb2.RunEnded.EXITED:
            ended.reason, ended.reason_code, ended.reason_subcode = (
                script.reason,
                script.reason_code,
                script.reason_subcode,
            )
        self.say(run, ended=ended)

    def token(self) -> str:
        """That of any of the runs; of the newest one when all are forgotten, as a test that plays dead may want it."""
        return next((run.token for run in self.mine()), self.point.newest_token)

    async def talk(self) -> None:
        while True:
            with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                async with channel.open_async(self.address) as opened:
                    stream = schedd_pb2_grpc.ScheddStub(opened).Shadow(metadata=bearer(for_stream(self.token())))
                    await self.converse(stream)
            self.out = None
            await asyncio.sleep(0.05)

    async def converse(self, stream: Any) -> None:
        runs = schedd_pb2.RunList(run_ids=[r.run_id for r in self.mine()], starter_address=self.point.starter)
        await stream.write(schedd_pb2.StarterMessage(runs=runs))
        self.out = asyncio.Queue()
        for run in self.mine():
            self._greet(run, resume=run.started or run.ended)
            if run.ended:
                self.finish(run)
        out = self.out

        async def write() -> None:
            while True:
                message = await out.get()
                while not out.empty():
                    message.more.append(out.get_nowait())
                await stream.write(message)

        writer = asyncio.get_running_loop().create_task(write())
        try:
            while (frame := await stream.read()) is not grpc.aio.EOF:
                for message in [frame, *frame.more]:
                    self.point.side_take(self, message)
        except ConnectionError:
            stream.cancel()
        finally:
            writer.cancel()

    def take(self, message: Any) -> None:
        run = self.point.runs.get(message.run_id)
        what = message.WhichOneof("what")
        if run is None:
            return
        if what == "accepted":
            self.point.users["acceptance"] = message.accepted.user
            run.accepted = True
            if message.accepted.job_ad:
                self.point.given += unpack_ads(message.accepted.job_ad)
            run.offers_turns = message.accepted.output_turns
        elif what == "io":
            run.answers += 1
        elif what == "output_turn":
            run.turns += 1
        elif what == "input":
            name = os.fsdecode(message.input.name)
            run.inputs[name] = run.inputs.get(name, b"") + message.input.data
        elif what == "inputs_complete":
            if message.inputs_complete.error:
                run.hold = message.inputs_complete
            run.ready.set()
        elif what == "kill":
            run.with_outputs = message.kill.want_outputs
            run.killed.set()
        elif what in ("ack", "refused"):
            run.killed.set()
            run.ready.set()
            self.point.runs.pop(run.run_id, None)
