"""File transfers between the access point and starters, and their entries in the event log."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.classad import ExprTree
from slotwise.classad.long_form import long_form
from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.errors import UsageError
from slotwise.ids import doing_for_run
from slotwise.model import job_events
from slotwise.model.reason_codes import Hold
from slotwise.schedd.claims.records import Run
from slotwise.schedd.claims.starter_link import StarterLink
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.transfer.checkpoint_folders import CheckpointFolder, folder_of
from slotwise.schedd.transfer.common_inputs import CommonAnswer, CommonInputs, common_part, own_part, survey
from slotwise.schedd.transfer.convert import end_common, end_inputs, give_output_turn, offer_common, send_input
from slotwise.schedd.transfer.dates import stage_attributes
from slotwise.schedd.transfer.disk_throttle import DiskThrottle, DiskThrottleSettings
from slotwise.schedd.transfer.files import FilePlan, TransferError, file_plan, input_pieces, named
from slotwise.schedd.transfer.results import Results, spooled_files
from slotwise.schedd.transfer.transfer_queue import TransferQueue
from slotwise.schedd.transfer.transfer_status import TransferStatus
from slotwise.table import Allowance
from slotwise.transfer import checkpoint_manifest
from slotwise.transfer.pieces import Piece

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
#: How often the limit follows the load of the disk, seconds.
_LOOK_S = 5.0
#: The directory in SPOOL with the manifests of checkpoints that jobs keep elsewhere.
CHECKPOINTS = "checkpoints"
#: Steps that TRANSFER_QUEUE_USER_EXPR may take for one job.
_STEPS_MOST = 10_000


class Transfer(Struct):
    """The transfers of one run, in both directions."""

    plan: FilePlan
    results: Results
    waits_for_need: bool = False
    #: What the starter was offered of common inputs; they are being sent.
    offered: CommonInputs | None = None
    sends_common: bool = False
    #: Writes in worker threads, which keep the output in order.
    writes: list[asyncio.Future[None]] = field(default_factory=list)
    #: Why the starter got no inputs; it says so again at the run's end.
    failure: TransferError | None = None
    #: The modification time of the proxy that was sent last; 0: it was sent with the input.
    proxy_sent_at: float = 0.0
    #: Output is being placed.
    placing: bool = False
    #: It is the turn of its output, which has a place among the downloads; and how long that waited in the queue.
    receiving: bool = False
    queued_s: int = -1
    queue_user: str = ""
    #: The run has left files in SPOOL for the next one.
    kept: bool = False
    #: Event log entries about transfers, written with the run's next entry.
    notes: list[str] = field(default_factory=list)
    #: What these change in the job's ad.
    dates: Changes = field(default_factory=dict)
    #: What has come of the manifests of checkpoints that are kept elsewhere, by name.
    manifests: dict[str, bytearray] = field(default_factory=dict)
    #: Its output has begun to come.
    coming: bool = False
    #: When its output was in place, epoch seconds; 0: not yet.
    placed_at: float = 0.0


class Transfers:
    """The transfers of all runs."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        clock: Clock,
        threads: Executor,
        *,
        file_system_domain: str,
        fallback_account: str,
        spool: Path | None,
        host: str,
        place_of: Callable[[Run], str],
        on_failure: Callable[[Run, Exception], None],
    ) -> None:
        """
        :param place_of: how event logs name the execution point of a run.
        :param on_failure: ends a run whose files could not be moved because of a fault of the schedd.
        """
        self._on_failure = on_failure
        self._queue = queue
        self._ads = ads
        self._clock = clock
        self._threads = threads
        self._domain = file_system_domain
        self._fallback = fallback_account
        self._spool = spool
        self._place_of = place_of
        #: The access point's name in reasons of holds.
        self.host = host
        #: MAX_TRANSFER_INPUT_MB and MAX_TRANSFER_OUTPUT_MB.
        self.limits_mib: tuple[float, float] = (-1, -1)
        #: DEFAULT_NUM_EXTRA_CHECKPOINTS.
        self.extra_checkpoints = 1
        #: FORBID_COMMON_FILE_TRANSFER is not set; KEEP_DATA_CLAIM_IDLE, seconds.
        self.shares_common = True
        self.keep_common_s = 300
        #: Common input files were sent for a run.
        self.on_common_sent: Callable[[Run, CommonInputs], None] = lambda run, sent: None
        #: SLOTWISE_OUTPUT_FSYNC.
        self.flushes = True
        #: The queue of transfers of input to starters.
        self.uploads = TransferQueue()
        #: The queue of transfers of output from starters.
        self.downloads = TransferQueue(per_user_most=0)
        #: FILE_TRANSFER_DISK_LOAD_THROTTLE; None: the load of the disk limits nothing.
        self.throttle: DiskThrottle | None = None
        self.uploads.disk_has_room = self.downloads.disk_has_room = self._disk_has_room
        #: TRANSFER_QUEUE_USER_EXPR; None: users stand for themselves.
        self.queue_user: ExprTree | None = None
        self.status = TransferStatus(self._show)
        #: The tasks in progress.
        self.tasks: set[asyncio.Task[None]] = set()

    # ---- the queues

    def follow(self, settings: DiskThrottleSettings | None) -> None:
        """Limit transfers by the load of the disk, or not."""
        if settings is None:
            self.throttle = None
        elif self.throttle is None or self.throttle.settings != settings:
            self.throttle = DiskThrottle(settings, self._clock.monotonic())
        self.uploads.admit()
        self.downloads.admit()

    async def run(self) -> None:
        """Adapt the limit to the load of the disk, for as long as the daemon lives."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self.look()

    def look(self) -> None:
        """Adapt the limit to the load of the disk."""
        if self.throttle is not None:
            self.throttle.look(self.uploads.active + self.downloads.active, self._clock.monotonic())
            self.uploads.admit()
            self.downloads.admit()

    def _disk_has_room(self) -> bool:
        return self.throttle is None or self.throttle.has_room(self.uploads.active + self.downloads.active)

    def _worked(self, seconds: float) -> None:
        if self.throttle is not None:
            self.throttle.worked(seconds)

    def _queue_user(self, run: Run) -> str:
        """Under whose name the transfers of a run wait."""
        if self.queue_user is not None and self._ads.has(run.job):
            with suppress(ValueError), Allowance(_STEPS_MOST):
                name = self.queue_user.eval(self._ads.ad(run.job), now=int(self._clock.now()))
                if isinstance(name, str) and name:
                    return name
        return run.job.cluster.user

    def run_over(self, run: Run) -> None:
        """End the transfers of a run, and remove output that will not be placed."""
        self.status.end(run.id)
        self._end_turn(run)
        self.drop(run)

    def drop(self, run: Run) -> None:
        """Remove what came of results that nobody will put in place."""
        transfer = run.transfer
        if isinstance(transfer, Transfer) and not transfer.results.empty and not transfer.placing:
            asyncio.get_running_loop().run_in_executor(self._threads, transfer.results.discard)

    def _show(self, job: str, changes: Changes) -> None:
        if self._queue.by_key(job) is not None:
            self._ads.set(job, changes)

    # ---- inputs

    def begin(self, run: Run, *, executing: bool, asked: bool = False) -> None:
        """Send a starter that said hello its input, at once or (``asked``) when it asks.

        Output that is being placed already stays; when the starter sends it again, it is ignored.
        """
        plan = self.plan(run)
        self._end_turn(run)
        transfer = run.transfer = Transfer(plan, self._results(plan, run))
        if executing:
            return
        if asked or (plan.moves_inputs and plan.transfer == "IF_NEEDED" and self._shares_files(run)):
            transfer.waits_for_need = True
        else:
            self._give_inputs(run)

    def _give_inputs(self, run: Run) -> None:
        if self.of(run).plan.secret and run.stream is not None and not run.stream.private:
            reason = "The job's files are to be encrypted, and the connection to the execution point is not"
            self._no_inputs(run, TransferError(reason, int(Hold.TRANSFER_INPUT_ERROR), errno.EPROTONOSUPPORT))
        elif self.of(run).plan.common and self.shares_common and run.keeps_common and run.stream is not None:
            self.spawn(run, partial(self._offer_common, run, run.stream))
        elif self.of(run).plan.moves_inputs:
            self._push_inputs(run)
        else:
            if self._moves_files(run):
                self._note(run, "input_started", self._place_of(run))
                self._note(run, "input_finished")
            self._no_inputs(run)

    def nothing_came(self, run: Run) -> None:
        """The run has ended without output to place: as in HTCondor, the event log tells of the end of its transfer,
        which is that of what went where URLs lead."""
        if self._moves_files(run):
            self._note(run, "output_finished")
        transfer = self.of(run)
        if transfer.coming:
            self.status.end(run.id)
            transfer.coming, transfer.placed_at = False, self._clock.now()

    def output_leaves(self, run: Run) -> None:
        """The run's starter begins to move output to where its URLs lead, which is part of the run like any other."""
        self.status.begin(run.id, run.job.key, inputs=False)
        self._output_comes(run)

    def _moves_files(self, run: Run) -> bool:
        """Whether files of the run move, should there be any."""
        return run.node is None and self.of(run).plan.transfer == "YES"

    def need(self, run: Run) -> None:
        """Send input to a starter that asks for it."""
        transfer = self.of(run)
        if transfer.waits_for_need:
            transfer.waits_for_need = False
            self._give_inputs(run)

    def _shares_files(self, run: Run) -> bool:
        domain = self._ads.value_of(run.claim.slot, "FileSystemDomain")
        return bool(self._domain) and isinstance(domain, str) and domain.lower() == self._domain.lower()

    def plan(self, run: Run) -> FilePlan:
        """The transfer plan of the run, from its job's ad and the files that a former run left."""
        ad = self._ads.expanded(run.job, run.claim.slot, run.node_ad)
        plan = file_plan(ad, run.job.account, self._fallback, self.limits_mib)
        if plan.checkpoint_destination and (folder := self._folder_of(run)) is not None:
            plan = replace(plan, checkpoints=str(folder.path) if folder.path.is_dir() else "")
        else:
            plan = replace(plan, checkpoint_destination="")
        directory = self._spool_of(run)
        return replace(plan, spooled=spooled) if directory and (spooled := spooled_files(directory)) else plan

    def _folder_of(self, run: Run) -> CheckpointFolder | None:
        """Where the manifests are of checkpoints that a job keeps elsewhere; nodes of parallel jobs keep none there."""
        if self._spool is None or run.node is not None:
            return None
        return folder_of(self._spool / CHECKPOINTS, run.job.cluster.number, run.job.proc)

    def _spool_of(self, run: Run) -> str:
        """The directory in SPOOL for files of evicted runs of the job; the nodes of parallel jobs begin anew."""
        if self._spool is None or run.node is not None:
            return ""
        return str(self._spool / "jobs" / str(run.job.cluster.number) / str(run.job.proc))

    def of(self, run: Run) -> Transfer:
        """The run's transfer."""
        if not isinstance(run.transfer, Transfer):
            plan = self.plan(run)
            run.transfer = transfer = Transfer(plan, self._results(plan, run))
            return transfer
        return run.transfer

    @staticmethod
    def told_failure(run: Run) -> str:
        """Why the run's starter got no inputs, as it was told; "" when it got them."""
        failure = run.transfer.failure if isinstance(run.transfer, Transfer) else None
        return failure.message if failure is not None else ""

    def _no_inputs(self, run: Run, error: TransferError | None = None) -> None:
        if error is not None:
            error = self.of(run).failure = self._named(run, error)
        if run.stream is not None:
            end_inputs(run.stream, run.id, error)

    def _named(self, run: Run, error: TransferError) -> TransferError:
        return named(error, self.host, run.claim.slot_name)

    def _push_inputs(self, run: Run) -> None:
        if run.stream is not None:
            self.spawn(run, partial(self._inputs, run, run.stream, self.of(run).plan))

    async def _offer_common(self, run: Run, stream: StarterLink) -> None:
        """Ask the starter whether it has the job's common inputs already."""
        transfer = self.of(run)
        try:
            found = await self.in_thread(partial(survey, transfer.plan, run.job.cluster.user))
        except (OSError, TransferError) as error:
            _log.info("%s: its common input files go with its others: %s", run.job.key, error)
            found = None  # their transfer says what is wrong with them
        if run.over or run.stream is not stream or run.transfer is not transfer:
            return
        if found is None:
            self._push_inputs(run)
            return
        transfer.offered = found
        offer_common(stream, run.id, found, self.keep_common_s)

    def common_answered(self, run: Run, answer: CommonAnswer) -> None:
        """The starter has answered an offer of common inputs, or has kept what was sent of them."""
        transfer, stream = self.of(run), run.stream
        found = transfer.offered
        if stream is None or found is None or transfer.sends_common:
            return
        if answer is CommonAnswer.WAIT:
            self._note_common(run, "WaitStarted")
            return
        if answer is CommonAnswer.SEND:
            transfer.sends_common = True
            self.spawn(run, partial(self._send_common, run, stream, found))
            return
        transfer.offered = None
        if answer is CommonAnswer.PLACED:
            _log.info("%s: %s has its common input files", run.job.key, run.claim.slot_name)
            self.spawn(run, partial(self._inputs, run, stream, own_part(transfer.plan, found)))
        else:
            _log.info("%s: %s keeps no common input files of it", run.job.key, run.claim.slot_name)
            self._push_inputs(run)

    async def _send_common(self, run: Run, stream: StarterLink, found: CommonInputs) -> None:
        """Send common inputs that the starter keeps for other jobs."""
        transfer, user = self.of(run), self._queue_user(run)
        if self.uploads.must_wait(user):
            self._note_common(run, "TransferQueued")
        await self.uploads.enter(user, found.size)
        try:
            if run.over or run.stream is not stream:
                return
            self._note_common(run, "TransferStarted")
            _log.info("%s: sending its common input files to %s", run.job.key, run.claim.slot_name)
            error = await self._read_inputs(run, stream, common_part(transfer.plan))
            if run.stream is not stream:
                return
            self._note_common(run, "TransferFinished")
            if error is not None:
                self._no_inputs(run, error)
                return
            try:
                now = await self.in_thread(partial(survey, transfer.plan, run.job.cluster.user))
            except (OSError, TransferError):
                now = None
            transfer.sends_common = False
            self.on_common_sent(run, found)
            end_common(stream, run.id, whole=now == found)
        finally:
            self.uploads.leave(user)

    def _note_common(self, run: Run, stage: str) -> None:
        frame = self._queue.frame(run.job, self._clock.now())
        self.of(run).notes.append(job_events.common_files(frame, stage))

    async def _inputs(self, run: Run, stream: StarterLink, plan: FilePlan) -> None:
        """Send input files when it is their turn, read in a worker thread; large ones wait for room."""
        host, user = self._place_of(run), self._queue_user(run)
        queued_s = -1
        if self.uploads.must_wait(user):
            self._note(run, "input_queued", host)
            self.status.queued(run.id, run.job.key)
            began = self._clock.now()
            await self.uploads.enter(user, self._input_bytes(run))
            queued_s, host = int(self._clock.now() - began), ""
        else:
            await self.uploads.enter(user, self._input_bytes(run))
        try:
            if not run.over and run.stream is stream:
                self._note(run, "input_started", host, queued_s)
                self.status.begin(run.id, run.job.key, inputs=True)
                await self._send_inputs(run, stream, plan)
        finally:
            self.uploads.leave(user)
            self.status.end(run.id)

    def _input_bytes(self, run: Run) -> int:
        return max(0, int(self._ads.number(run.job, "TransferInputSizeMB", 0) * 1048576))

    async def _send_inputs(self, run: Run, stream: StarterLink, plan: FilePlan) -> None:
        error = await self._read_inputs(run, stream, plan)
        if run.stream is not stream:
            return  # the starter is on another stream, on which it gets all of it again
        self._note(run, "input_finished")
        self._no_inputs(run, error)

    async def _read_inputs(self, run: Run, stream: StarterLink, plan: FilePlan) -> TransferError | None:
        """Read files and send them; returns the error, if any."""
        loop = asyncio.get_running_loop()
        small: list[Piece] = []

        busy_since = time.monotonic()

        def emit(piece: Piece) -> None:
            nonlocal small, busy_since
            small.append(piece)
            if sum(len(p.data) for p in small) > 1024 * 1024:
                ready, small = small, []
                loop.call_soon_threadsafe(self._worked, time.monotonic() - busy_since)
                asyncio.run_coroutine_threadsafe(self._send_pieces(run, stream, ready), loop).result()
                busy_since = time.monotonic()

        def read() -> None:
            nonlocal busy_since
            busy_since = time.monotonic()
            for piece in input_pieces(plan):
                if stream.closed:
                    return
                emit(piece)
            loop.call_soon_threadsafe(self._worked, time.monotonic() - busy_since)

        try:
            await loop.run_in_executor(self._threads, read)
        except TransferError as error:
            return error
        await self._send_pieces(run, stream, small)
        return None

    def _note(self, run: Run, stage: str, host: str = "", queued_s: int = -1) -> None:
        frame = self._queue.frame(run.job, self._clock.now())
        transfer = self.of(run)
        transfer.notes.append(job_events.transfer(frame, stage, host, queued_s))
        transfer.dates.update(stage_attributes(run.job, stage, self._clock.now()))

    def log_notes(self, run: Run, decision: Decision) -> None:
        """Write pending entries about transfers into the event log."""
        transfer = self.of(run)
        notes, transfer.notes = transfer.notes, []
        dates, transfer.dates = transfer.dates, {}
        if run.node is not None:
            return  # of a parallel job's nodes HTCondor logs no transfers
        if dates and self._queue.has(run.job):
            decision.set(run.job, dates)
        for note in notes:
            decision.log(run.job, note)

    def placed_at(self, run: Run) -> float:
        """When the run's output was in place, epoch seconds; 0: there was none."""
        return run.transfer.placed_at if isinstance(run.transfer, Transfer) else 0.0

    async def _send_pieces(self, run: Run, stream: StarterLink, pieces: list[Piece]) -> None:
        for piece in pieces:
            run.sent_bytes += len(piece.data)
            await send_input(stream, run.id, piece)

    # ---- results

    def outputs_wait(self, run: Run, size: int) -> None:
        """Let the run's starter send outputs of ``size`` bytes when it is their turn."""
        if run.stream is not None and not self.of(run).receiving:
            self.spawn(run, partial(self._give_turn, run, run.stream, size))

    async def _give_turn(self, run: Run, stream: StarterLink, size: int) -> None:
        transfer, user = self.of(run), self._queue_user(run)
        queued_s = -1
        if self.downloads.must_wait(user):
            self._note(run, "output_queued", self._place_of(run))
            began = self._clock.now()
            await self.downloads.enter(user, size)
            queued_s = int(self._clock.now() - began)
        else:
            await self.downloads.enter(user, size)
        if run.over or run.stream is not stream or transfer.receiving or run.transfer is not transfer:
            self.downloads.leave(user)  # its starter asks again on its next stream
            return
        transfer.receiving, transfer.queued_s, transfer.queue_user = True, queued_s, user
        give_output_turn(stream, run.id)

    def stream_lost(self, run: Run) -> None:
        """The stream of the run's starter broke: others receive their outputs meanwhile."""
        self._end_turn(run)

    def _end_turn(self, run: Run) -> None:
        transfer = run.transfer
        if isinstance(transfer, Transfer) and transfer.receiving:
            transfer.receiving = False
            self.downloads.leave(transfer.queue_user)

    def output(self, run: Run, piece: Piece) -> asyncio.Future[None] | None:
        """Receive a piece of output; await the future, if any, before the next piece."""
        transfer = self.of(run)
        if run.ends:
            return None
        self.status.begin(run.id, run.job.key, inputs=False)
        self._output_comes(run)
        run.received_bytes += len(piece.data)
        if transfer.plan.checkpoint_destination and checkpoint_manifest.number_in(piece.name) >= 0:
            whole = transfer.manifests.setdefault(piece.name, bytearray())
            del whole[piece.offset :]
            if len(whole) + len(piece.data) <= checkpoint_manifest.MOST:
                whole += piece.data
            return None
        if transfer.results.is_small(piece):
            transfer.results.keep(piece.name, piece.mode, piece.data, directory=piece.directory)
            return None
        loop = asyncio.get_running_loop()

        def write() -> None:
            began = time.monotonic()
            transfer.results.write(piece.name, piece.mode, piece.data, piece.offset, last=piece.last)
            loop.call_soon_threadsafe(self._worked, time.monotonic() - began)

        return loop.run_in_executor(self._threads, write)

    async def place(self, run: Run, *, evicted: bool) -> TransferError | None:
        """Place the output, or keep an evicted run's for the next run; returns the error, if any."""
        results = self.of(run).results
        self.of(run).placing = True
        place: Callable[[], None] = results.place
        if evicted:
            self.of(run).kept = True
            place = partial(results.place_in_spool, self._spool_of(run))
        return await self._placed(run, place)

    async def keep_checkpoint(self, run: Run) -> TransferError | None:
        """Keep the checkpoint of a running job for its next run; returns the error, if any."""
        transfer = self.of(run)
        results, transfer.results = transfer.results, self._results(transfer.plan, run)
        if self._spool is None:
            return TransferError("this schedd has no spool directory", 0, 0)
        transfer.kept = True
        return await self._placed(run, partial(results.place_in_spool, self._spool_of(run)))

    async def keep_distant(self, run: Run, number: int, *, good: bool) -> TransferError | None:
        """Keep the manifest of a checkpoint that a running job has sent to its destination; returns the error, if any.

        ``good`` false: not all of it is there, or what came back from there is not what was sent.
        """
        transfer, folder = self.of(run), self._folder_of(run)
        text = transfer.manifests.get(checkpoint_manifest.name_of(number), b"")
        transfer.manifests.clear()
        plan = transfer.plan
        if folder is None or not plan.checkpoint_destination:
            return _no_checkpoint(f"the job has no checkpoint_destination for its checkpoint {number}")
        if not text:
            if not good:
                await self.in_thread(partial(folder.reject, number))
                return None
            return _no_checkpoint(f"no manifest came of checkpoint {number}")
        name = checkpoint_manifest.name_of(number)
        try:
            if not checkpoint_manifest.is_sound_text(bytes(text), name):
                return _no_checkpoint(f"the manifest of checkpoint {number} is damaged")
            checkpoint_manifest.files_in(bytes(text))
        except UsageError as error:
            return _no_checkpoint(error.message)
        self._output_comes(run)
        place = checkpoint_manifest.place_of(plan.checkpoint_destination, plan.global_job_id, number)
        ad = long_form(self._ads.expanded(run.job, run.claim.slot, run.node_ad))
        keep = partial(folder.keep, number, bytes(text), place, run.job.account, ad, good=good)
        try:
            await self.in_thread(keep)
            await self.in_thread(partial(folder.retire, 1 + max(0, self.extra_checkpoints)))
        except OSError as error:
            return _no_checkpoint(f"writing to {folder.path}: (errno {error.errno or 0}) {error.strerror or error}")
        finally:
            self._placing_over(run)
        return None

    def _results(self, plan: FilePlan, run: Run) -> Results:
        return Results(plan, run.id, flushes=self.flushes)

    async def _placed(self, run: Run, place: Callable[[], None]) -> TransferError | None:
        self._output_comes(run)
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, place)
        except TransferError as error:
            return self._named(run, error)
        finally:
            self._placing_over(run)
        return None

    def _placing_over(self, run: Run) -> None:
        self.status.end(run.id)
        self._end_turn(run)
        self._note(run, "output_finished")
        transfer = self.of(run)
        transfer.coming, transfer.placed_at = False, self._clock.now()

    def _output_comes(self, run: Run) -> None:
        transfer = self.of(run)
        if not transfer.coming:
            transfer.coming = True
            self._note(run, "output_started", queued_s=transfer.queued_s)

    @property
    def keeps(self) -> bool:
        """Whether files of evicted runs are kept."""
        return self._spool is not None

    def forget_kept(self, run: Run) -> None:
        """The job needs no files of former runs any more."""
        if isinstance(run.transfer, Transfer) and (run.transfer.kept or run.transfer.plan.spooled):
            work = partial(shutil.rmtree, self._spool_of(run), ignore_errors=True)
            asyncio.get_running_loop().run_in_executor(self._threads, work)

    # ---- work

    def in_thread(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        """Do something that blocks in a worker thread."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def spawn(self, run: Run, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do ``work`` for a run in a task; when it fails, the run ends."""
        task = asyncio.get_running_loop().create_task(self._contained(run, work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _contained(self, run: Run, work: Callable[[], Coroutine[None, None, None]]) -> None:
        with contained(_log, doing_for_run(run.id, "transferring its files"), partial(self._on_failure, run)):
            await work()


def _no_checkpoint(reason: str) -> TransferError:
    return TransferError(checkpoint_manifest.not_stored(reason), int(Hold.FAILED_TO_CHECKPOINT), -1)
