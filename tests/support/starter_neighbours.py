"""The neighbours of a starter, pretended: a startd that gives jobs and a shadow that hands out files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from slotwise.classad import ClassAd
from slotwise.schedd.shadow import chirp, live_output
from slotwise.schedd.transfer.files import FilePlan
from slotwise.table import pack_ads, unpack_ads
from slotwise.wire import socket_path
from slotwise.wire.channel import open_async
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc, starter_pb2, starter_pb2_grpc


def own_name() -> str:
    """The account that the tests run as."""
    return pwd.getpwuid(os.geteuid()).pw_name


@dataclass
class ShadowRun:
    """What the pretended shadow has of one run."""

    ad: dict[str, Any]
    inputs: dict[str, tuple[bytes, int]]
    accepted: int = 0
    asked_for_inputs: bool = False
    started: schedd_pb2.RunStarted | None = None
    updates: list[ClassAd] = field(default_factory=list)
    outputs: dict[str, bytes] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    ended: schedd_pb2.RunEnded | None = None
    ends: int = 0
    #: The files of each checkpoint.
    #: What the job has asked through chirp.
    asked: list[str] = field(default_factory=list)
    checkpoints: list[dict[str, bytes]] = field(default_factory=list)
    #: Pieces of streams that are sent while the job runs, as they came.
    pieces: list[schedd_pb2.StreamPiece] = field(default_factory=list)

    @property
    def end_ad(self) -> ClassAd:
        """The ad of the end."""
        assert self.ended is not None
        return unpack_ads(self.ended.ad)[0]


class PretendedShadow(schedd_pb2_grpc.ScheddServicer):
    """Accepts runs it knows, sends their inputs, keeps their outputs, acknowledges their ends."""

    def __init__(self, path: Path) -> None:
        self.address = f"unix:{path}"
        self.runs: dict[str, ShadowRun] = {}
        self.acknowledges = True
        #: Whether it says that the inputs are complete; a shadow whose job has ended meanwhile does not.
        self.completes_inputs = True
        self.keeps_checkpoints = True
        #: Whether it gives turns for outputs; the sizes that it was asked for turns for.
        self.offers_turns = False
        self.waiting_outputs: dict[str, int] = {}
        #: Whether it says that it has written a piece of a stream; one that is killed at the wrong moment does not.
        self.answers_pieces = True
        #: Cleared, it lets runs that say hello wait.
        self.open = asyncio.Event()
        self.open.set()
        self.greeted: list[str] = []
        #: The directory of jobs at the access point, for chirp.
        self.files = path.parent
        self.listed: list[str] = []
        self.changed = asyncio.Condition()
        self._contexts: dict[str, Any] = {}
        self._server = grpc.aio.server()
        schedd_pb2_grpc.add_ScheddServicer_to_server(self, self._server)
        self._server.add_insecure_port(socket_path.usable_target(self.address))

    async def start(self) -> None:
        """Answer from now on."""
        await self._server.start()

    async def stop(self) -> None:
        """Break all streams."""
        await self._server.stop(0)

    async def Shadow(self, requests: Any, context: Any) -> None:
        """One starter's stream."""
        async for frame in requests:
            messages = ([frame] if frame.WhichOneof("what") else []) + list(frame.more)
            for message in messages:
                await self._take(message, context)
            async with self.changed:
                self.changed.notify_all()

    async def _take(self, message: Any, context: Any) -> None:
        what = message.WhichOneof("what")
        if what == "runs":
            self.listed = list(message.runs.run_ids)
            return
        run = self.runs.get(message.run_id)
        if run is None:
            refused = schedd_pb2.RunRefused(reason="unknown run")
            await context.write(schedd_pb2.ShadowMessage(run_id=message.run_id, refused=refused))
            return
        self._contexts[message.run_id] = context
        if what == "hello":
            self.greeted.append(message.run_id)
            async with self.changed:
                self.changed.notify_all()
            await self.open.wait()
            await self._accept(message.run_id, run, message.hello, context)
        elif what == "need_input":
            run.asked_for_inputs = True
            await self._give_inputs(message.run_id, run, context)
        elif what == "started":
            run.started = message.started
        elif what == "update":
            run.updates += unpack_ads(message.update.pack)
        elif what == "output":
            piece = message.output
            name = os.fsdecode(piece.name)
            before = run.outputs.get(name, b"") if piece.offset else b""
            run.outputs[name] = before + piece.data
            run.modes[name] = piece.mode
        elif what == "io":
            run.asked.append(message.io.op)
            answer = self._about_job(run, message.io)
            await context.write(schedd_pb2.ShadowMessage(run_id=message.run_id, io=answer))
        elif what == "stream":
            run.pieces.append(message.stream)
            plan = FilePlan(own_name(), str(self.files), stdout="live.out", stderr="live.err")
            kept = live_output.write(plan, message.stream)
            if self.answers_pieces:
                await context.write(schedd_pb2.ShadowMessage(run_id=message.run_id, streamed=kept))
        elif what == "outputs_wait":
            self.waiting_outputs[message.run_id] = message.outputs_wait.bytes
        elif what == "checkpoint":
            run.checkpoints.append(dict(run.outputs))
            run.outputs.clear()
            if self.keeps_checkpoints:
                await self.checkpoint_kept(message.run_id)
        elif what == "ended":
            run.ended = message.ended
            run.ends += 1
            if self.acknowledges:
                await self.acknowledge(message.run_id)

    async def _accept(self, run_id: str, run: ShadowRun, hello: schedd_pb2.RunHello, context: Any) -> None:
        run.accepted += 1
        accepted = schedd_pb2.RunAccepted(user=str(run.ad["User"]), output_turns=self.offers_turns)
        if not hello.resume:
            accepted.job_ad = pack_ads([run.ad])
        await context.write(schedd_pb2.ShadowMessage(run_id=run_id, accepted=accepted))
        if not hello.asks_for_inputs:
            await self._give_inputs(run_id, run, context)

    async def _give_inputs(self, run_id: str, run: ShadowRun, context: Any) -> None:
        for name, (data, mode) in run.inputs.items():
            for offset in range(0, max(1, len(data)), 100_000):
                part = data[offset : offset + 100_000]
                piece = schedd_pb2.FilePiece(
                    name=os.fsencode(name), mode=mode, data=part, offset=offset, last=offset + len(part) >= len(data)
                )
                await context.write(schedd_pb2.ShadowMessage(run_id=run_id, input=piece))
        if not self.completes_inputs:
            return
        complete = schedd_pb2.InputsComplete()
        await context.write(schedd_pb2.ShadowMessage(run_id=run_id, inputs_complete=complete))

    async def acknowledge(self, run_id: str) -> None:
        """Say that the end is safe."""
        await self._contexts[run_id].write(schedd_pb2.ShadowMessage(run_id=run_id, ack=schedd_pb2.RunAck()))

    def _about_job(self, run: ShadowRun, io: schedd_pb2.RemoteIo) -> schedd_pb2.RemoteIoDone:
        if io.op in chirp.FILE_OPERATIONS:
            return chirp.on_files(io, str(self.files), "nobody", "nobody")
        done = schedd_pb2.RemoteIoDone(id=io.id)
        if io.op == "set_attr":
            run.ad[io.name] = io.text
        elif io.op == "get_attr":
            done.data = str(run.ad.get(io.name, "")).encode()
            done.error = 0 if io.name in run.ad else 2
        return done

    async def give_turn(self, run_id: str) -> None:
        """Say that outputs may be sent."""
        turn = schedd_pb2.ShadowMessage(run_id=run_id, output_turn=schedd_pb2.OutputTurn())
        await self._contexts[run_id].write(turn)

    async def checkpoint_kept(self, run_id: str) -> None:
        """Say that a checkpoint is safe."""
        kept = schedd_pb2.CheckpointKept()
        await self._contexts[run_id].write(schedd_pb2.ShadowMessage(run_id=run_id, checkpoint_kept=kept))

    async def kill(
        self, run_id: str, *, fast: bool = False, reason: str = "", code: int = 0, want_outputs: bool = False
    ) -> None:
        """Have a run ended."""
        kill = schedd_pb2.RunKill(fast=fast, reason=reason, reason_code=code, want_outputs=want_outputs)
        await self._contexts[run_id].write(schedd_pb2.ShadowMessage(run_id=run_id, kill=kill))


class PretendedStartd:
    """The startd's stream to the starter, with all it has heard."""

    def __init__(self, target: str, metadata: tuple[tuple[str, str], ...], changed: asyncio.Condition) -> None:
        self.events: list[Any] = []
        self.facts: ClassAd | None = None
        self._out: asyncio.Queue[Any] = asyncio.Queue()
        self._channel = open_async(target)
        stub = starter_pb2_grpc.StarterStub(self._channel)
        self._call = stub.Jobs(self._commands(), metadata=metadata)
        self._changed = changed
        self._task = asyncio.get_running_loop().create_task(self._listen())

    async def _commands(self) -> AsyncIterator[Any]:
        while True:
            yield await self._out.get()

    async def _listen(self) -> None:
        try:
            while (frame := await self._call.read()) is not grpc.aio.EOF:
                for event in ([frame] if frame.WhichOneof("what") else []) + list(frame.more):
                    if event.WhichOneof("what") == "host_facts":
                        self.facts = unpack_ads(event.host_facts.pack)[0]
                    self.events.append(event)
                async with self._changed:
                    self._changed.notify_all()
        except grpc.RpcError:
            pass

    def command(self, run_id: str = "", **what: Any) -> None:
        """Send a command."""
        self._out.put_nowait(starter_pb2.JobCommand(run_id=run_id, **what))

    def of(self, run_id: str, kind: str) -> list[Any]:
        """Events of a kind about a run."""
        return [getattr(e, kind) for e in self.events if e.run_id == run_id and e.WhichOneof("what") == kind]

    async def close(self) -> None:
        """Leave."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._call.cancel()
        await self._channel.close()
