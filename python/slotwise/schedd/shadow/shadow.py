"""The shadow: the access point's end of every running job.

A starter keeps one stream for all its runs of this schedd. For each run the shadow hands out the job ad and the input
files, takes usage, results and the end, and acknowledges the end once it is durable and the results are in place.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import grpc

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.model.reason_codes import Hold
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.reconnecting.reconnect import Reconnects
from slotwise.schedd.claims.records import ClaimTable, Run
from slotwise.schedd.claims.starter_link import StarterLink
from slotwise.schedd.claims.transitions import ApplyToRun
from slotwise.schedd.history.epochs import RunHistory, common_record, spawn_record, transfer_records
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision, Kill, RunOutcome
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import TRANSFER_ON_REMOVE, Queue
from slotwise.schedd.lifecycle import run_instructions as do
from slotwise.schedd.lifecycle.run_events import (
    BeganAnew,
    EndReport,
    EndReported,
    Hello,
    JobSent,
    KillRequested,
    Started,
)
from slotwise.schedd.lifecycle.run_instructions import ShadowInstruction
from slotwise.schedd.lifecycle.run_states import Accepted, Executing, Starting
from slotwise.schedd.parallel.nodes import Nodes
from slotwise.schedd.shadow import checkpoints
from slotwise.schedd.shadow.chirp import RemoteRequests
from slotwise.schedd.shadow.convert import end_report
from slotwise.schedd.shadow.credential_delivery import CredentialDelivery
from slotwise.schedd.shadow.interactive_sessions import InteractiveSessions
from slotwise.schedd.shadow.job_exit import JobExits
from slotwise.schedd.shadow.live_output import LiveOutput
from slotwise.schedd.shadow.prepare_hooks import PrepareHooks, refused
from slotwise.schedd.shadow.run_tasks import RunTasks
from slotwise.schedd.shadow.starter_stream import StarterCall, StarterStream
from slotwise.schedd.shadow.usage_reports import bytes_so_far, host_of, slot_properties, usage_attributes
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch
from slotwise.schedd.transfer.common_inputs import CommonInputs
from slotwise.schedd.transfer.convert import common_answer, piece_of
from slotwise.schedd.transfer.transfers import Transfers
from slotwise.wire.frames import unbundled
from slotwise.wire.gen import schedd_pb2

#: Codes of holds of jobs that came to their end.
_HELD_FOR_RESULTS = frozenset({Hold.TRANSFER_OUTPUT_ERROR, Hold.MAX_TRANSFER_OUTPUT})
#: Why a starter's message about a run is refused.
_WRONG_TOKEN, _NO_HELLO = "wrong token", "the run did not say hello on this stream"
_log = logging.getLogger(__name__)
#: How long the messages of one frame may keep everybody else waiting, seconds.
_TURN_S = 0.01
#: How long startds say that a starter's runs are not on their slots before its stream counts as broken, seconds.
_OFF_SLOT_S = 2.0


class Shadows:
    """All runs of this schedd."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        *,
        claim_table: ClaimTable,
        apply: ApplyToRun,
        reconnects: Reconnects,
        activate: Callable[[Iterable[Run]], None],
        failures: Failures,
        endings: JobExits,
        transfers: Transfers,
        history: RunHistory,
        nodes: Nodes,
        hooks: PrepareHooks,
        credentials: CredentialDelivery,
        preparations: RunTasks,
        give_up: Callable[[Run, do.GiveUp], None],
        make_spool: Callable[[Run], None],
    ) -> None:
        """
        :param activate: activates the claims of runs that are durable.
        :param preparations: those of hooks and credentials.
        :param give_up: ends a run without a word of its starter.
        :param make_spool: makes the directory in which the nodes of a parallel job may leave files for each other.
        """
        self._nodes = nodes
        self._hooks = hooks
        self._credentials = credentials
        self._preparations = preparations
        self._give_up = give_up
        self._make_spool = make_spool
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self._claim_table = claim_table
        self._apply = apply
        self._reconnects = reconnects
        self._activate = activate
        self._failures = failures
        self._transfers = transfers
        transfers.on_common_sent = self._record_common
        self.requests = RemoteRequests(queue, ads, committer, transfers, clock)
        #: A checkpoint at a job's destination is one more, or not good: others may be deleted.
        self.on_checkpoint: Callable[[Job], None] = lambda job: None
        self._endings = endings
        self._endings.on_durable = self._acknowledge
        self._endings.on_unacknowledged = self._unacknowledged
        self._live = LiveOutput(transfers)
        self.visits = InteractiveSessions(queue, claim_table)
        self._history = history
        self._streams: set[StarterStream] = set()

    # ---- streams

    async def serve(self, context: StarterCall) -> None:
        """Serve one starter's stream to its end."""
        stream = StarterStream(context)
        self._streams.add(stream)
        writer = asyncio.get_running_loop().create_task(stream.write())
        try:
            async with stream.reading:
                await self._read(stream, context)
        except TimeoutError:
            if not stream.reading.expired():
                raise
            # Closed without a status, the call would go on at a starter that still lives, and nobody would hear it.
            await context.abort(grpc.StatusCode.ABORTED, "another stream of this starter has replaced this one")
        finally:
            writer.cancel()
            stream.close()
            self._streams.discard(stream)
            if stream.starter and all(other.starter != stream.starter for other in self._streams):
                self._reconnects.starter_left(stream.starter)
            self._silence(stream)
            self._take_unproven(stream.starter)

    async def _read(self, stream: StarterStream, context: StarterCall) -> None:
        """Process the messages of a starter, until its stream ends or is replaced."""
        while (frame := await context.read()) is not grpc.aio.EOF:
            began = time.monotonic()
            for message in unbundled(frame):
                if time.monotonic() - began > _TURN_S:
                    await asyncio.sleep(0)
                    began = time.monotonic()
                if stream.closed:
                    break
                run = self._claim_table.runs.get(message.run_id)
                doing = doing_for_run(message.run_id, f"processing {message.WhichOneof('what')!r} of its starter")
                with contained(_log, doing, partial(self._failed, stream, message, run)) as attempt:
                    pending = self._take(stream, message)
                    if pending is not None:
                        await pending
                if attempt.failed and not message.run_id:
                    # Its list of runs: only a new stream brings another one.
                    await context.abort(grpc.StatusCode.INTERNAL, "the list of runs could not be processed")

    def _failed(
        self, stream: StarterStream, message: schedd_pb2.StarterMessage, run: Run | None, error: Exception
    ) -> None:
        """A message could not be processed: its run ends, here and at its starter."""
        if run is not None:
            self._failures.run(run, error, ended=message.WhichOneof("what") == "ended")
        if message.run_id and message.run_id not in self._claim_table.runs:
            stream.runs.discard(message.run_id)
            self._refuse(stream, message.run_id, "the access point failed to process a message of the run")

    def _silence(self, stream: StarterStream) -> None:
        """The stream is over: its runs wait for another."""
        for run_id in stream.runs:
            run = self._claim_table.runs.get(run_id)
            if run is not None and run.stream is stream:
                doing = doing_for_run(run_id, "the break of its stream")
                with contained(_log, doing, partial(self._failures.run, run)):
                    self.visits.lost(run)
                    self._transfers.stream_lost(run)
                    self._reconnects.falls_silent(run, "Socket between starter and shadow closed unexpectedly")
        stream.runs.clear()

    def _lists(self, stream: StarterStream, run_ids: list[str]) -> None:
        """A starter lists its runs, and names its address.

        Any starter may name any address, and behind address translation two may have the same one. So where another
        stream has runs of a starter at this address, the list waits until a run's token proves whose it is, or until
        startds say that those runs are gone.
        """
        if any(other.runs for other in self._twins(stream)):
            stream.unproven = run_ids
            self._look_at_twins(stream, frozenset())
        else:
            self._reconnects.starter_lists(stream.starter, run_ids)

    def _twins(self, stream: StarterStream) -> list[StarterStream]:
        return [other for other in self._streams if other is not stream and other.starter == stream.starter]

    def _proves(self, stream: StarterStream, run: Run) -> None:
        """The run's token was shown: other streams of its startd's starter broke untold, as when its host was reset."""
        if stream.unproven is None:
            return
        runs = self._claim_table.runs
        for other in self._twins(stream):
            others = [runs[run_id] for run_id in other.runs if run_id in runs]
            if any(one.stream is other and one.claim.startd == run.claim.startd for one in others):
                self._replace(other)
        self._take_unproven(stream.starter)

    def _look_at_twins(self, stream: StarterStream, before: frozenset[str]) -> None:
        """Replace streams whose runs are not on their slots, and were not (``before``) a while ago."""
        if stream.closed or stream.unproven is None:
            return
        off_slot = set()
        for other in self._twins(stream):
            runs = [run for run_id in other.runs if (run := self._claim_table.runs.get(run_id)) is not None]
            absent = {run.id for run in runs if isinstance(run.state, (Accepted, Executing)) and run.state.off_slot}
            if runs and len(absent & before) == len(runs):
                self._replace(other)
            off_slot |= absent
        self._take_unproven(stream.starter)
        if stream.unproven is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(_OFF_SLOT_S, self._look_at_twins, stream, frozenset(off_slot))

    def _replace(self, other: StarterStream) -> None:
        other.replace()
        self._silence(other)

    def _take_unproven(self, starter: str) -> None:
        """Take the list of a starter that no other stream claims to be any more."""
        for stream in [stream for stream in self._streams if starter and stream.starter == starter]:
            if stream.unproven is not None and not any(other.runs for other in self._twins(stream)):
                run_ids, stream.unproven = stream.unproven, None
                with contained(_log, f"processing the list of runs of {starter}"):
                    self._reconnects.starter_lists(starter, run_ids)

    def _take(self, stream: StarterStream, message: schedd_pb2.StarterMessage) -> asyncio.Future[None] | None:
        what = message.WhichOneof("what")
        if what == "runs":
            stream.starter = message.runs.starter_address
            self._lists(stream, list(message.runs.run_ids))
            return None
        run = self._claim_table.runs.get(message.run_id)
        if run is None:
            if what in ("hello", "ended"):
                self._refuse(stream, message.run_id, "the run is not known here, or its end was taken over")
            return None
        if run.failed:
            self._take_of_failed(stream, run, message)
        elif what == "hello":
            self._hello(stream, run, message.hello)
        elif run.stream is not stream:
            if what == "ended":
                self._refuse(stream, run.id, _NO_HELLO)
        elif what == "need_input":
            self._transfers.need(run)
        elif what == "common":
            self._transfers.common_answered(run, common_answer(message.common))
        elif what == "started":
            self._started(run, message.started)
        elif what == "update":
            self._update(run, message.update.pack)
        elif what == "output":
            return self._transfers.output(run, piece_of(message.output))
        elif what == "outputs_wait":
            self._transfers.outputs_wait(run, message.outputs_wait.bytes)
        elif what == "transfer":
            self._transfer_state(run, message.transfer)
        elif what == "stream":
            self._transfers.spawn(run, partial(self._live.take, run, message.stream))
        elif what == "io":
            self._transfers.spawn(run, partial(self.requests.answer, run, message.io))
        elif what == "visit":
            self.visits.hear(message.visit)
        elif what == "checkpoint":
            self._transfers.spawn(run, partial(self._keep_checkpoint, run, message.checkpoint))
        elif what == "ended":
            self._apply(run, EndReported(end_report(message.ended)))
        return None

    def _take_of_failed(self, stream: StarterStream, run: Run, message: schedd_pb2.StarterMessage) -> None:
        """Nothing but its end is expected of a run that the access point has failed at."""
        what = message.WhichOneof("what")
        failed = "the access point failed to process a message of the run"
        if what == "ended":
            if run.stream is not stream:
                self._refuse(stream, run.id, _NO_HELLO)
                return
            self._apply(run, EndReported(end_report(message.ended)))
            self._refuse(stream, run.id, failed)
        elif what == "hello" and not hmac.compare_digest(message.hello.token, run.token):
            self._refuse(stream, run.id, _WRONG_TOKEN)
        elif what == "hello" and not message.hello.resume:
            self._apply(run, Hello(resume=False))
            self._refuse(stream, run.id, failed)
        elif what == "hello":
            self._proves(stream, run)
            run.stream = stream
            stream.runs.add(run.id)
            self._apply(run, Hello(resume=True))

    def _refuse(self, stream: StarterLink, run_id: str, reason: str) -> None:
        stream.send(schedd_pb2.ShadowMessage(run_id=run_id, refused=schedd_pb2.RunRefused(reason=reason)))

    # ---- beginning

    def begun(self, run: Run) -> None:
        """The run is durable, and its claim is about to be activated."""
        if run.node is not None and run.node.number == 0:
            self._make_spool(run)
        if self._history.is_kept and self._ads.has(run.job) and (run.node is None or run.node.number == 0):
            attributes = self._history.settings.spawn_attributes
            self._history.add(spawn_record(run.run_of_job, run.job, self._ads, attributes, self._clock.now()))

    def _hello(self, stream: StarterStream, run: Run, hello: schedd_pb2.RunHello) -> None:
        if run.over or not hmac.compare_digest(hello.token, run.token):
            self._refuse(stream, run.id, "the run's end was taken over" if run.over else _WRONG_TOKEN)
            return
        if run.executing_at and not hello.resume:
            # What ran is gone, with its host or its files: the starter was asked for the run again, and begins anew.
            self._apply(run, BeganAnew(run.end_of_claim))
            self._refuse(stream, run.id, "the run has been lost")
            return
        if not hello.resume and not isinstance(run.state, Starting) and self._hooks.changes(run) is None:
            # What the hook printed is not kept: a starter that has not begun is not given the job without it.
            reason = "the access point was started again before the job was, whose hook has to run again"
            self._refuse(stream, run.id, reason)
            self._give_up(run, refused(reason))
            return
        self._proves(stream, run)
        run.stream = stream
        run.starter = hello.starter_address or run.starter
        run.keeps_common = hello.keeps_common_inputs
        stream.runs.add(run.id)
        self._reconnects.speaks(run)
        self._apply(run, Hello(hello.resume, hello.asks_for_inputs))

    def carry_out(self, run: Run, instruction: ShadowInstruction) -> None:
        """Carry out what the life cycle of a run asks of the shadow."""
        match instruction:
            case do.SendAccepted(with_job, asks):
                self._accept(run, with_job, asks)
            case do.BeginTransfer(executing, asks):
                self._transfers.begin(run, executing=executing, asked=asks)
            case do.SendKill(kill):
                self._send_kill(run, kill)
            case do.LogExecuting(slot):
                self._log_executing(run, slot)
            case do.TakeEnd(end):
                self._take_end(run, end)

    def _accept(self, run: Run, with_job: bool, asks: bool) -> None:
        changes = self._hooks.changes(run) if with_job else {}
        if changes is None:
            self._hooks.begin(run, partial(self._prepared, run, asks))
            return
        tokens = self._credentials.of(run) if with_job else None
        if with_job and tokens is None:
            self._credentials.begin(run, partial(self._prepared, run, asks))
            return
        turns = self._transfers.downloads.most > 0
        accepted = schedd_pb2.RunAccepted(user=run.job.cluster.user, output_turns=turns)
        if with_job:
            accepted.job_ad = self._ads.final_pack(run.job, run.claim.slot, run.node_ad, also=changes)
        if tokens is not None and tokens.files:
            accepted.credentials.CopyFrom(tokens)
        self._say(run, schedd_pb2.ShadowMessage(run_id=run.id, accepted=accepted))
        if isinstance(run.state, Starting):
            self._apply(run, JobSent(asks))

    def _prepared(self, run: Run, asks: bool) -> None:
        """The hook has prepared the job, its tokens are there: its starter gets it, now or when it says hello again."""
        if run.stream is not None and isinstance(run.state, Starting) and run.state.silence is None:
            self._accept(run, True, asks)

    def _say(self, run: Run, message: schedd_pb2.ShadowMessage) -> None:
        """Send to the run's starter, if it can be reached."""
        if run.stream is not None:
            run.stream.send(message)

    # ---- while it runs

    def _started(self, run: Run, started: schedd_pb2.RunStarted) -> None:
        at = started.at or self._clock.now()
        self._apply(run, Started(at, slot_properties(self._ads, started)))

    def _log_executing(self, run: Run, properties: Mapping[str, str]) -> None:
        run.claim.failures = 0
        decision, batch = Decision(self._clock.now()), Batch()
        with self._committer.deciding(decision, batch):
            self._transfers.log_notes(run, decision)
            if run.node is not None:
                self._nodes.executing(run, properties, decision)
            elif run.job.status == Status.RUNNING:
                host = host_of(self._ads, run)
                self._queue.executing(run.job, host, run.claim.slot_name, dict(properties), decision)
            batch.put_run(run.row())
            self._committer.commit(decision, batch)

    def _record_common(self, run: Run, sent: CommonInputs) -> None:
        if self._history.is_kept and self._ads.has(run.job):
            settings, now = self._history.settings, self._clock.now()
            self._history.add(common_record(run.id, run.job, self._ads, sent.files, sent.size, settings, now))

    def _update(self, run: Run, pack: bytes) -> None:
        if self._history.is_kept and self._ads.has(run.job):
            settings, now = self._history.settings, self._clock.now()
            for record in transfer_records(run.id, run.job, self._ads, pack, settings, now):
                self._history.add(record)
        if run.over or run.job.status not in (Status.RUNNING, Status.SUSPENDED):
            return
        decision = Decision(self._clock.now())
        if run.node is not None:
            self._nodes.usage(run, usage_attributes(self._ads, run.job, pack), decision)
        else:
            self._queue.usage(run.job, {**usage_attributes(self._ads, run.job, pack), **bytes_so_far(run)}, decision)
            self._transfers.log_notes(run, decision)
        self._committer.commit(decision)

    def _transfer_state(self, run: Run, state: schedd_pb2.FileTransferState) -> None:
        """What only the starter knows of transfers: that outputs begin to move to where their URLs lead."""
        if state.stage != "output_started" or not self._queue.has(run.job):
            return
        self._transfers.output_leaves(run)
        decision = Decision(self._clock.now())
        self._transfers.log_notes(run, decision)
        self._committer.commit(decision)

    def kill(self, run: Run, kill: Kill) -> None:
        """Have the run ended by its starter; at once if it can be reached, else when it says hello.

        A node of a parallel job that is over for good is not waited for: where its starter cannot be reached, its claim
        is given back, and the startd ends it. A run whose hook has not ended, or whose tokens are being read, is over
        at once: no starter has the job.
        """
        if run.over:
            return
        of_nobody = run.node is not None and run.node.gang.is_final and run.state.silence is not None
        if of_nobody or self._preparations.has(run):
            self._give_up(run, do.GiveUp(RunOutcome.EVICTED, kill.reason, kill.code))
        else:
            self._apply(run, KillRequested(kill))

    def _send_kill(self, run: Run, kill: Kill) -> None:
        told = schedd_pb2.RunKill(
            fast=kill.fast, reason=kill.reason, reason_code=kill.code, want_outputs=kill.with_outputs
        )
        self._say(run, schedd_pb2.ShadowMessage(run_id=run.id, kill=told))

    # ---- results and end

    async def _keep_checkpoint(self, run: Run, checkpoint: schedd_pb2.RunCheckpoint) -> None:
        """Keep the files that a running job has sent for its next start, and tell its starter that it may go on."""
        kept = schedd_pb2.CheckpointKept()
        number = checkpoint.stored_as if checkpoint.HasField("stored_as") else None
        if number is None:
            error = await self._transfers.keep_checkpoint(run)
        else:
            error = await self._transfers.keep_distant(run, number, good=not checkpoint.failed)
        if checkpoint.failed:
            _log.warning("%s: checkpoint %s is not good (run %s): %s", run.job.key, number, run.id, checkpoint.reason)
        if error is not None:
            kept.error, kept.hold_code, kept.hold_subcode = error.message, error.hold_code, error.subcode
        elif self._queue.has(run.job):
            decision = Decision(self._clock.now())
            with self._committer.deciding(decision):
                self._transfers.log_notes(run, decision)
                if checkpoint.failed:
                    changes = checkpoints.changes_of_failed(run.job, checkpoint.stored_as)
                else:
                    usage = usage_attributes(self._ads, run.job, checkpoint.ad)
                    changes = checkpoints.changes(run.job, usage, checkpoint.at, number)
                self._queue.usage(run.job, changes, decision)
            await self._committer.commit(decision)
        if number is not None:
            self.on_checkpoint(run.job)
        if run.stream is not None and not run.over:
            run.stream.send(schedd_pb2.ShadowMessage(run_id=run.id, checkpoint_kept=kept))

    def _take_end(self, run: Run, end: EndReport) -> None:
        """Put in place what the end of a run leaves, then take the end over."""
        # A job that is being removed has no next run to keep files for.
        evicted = end.how == RunOutcome.EVICTED and run.job.status != Status.REMOVED
        # Held for a result that is missing or too much: the others are there, and tell what went wrong.
        in_part = end.how == RunOutcome.HELD and end.reason_code in _HELD_FOR_RESULTS
        # With rm -transfer its results are wanted all the same.
        asked_for = run.job.status == Status.REMOVED and (run.job.changes or {}).get(TRANSFER_ON_REMOVE) is True
        kept = evicted and self._transfers.keeps and run.node is None
        # SpoolOnEvict = false: what an evicted or removed job has written goes where its results go.
        not_spooled = end.how == RunOutcome.EVICTED and self._places_evicted(run)
        # FailureFiles of a job that was not started: they tell why, and are not what its next run goes on from.
        why = not run.executing_at and self._ads.has(run.job) and "FailureFiles" in self._ads.ad(run.job)
        placed = end.how.by_itself or in_part or asked_for or kept or not_spooled or why
        flushes_streams = end.how.by_itself and self._transfers.of(run).plan.streams
        if (self._transfers.of(run).results.empty and not flushes_streams) or not placed:
            self._transfers.drop(run)
            if end.how.by_itself and self._transfers.of(run).results.empty:
                self._transfers.nothing_came(run)
            self._endings.finish(run, end, None)
        else:
            self._transfers.spawn(run, partial(self._place, run, end, evicted and not (not_spooled or why)))

    def _places_evicted(self, run: Run) -> bool:
        return self._ads.has(run.job) and self._ads.value_of(self._ads.ad(run.job), "SpoolOnEvict") is False

    async def _place(self, run: Run, end: EndReport, evicted: bool) -> None:
        """Put results in place, then take the end over."""
        failed = partial(self._failures.run, run, ended=True)
        with contained(_log, doing_for_run(run.id, "placing its results"), failed):
            failure = await self._transfers.place(run, evicted=evicted)
            if not run.over:
                self._endings.finish(run, end, failure)

    def _acknowledge(self, run: Run, following: list[Run]) -> None:
        give_up = partial(self._fail_all, following)
        with contained(_log, doing_for_run(run.id, "starting what follows it"), give_up):
            self._activate(following)
        with contained(_log, doing_for_run(run.id, "ending visits to it")):
            self.visits.lost(run)
        self._release(run)
        if run.job.status in (Status.REMOVED, Status.COMPLETED):
            self._transfers.forget_kept(run)

    def _unacknowledged(self, run: Run, following: list[Run], error: Exception) -> None:
        self._fail_all([each for each in following if not each.over], error)
        self._release(run)

    def _fail_all(self, runs: list[Run], error: Exception) -> None:
        for run in runs:
            self._failures.run(run, error)

    def _release(self, run: Run) -> None:
        """Tell the run's starter that its end is durable. One that it has released already it ignores."""
        if run.stream is not None:
            run.stream.runs.discard(run.id)
            run.stream.send(schedd_pb2.ShadowMessage(run_id=run.id, ack=schedd_pb2.RunAck()))

    def over(self, run: Run) -> None:
        """The run is over: its transfers end."""
        self._transfers.run_over(run)
        self._preparations.over(run)
        self._hooks.over(run)
        self._credentials.over(run)

    def given_up(self, run: Run) -> None:
        """The run was given up without its end: its starter, should it still speak, is to drop it."""
        if run.stream is not None:
            self._refuse(run.stream, run.id, "the run was given up")
            run.stream.runs.discard(run.id)
        with contained(_log, doing_for_run(run.id, "recording it")):
            if (record := self._endings.record(run)) is not None:
                self._history.add(record)
        self.visits.lost(run)
