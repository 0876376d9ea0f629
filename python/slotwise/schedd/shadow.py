"""The shadow: the access point's end of every running job.

A starter keeps one stream for all its runs of this schedd. For each run the shadow hands out the job ad and the input
files, takes usage, results and the end, and acknowledges the end once it is durable and the results are in place.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import shutil
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from slotwise.clock import Clock
from slotwise.schedd import checkpoints, events, policy
from slotwise.schedd.ads import JobAds, native
from slotwise.schedd.claiming import Claiming
from slotwise.schedd.claims import Run
from slotwise.schedd.codes import Status
from slotwise.schedd.decision import Decision, Kill, RunEnd, Verdict
from slotwise.schedd.evictions import transformed
from slotwise.schedd.files import FilePlan, Piece, TransferError, input_pieces
from slotwise.schedd.queue import Queue
from slotwise.schedd.reattach import Reattachment
from slotwise.schedd.reports import closing_report, slot_properties, usage_attributes
from slotwise.schedd.results import Results, spooled_files
from slotwise.schedd.startd_link import unbundled
from slotwise.schedd.store import Batch
from slotwise.schedd.values import Changes
from slotwise.wire.gen import schedd_pb2

_log = logging.getLogger(__name__)
_HOW = {0: "exited", 1: "signaled", 2: "evicted", 3: "held", 4: "not_started", 5: "lost"}
#: Bytes of input that may wait in memory for one stream.
_WINDOW = 8 * 1024 * 1024


class StarterStream:
    """What is to be said to one starter, gathered into frames."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._out: asyncio.Queue[schedd_pb2.ShadowMessage] = asyncio.Queue()
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self.starter = ""
        self.runs: set[str] = set()

    def close(self) -> None:
        """The stream is over: nobody waits for room any more."""
        self._closed = True
        self._room.set()

    def send(self, message: schedd_pb2.ShadowMessage) -> None:
        """Say something, in order."""
        self._out.put_nowait(message)

    async def send_piece(self, message: schedd_pb2.ShadowMessage) -> None:
        """Say something large; waits while much is on its way."""
        await self._room.wait()
        if self._closed:
            return
        self._bytes += len(message.input.data)
        if self._bytes > _WINDOW:
            self._room.clear()
        self._out.put_nowait(message)

    async def write(self) -> None:
        """Write for ever; ends with the stream."""
        while True:
            first = await self._out.get()
            size = len(first.input.data)
            while size < 1024 * 1024 and not self._out.empty():
                following = self._out.get_nowait()
                size += len(following.input.data)
                first.more.append(following)
            await self._context.write(first)
            self._bytes = max(0, self._bytes - size)
            if self._bytes <= _WINDOW:
                self._room.set()


@dataclass
class Transfer:
    """Files of one run in both directions."""

    plan: FilePlan
    results: Results
    inputs_sent: bool = False
    waits_for_need: bool = False
    #: Keeps results in order when some need a thread.
    writes: list[asyncio.Future[None]] = field(default_factory=list)
    ending: bool = False
    #: Log entries about files, written with the next entry of the run.
    notes: list[str] = field(default_factory=list)


class Shadows:
    """All runs of this schedd."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        claiming: Claiming,
        reattachment: Reattachment,
        clock: Clock,
        threads: Executor,
        *,
        file_system_domain: str = "",
        fallback_account: str = "nobody",
        spool: Path | None = None,
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._claiming = claiming
        self._ledger = claiming.ledger
        self._book = claiming.book
        self._reattachment = reattachment
        self._clock = clock
        self._threads = threads
        self._domain = file_system_domain
        self._fallback = fallback_account
        self._spool = spool
        #: MAX_TRANSFER_INPUT_MB and MAX_TRANSFER_OUTPUT_MB.
        self.limits_mib: tuple[float, float] = (-1, -1)
        self._streams: set[StarterStream] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- streams

    async def serve(self, context: Any) -> None:
        """Serve one starter's stream to its end."""
        stream = StarterStream(context)
        self._streams.add(stream)
        writer = asyncio.get_running_loop().create_task(stream.write())
        try:
            while (frame := await context.read()) is not grpc.aio.EOF:
                for message in unbundled(frame):
                    try:
                        pending = self._take(stream, message)
                        if pending is not None:
                            await pending
                    except Exception:
                        _log.exception("a message of run %s could not be taken in", message.run_id)
        finally:
            writer.cancel()
            stream.close()
            self._streams.discard(stream)
            if stream.starter:
                self._reattachment.starter_left(stream.starter)
            for run_id in stream.runs:
                run = self._book.runs.get(run_id)
                if run is not None and run.stream is stream:
                    self._reattachment.falls_silent(run, "Socket between starter and shadow closed unexpectedly")

    def _take(self, stream: StarterStream, message: schedd_pb2.StarterMessage) -> asyncio.Future[None] | None:
        what = message.WhichOneof("what")
        if what == "runs":
            stream.starter = message.runs.starter_address
            self._reattachment.starter_lists(stream.starter, list(message.runs.run_ids))
            return None
        run = self._book.runs.get(message.run_id)
        if run is None:
            if what in ("hello", "ended"):
                self._refuse(stream, message.run_id, "the run is not known here, or its end was taken over")
            return None
        if what == "hello":
            self._hello(stream, run, message.hello)
        elif run.stream is not stream:
            if what == "ended":
                self._refuse(stream, run.id, "the run did not say hello on this stream")
        elif what == "need_input":
            transfer = self._transfer(run)
            if transfer.waits_for_need:
                transfer.waits_for_need = False
                self._push_inputs(run)
        elif what == "started":
            self._started(run, message.started)
        elif what == "update":
            self._update(run, message.update.pack)
        elif what == "output":
            return self._output(run, message.output)
        elif what == "transfer":
            self._transfer_state(run, message.transfer)
        elif what == "checkpoint":
            self._spawn(self._keep_checkpoint(run, message.checkpoint))
        elif what == "ended":
            self._ended(run, message.ended)
        return None

    def _refuse(self, stream: StarterStream, run_id: str, reason: str) -> None:
        stream.send(schedd_pb2.ShadowMessage(run_id=run_id, refused=schedd_pb2.RunRefused(reason=reason)))

    # ---- beginning

    def _hello(self, stream: StarterStream, run: Run, hello: schedd_pb2.RunHello) -> None:
        if run.over or not hmac.compare_digest(hello.token, run.token):
            self._refuse(stream, run.id, "the run's end was taken over" if run.over else "wrong token")
            return
        run.stream = stream
        run.activated = True
        run.starter = hello.starter_address or run.starter
        stream.runs.add(run.id)
        self._reattachment.speaks(run, hello.resume)
        transfer = run.transfer = Transfer(plan := self._plan(run), Results(plan, run.id))
        accepted = schedd_pb2.RunAccepted()
        if not hello.resume:
            accepted.job_ad = self._ads.final_pack(run.job, self._claiming.machine(run.claim))
        stream.send(schedd_pb2.ShadowMessage(run_id=run.id, accepted=accepted))
        if run.kill is not None:
            self.kill(run.kill)
        if hello.resume and run.executing_at:
            transfer.inputs_sent = True
        elif plan.transfer == "NO" or not plan.any_input:
            self._no_inputs(run)
        elif plan.transfer == "IF_NEEDED" and self._shares_files(run):
            transfer.waits_for_need = True
        else:
            self._push_inputs(run)

    def _shares_files(self, run: Run) -> bool:
        domain = self._ads.value_of(self._claiming.machine(run.claim), "FileSystemDomain")
        return bool(self._domain) and isinstance(domain, str) and domain.lower() == self._domain.lower()

    def _plan(self, run: Run) -> FilePlan:
        plan = self._ads.file_plan(run.job, self._claiming.machine(run.claim), self._fallback, self.limits_mib)
        directory = self._spool_of(run)
        return replace(plan, spooled=spooled) if directory and (spooled := spooled_files(directory)) else plan

    def _spool_of(self, run: Run) -> str:
        """The directory for files of evicted runs of the job."""
        if self._spool is None:
            return ""
        return str(self._spool / "jobs" / str(run.job.cluster.number) / str(run.job.proc))

    def _transfer(self, run: Run) -> Transfer:
        if run.transfer is None:
            plan = self._plan(run)
            run.transfer = Transfer(plan, Results(plan, run.id))
        found: Transfer = run.transfer
        return found

    def _no_inputs(self, run: Run, error: TransferError | None = None) -> None:
        self._transfer(run).inputs_sent = True
        complete = schedd_pb2.InputsComplete()
        if error is not None:
            complete.error, complete.hold_code, complete.hold_subcode = (
                error.message,
                error.hold_code,
                error.subcode,
            )
        if run.stream is not None:
            run.stream.send(schedd_pb2.ShadowMessage(run_id=run.id, inputs_complete=complete))

    def _push_inputs(self, run: Run) -> None:
        self._spawn(self._inputs(run, run.stream))

    async def _inputs(self, run: Run, stream: StarterStream) -> None:
        """Send all input files, read in a worker thread; large ones wait for room."""
        loop = asyncio.get_running_loop()
        transfer = self._transfer(run)
        self._note(run, "input_started", self._host(run))
        small: list[Piece] = []

        def emit(piece: Piece) -> None:
            nonlocal small
            small.append(piece)
            if sum(len(p.data) for p in small) > 1024 * 1024:
                ready, small = small, []
                asyncio.run_coroutine_threadsafe(self._send_pieces(run, stream, ready), loop).result()

        def read() -> None:
            for piece in input_pieces(transfer.plan):
                emit(piece)

        try:
            await loop.run_in_executor(self._threads, read)
        except TransferError as error:
            self._no_inputs(run, error)
            return
        await self._send_pieces(run, stream, small)
        self._note(run, "input_finished")
        self._no_inputs(run)

    def _note(self, run: Run, stage: str, host: str = "") -> None:
        frame = self._queue.frame(run.job, self._clock.now())
        self._transfer(run).notes.append(events.transfer(frame, stage, host))

    def _log_notes(self, run: Run, decision: Decision) -> None:
        notes, self._transfer(run).notes = self._transfer(run).notes, []
        for note in notes:
            decision.log(run.job, note)

    async def _send_pieces(self, run: Run, stream: StarterStream, pieces: list[Piece]) -> None:
        for piece in pieces:
            run.sent_bytes += len(piece.data)
            await stream.send_piece(
                schedd_pb2.ShadowMessage(
                    run_id=run.id,
                    input=schedd_pb2.FilePiece(
                        name=piece.name,
                        mode=piece.mode,
                        data=piece.data,
                        last=piece.last,
                        directory=piece.directory,
                        offset=piece.offset,
                    ),
                )
            )

    # ---- while it runs

    def _started(self, run: Run, started: schedd_pb2.RunStarted) -> None:
        if run.executing_at or run.over:
            return
        now = self._clock.now()
        run.executing_at = started.at or now
        run.claim.failures = 0
        decision, batch = Decision(now), Batch()
        self._log_notes(run, decision)
        if run.job.status == Status.RUNNING:
            host = self._host(run)
            properties = slot_properties(self._ads, started)
            self._queue.executing(run.job, host, run.claim.slot_name, properties, decision)
        batch.put_run(run.row())
        self._ledger.commit(decision, batch)

    def _host(self, run: Run) -> str:
        """How the log names the execution point: its address, or its name when that is a local socket."""
        if not run.claim.startd.startswith("unix:"):
            return run.claim.startd
        name = self._ads.value_of(self._claiming.machine(run.claim), "Machine")
        return name if isinstance(name, str) else run.claim.slot_name

    def _update(self, run: Run, pack: bytes) -> None:
        if run.over or run.job.status not in (Status.RUNNING, Status.SUSPENDED):
            return
        decision = Decision(self._clock.now())
        self._queue.usage(run.job, usage_attributes(self._ads, pack), decision)
        self._ledger.commit(decision)

    def _transfer_state(self, run: Run, state: schedd_pb2.FileTransferState) -> None:
        if state.stage not in events.TRANSFER_STAGES:
            return
        decision = Decision(self._clock.now())
        frame = self._queue.frame(run.job, state.at or decision.now)
        decision.log(run.job, events.transfer(frame, state.stage, state.host))
        self._ledger.commit(decision)

    def kill(self, kill: Kill) -> None:
        """Have the run ended by its starter; at once if it can be reached, else when it says hello."""
        run = self._book.runs.get(kill.run_id)
        if run is None or run.over:
            return
        run.kill = kill
        if run.stream is None:
            if run.executing_at:
                self._claiming.deactivate(run, kill)
            return
        run.stream.send(
            schedd_pb2.ShadowMessage(
                run_id=run.id,
                kill=schedd_pb2.RunKill(fast=kill.fast, reason=kill.reason, reason_code=kill.code),
            )
        )

    # ---- results and end

    def _output(self, run: Run, piece: schedd_pb2.FilePiece) -> asyncio.Future[None] | None:
        transfer = self._transfer(run)
        run.received_bytes += len(piece.data)
        if transfer.results.is_small(piece):
            transfer.results.keep(piece.name, piece.mode, piece.data, directory=piece.directory)
            return None
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(
            self._threads,
            partial(transfer.results.write, piece.name, piece.mode, piece.data, piece.offset),
        )

    async def _keep_checkpoint(self, run: Run, checkpoint: schedd_pb2.RunCheckpoint) -> None:
        """Keep the files that a running job has sent for its next start, and tell its starter that it may go on."""
        transfer = self._transfer(run)
        results, transfer.results = transfer.results, Results(transfer.plan, run.id)
        kept = schedd_pb2.CheckpointKept()
        self._note(run, "output_started", self._host(run))
        try:
            if self._spool is None:
                raise TransferError("this schedd has no spool directory", 0, 0)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, partial(results.place_in_spool, self._spool_of(run)))
        except TransferError as error:
            kept.error, kept.hold_code, kept.hold_subcode = error.message, error.hold_code, error.subcode
        else:
            self._note(run, "output_finished")
            decision = Decision(self._clock.now())
            self._log_notes(run, decision)
            changes = checkpoints.changes(run.job, usage_attributes(self._ads, checkpoint.ad), checkpoint)
            self._queue.usage(run.job, changes, decision)
            await self._ledger.commit(decision)
        if run.stream is not None and not run.over:
            run.stream.send(schedd_pb2.ShadowMessage(run_id=run.id, checkpoint_kept=kept))

    def _ended(self, run: Run, ended: schedd_pb2.RunEnded) -> None:
        transfer = self._transfer(run)
        if run.over or transfer.ending:
            return
        transfer.ending = True
        if transfer.results.empty or ended.how not in (0, 1, 2) or (ended.how == 2 and self._spool is None):
            self._finish(run, ended, None)
        else:
            self._spawn(self._place(run, ended, transfer))

    async def _place(self, run: Run, ended: schedd_pb2.RunEnded, transfer: Transfer) -> None:
        """Put results in place, then take the end over."""
        failure: TransferError | None = None
        self._note(run, "output_started", self._host(run))
        try:
            place: Callable[[], None] = transfer.results.place
            if ended.how == schedd_pb2.RunEnded.EVICTED:
                place = partial(transfer.results.place_in_spool, self._spool_of(run))
            await asyncio.get_running_loop().run_in_executor(self._threads, place)
        except TransferError as error:
            failure = error
        else:
            self._note(run, "output_finished")
        if not run.over:
            self._finish(run, ended, failure)

    def _finish(self, run: Run, ended: schedd_pb2.RunEnded, failure: TransferError | None) -> None:
        now = self._clock.now()
        decision, batch = Decision(now), Batch()
        self._log_notes(run, decision)
        how = _HOW.get(ended.how, "lost")
        report = closing_report(self._ads, self._claiming, run, ended, now)
        # The starter tells whole seconds; when it was just now, our own clock is finer.
        ended_at = ended.at if ended.at and now - ended.at >= 2 else now
        end = RunEnd(
            how,
            code=ended.code,
            reason=ended.reason,
            reason_code=ended.reason_code,
            reason_subcode=ended.reason_subcode,
            at=ended.at or now,
            attributes=report.attributes,
            usage=report.usage,
            wall_s=max(0.0, ended_at - run.born_at),
            executed_s=max(0.0, ended_at - run.executing_at) if run.executing_at else 0.0,
            core="core" if ended.core_dumped else "",
            verdict=self._verdict(run, how, ended, report.attributes),
        )
        if failure is not None and how in ("exited", "signaled"):
            end = RunEnd(
                "held",
                reason=failure.message,
                reason_code=failure.hold_code,
                reason_subcode=failure.subcode,
                at=end.at,
                attributes=end.attributes,
                usage=end.usage,
                wall_s=end.wall_s,
                executed_s=end.executed_s,
            )
        if how in ("held", "evicted") and (larger := self._transformed(run, end)) is not None:
            end = replace(end, how="evicted", attributes={**end.attributes, **larger})
        if not run.executing_at and how in ("exited", "signaled"):
            self._queue.executing(run.job, self._host(run), run.claim.slot_name, {}, decision)
        self._queue.end_run(run.job, end, decision)
        if run.job.status == Status.COMPLETED and not self._ads.stays(run.job, decision.now):
            self._queue.leave(run.job, decision)
        if how in ("not_started", "lost"):
            run.claim.failures += 1
        following = self._claiming.after_run(run, decision, batch)
        done = asyncio.ensure_future(self._ledger.commit(decision, batch))
        done.add_done_callback(lambda _: self._acknowledge(run, following))

    def _transformed(self, run: Run, end: RunEnd) -> Changes | None:
        """What the job's transforms at eviction change, if one applies."""
        if run.job.status != Status.RUNNING or not self._ads.text(run.job, "TransformOnEvict"):
            return None
        ad = self._ads.ad(run.job)
        ad.update(native(end.attributes))
        return transformed(ad, end.reason_code, end.reason_subcode, end.reason, int(self._clock.now()))

    def _verdict(self, run: Run, how: str, ended: schedd_pb2.RunEnded, attributes: Any) -> Verdict | None:
        if how not in ("exited", "signaled") or run.job.status not in (
            Status.RUNNING,
            Status.SUSPENDED,
            Status.TRANSFERRING_OUTPUT,
        ):
            return None
        if self._ads.plain_exit_policy(run.job):
            return Verdict("complete")
        facts = dict(attributes)
        facts["NumJobCompletions"] = int(run.job.number("NumJobCompletions")) + 1
        facts["ExitBySignal"] = how == "signaled"
        facts["ExitSignal" if how == "signaled" else "ExitCode"] = ended.code
        facts["ExitCode" if how == "signaled" else "ExitSignal"] = None
        return policy.at_exit(self._ads.evaluator(run.job, facts, self._clock.now()))

    def _acknowledge(self, run: Run, following: Run | None) -> None:
        if run.stream is not None:
            run.stream.runs.discard(run.id)
            run.stream.send(schedd_pb2.ShadowMessage(run_id=run.id, ack=schedd_pb2.RunAck()))
        if following is not None:
            self._claiming.activate(following)
        if run.transfer is not None and run.transfer.plan.spooled and run.job.status in (3, 4):
            asyncio.get_running_loop().run_in_executor(
                self._threads, partial(shutil.rmtree, run.transfer.plan.spooled, ignore_errors=True)
            )

    def given_up(self, run: Run) -> None:
        """The run was given up without its end: its starter, should it still speak, is to drop it."""
        if run.stream is not None:
            self._refuse(run.stream, run.id, "the run was given up")
            run.stream.runs.discard(run.id)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("work of a shadow failed", exc_info=error)
