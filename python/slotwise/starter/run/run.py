"""One run: does what the lifecycle decides, and tells it what happened."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from functools import partial
from typing import Any

from slotwise.classad import ClassAd
from slotwise.daemon.containment import contained
from slotwise.errors import InvariantError, SlotwiseError
from slotwise.execution import launcher
from slotwise.execution.exit_status import (
    JOB_REMOVED,
    MISSED_DEFERRED_TIME,
    TRANSFER_INPUT_ERROR,
    End,
    Kill,
    MemoryRule,
    held,
    killed,
)
from slotwise.execution.job_view import JobView, SlotView
from slotwise.execution.keeper_spec import Identity, KeeperSpec
from slotwise.ids import doing_for_run, job_of_run
from slotwise.starter.hooks import child_programs, hooks
from slotwise.starter.io_proxy.listener import JobIoProxy
from slotwise.starter.job.ads import unpack_one
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.failures import NO_JOB, LaunchRefusedError, failure
from slotwise.starter.job.usage import Disk
from slotwise.starter.links.leftovers import CANNOT_CLEAN, CANNOT_CLEAN_VOLUME
from slotwise.starter.links.shadow_link import ShadowLink
from slotwise.starter.links.standalone import Standalone
from slotwise.starter.links.user_log import UserLog
from slotwise.starter.run import actions, events, faults, reporting, run_log
from slotwise.starter.run.keeper_link import KeeperLink
from slotwise.starter.run.lifecycle import step
from slotwise.starter.run.run_host import Host
from slotwise.starter.run.states import Phase, RunState
from slotwise.starter.scratch.volumes import Volume
from slotwise.starter.sessions.sessions import Sessions
from slotwise.starter.transfer import transfer
from slotwise.starter.transfer.live_output import LiveOutput
from slotwise.starter.transfer.transfer_stats import OWN, Traffic
from slotwise.wire.gen import schedd_pb2, starter_pb2

_log = logging.getLogger(__name__)

#: Phases in which work of the starter's own leads on.
_WORKING = (Phase.OFFERED, Phase.PREPARING, Phase.STARTING, Phase.OUTPUT, Phase.CHECKPOINT)


class Run:
    """A run and its parts. All methods are for the event loop's thread."""

    def __init__(self, host: Host, run_id: str, slot: SlotView, machine_ad: ClassAd, directory: RunDirectory) -> None:
        self.host = host
        self.run_id = run_id
        self.slot = slot
        self.machine_ad = machine_ad
        self.directory = directory
        self.state = RunState()
        self.token = ""
        self.lease_s = 0.0
        self.shadow_address = ""
        #: Whose job it is that a hook has fetched, and its ad: there is no shadow. Empty for all others.
        self.fetched_for, self.fetched_ad = "", b""
        self.link: ShadowLink | Standalone | None = None
        self.accepted = False
        #: Since when no shadow knows of us, on the clock that nobody sets.
        self.lost_at: float | None = host.clock.monotonic()
        # Known once the shadow has accepted the run:
        #: Whose job it is, ``user@domain``: by the schedd's word alone, see `slotwise.model.ownership`.
        self.user = ""
        self.job_ad = ClassAd({})
        self.job: JobView | None = None
        #: Why the run cannot be had here at all, found out before the shadow was asked.
        self.obstacle: End | None = None
        self.identity = Identity()
        self.transfers = True
        #: Input files come only when they are asked for: a hook may have to run before.
        self.asks_for_inputs = False
        self.limits: dict[str, Any] = {}
        self.memory = MemoryRule()
        self.cgrouped = False
        #: Cores that the job is bound to; none: it may use all.
        self.cores: tuple[int, ...] = ()
        self.spec: KeeperSpec | None = None
        self.inbox: transfer.Inbox | None = None
        self.before: transfer.Listing = {}
        self.keeper = KeeperLink(self)
        #: What the startd's monitors say of the devices that the job has.
        self.measured: dict[str, int | float] = {}
        #: What the hook at the job's end has said.
        self.told_by_hook: dict[str, Any] = {}
        #: Where the job speaks to its access point; None until it may.
        self.io_proxy: JobIoProxy | None = None
        self.live = LiveOutput(self)
        #: The starter failed at it: it is being killed.
        self.failed = False
        self.sessions = Sessions(self)
        self.disk = Disk()
        self.started_at = 0.0
        self.bytes_sent = 0
        #: Files in and out, by what means.
        self.received, self.sent = Traffic(), Traffic()
        self.volume: Volume | None = None
        #: The log that fetched work has itself asked for, once it can be written.
        self.user_log: UserLog | None = None
        #: The job asks for an encrypted scratch directory (encrypt_execute_directory).
        self.wants_encryption = False
        #: When what is due, on the clock that nobody sets; None until the job runs.
        self.next_update_at: float | None = None
        self.next_disk_at = 0.0
        self.next_startd_update_at = 0.0
        self.measuring = False
        #: Programs beside the job that run now.
        self.helpers = 0
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- events in

    def on(self, event: events.Event) -> None:
        """Apply an event, and carry out the actions that follow from it. One that cannot happen now ends the run."""
        former = self.state
        try:
            self.state, following = step(former, event, self.job or NO_JOB)
        except InvariantError as error:
            _log.exception("%s: error in run %s: it ends", self.job_id, self.run_id)
            self.fail(error)
            return
        with contained(_log, f"{self.job_id}: logging a transition of run {self.run_id}"):
            run_log.changed(self, former)
        for action in following:
            doing = f"{self.job_id}: {type(action).__name__} of run {self.run_id}"
            with contained(_log, doing, partial(faults.action_failed, self, action)):
                self._do(action)

    @property
    def job_id(self) -> str:
        """``cluster.proc`` of the job."""
        return job_of_run(self.run_id)

    def hello(self) -> schedd_pb2.RunHello | None:
        """The greeting on a new stream."""
        self.accepted = False
        known = self.job is not None
        self.asks_for_inputs = self.host.settings.hooks.any_before_transfer
        return schedd_pb2.RunHello(
            token=self.token, slot_name=self.slot.name, resume=known, asks_for_inputs=self.asks_for_inputs
        )

    def link_lost(self) -> None:
        """The shadow's stream broke."""
        if self.lost_at is None:  # not again at each failed attempt: the lease runs from the first break
            self.lost_at = self.host.clock.monotonic()
        self.accepted = False
        self.sessions.leave()
        self.live.link_lost()
        if self.inbox is not None:
            self.inbox.close()
        self.on(events.LinkLost())

    def hear(self, message: schedd_pb2.ShadowMessage) -> None:
        """The shadow said something."""
        doing = doing_for_run(self.run_id, f"processing {message.WhichOneof('what')!r} of the shadow")
        with contained(_log, doing, partial(faults.message_failed, self, message)):
            self._hear(message)

    def fail(self, error: BaseException) -> None:
        """Something about the run could not be processed: it ends."""
        faults.end(self, error)

    def _hear(self, message: schedd_pb2.ShadowMessage) -> None:
        what = message.WhichOneof("what")
        if what == "accepted":
            self._accepted(message.accepted)
        elif what == "input":
            self._take_input(message.input)
        elif what == "inputs_complete":
            self._inputs_complete(message.inputs_complete)
        elif what == "checkpoint_kept":
            self._checkpoint_kept(message.checkpoint_kept)
        elif what == "streamed":
            self.live.hear(message.streamed)
        elif what == "io":
            if self.io_proxy is not None:
                self.io_proxy.hear(message.io)
        elif what == "visit":
            self.sessions.hear(message.visit)
        elif what == "ack":
            self.on(events.EndAcknowledged())
        elif what == "refused":
            _log.info("%s: run %s rejected by the shadow: %s", self.job_id, self.run_id, message.refused.reason)
            self.on(events.Unwanted(report_gone=True))
        elif what == "kill":
            kill = message.kill
            wish = Kill(fast=kill.fast, reason=kill.reason, code=kill.reason_code, want_outputs=kill.want_outputs)
            self.on(events.KillRequested(wish))

    def notice(self, what: str) -> None:
        """The keeper said something."""
        self.keeper.notice(what)

    def _accepted(self, accepted: schedd_pb2.RunAccepted) -> None:
        self.accepted = True
        self.lost_at = None
        if self.job is None and self.state.phase is Phase.ENDED:
            self.job = NO_JOB  # told to go before the shadow has answered: all that is left to say is its end
        if self.job is not None:
            self._resume_inputs()
            self.live.link_back()
            if self.io_proxy is not None:
                self.io_proxy.ask_again()
            self.on(events.LinkBack(self.transfers))
            return
        try:
            if self.obstacle is not None:
                raise LaunchRefusedError(self.obstacle)
            self.user = accepted.user
            self.host.parse_job(self, unpack_one(accepted.job_ad))
            if self.transfers:
                self._resume_inputs()
        except (OSError, SlotwiseError) as error:
            self.job = self.job or NO_JOB
            self.on(events.Failed(failure(error)))
            return
        self.on(events.Accepted(self.transfers, hooked=hooks.precedes_transfer(self, self.host.settings.hooks)))

    async def _prepare_transfer(self) -> None:
        try:
            await self.host.prepare_transfer(self)
        except (OSError, SlotwiseError) as error:
            self.on(events.Failed(failure(error)))
            return
        self.on(events.Prepared(self.transfers))

    def _resume_inputs(self) -> None:
        if self.state.phase in (Phase.OFFERED, Phase.PREPARING, Phase.INPUT):
            if self.inbox is not None:
                self.inbox.close()
            self.inbox = transfer.Inbox(self.directory.scratch, self.identity)

    def _take_input(self, piece: schedd_pb2.FilePiece) -> None:
        if self.state.phase is Phase.RUNNING:
            self._renew_proxy(piece)
            return
        if self.state.phase is not Phase.INPUT or self.inbox is None:
            return
        try:
            self.inbox.take(piece)
        except OSError as error:
            reason = (
                f"Transfer input files failure at execution point {self.slot.name} while receiving files from "
                f"{reporting.access_point(self)}. "
                f"Details: writing to file {os.fsdecode(piece.name)}: (errno {error.errno}) {error.strerror}"
            )
            self.on(events.InputsDone(reason, TRANSFER_INPUT_ERROR, error.errno or 0))
        except SlotwiseError as error:
            self.on(events.InputsDone(str(error), TRANSFER_INPUT_ERROR, errno.EINVAL))

    def _renew_proxy(self, piece: schedd_pb2.FilePiece) -> None:
        """The one file that comes while the job runs: its proxy, which its owner has renewed."""
        name = self.job.proxy_name if self.job is not None else ""
        if not name or os.fsdecode(piece.name) != name or not piece.last or piece.offset:
            return
        try:
            self.before[name] = transfer.replace_file(self.directory.scratch, name, piece.data, self.identity)
        except OSError as error:
            _log.warning("%s: cannot write the renewed proxy (run %s): %s", self.job_id, self.run_id, error)
        else:
            _log.info("%s: has a renewed proxy (run %s)", self.job_id, self.run_id)

    def _inputs_complete(self, complete: schedd_pb2.InputsComplete) -> None:
        if self.inbox is not None:
            self.inbox.close()
            self.received.clear(OWN)
            self.received.add(OWN, self.inbox.files, self.inbox.received)
        self.on(events.InputsDone(complete.error, complete.hold_code, complete.hold_subcode))

    def _checkpoint_kept(self, kept: schedd_pb2.CheckpointKept) -> None:
        problem = None
        if kept.error:
            _log.error(
                "%s: the shadow could not store the checkpoint of run %s: %s", self.job_id, self.run_id, kept.error
            )
            problem = held(kept.error, kept.hold_code, kept.hold_subcode) if kept.hold_code else None
        self.on(events.CheckpointStored(problem))

    # ---- actions

    def _do(self, action: actions.Action) -> None:
        match action:
            case actions.RunHook():
                self._start(self._prepare_transfer())
            case actions.RequestInputs():
                if self.asks_for_inputs or (self.job is not None and self.job.transfer.mode == "IF_NEEDED"):
                    self.say(need_input=schedd_pb2.FileNeed(window=0))
            case actions.Launch():
                self._start(self._launch())
            case actions.Relaunch():
                self._start(self._relaunch())
            case actions.SendCheckpoint():
                self._start(reporting.send_checkpoint(self))
            case actions.StopSoft(number, seconds):
                if self.state.phase is Phase.STARTING:
                    self._end_helpers()
                wait_s = self.host.vacate_s(self) if seconds is None else seconds
                launcher.command(self.directory.control, f"soft {number} {wait_s}")
            case actions.StopHard():
                self._end_helpers()
                launcher.command(self.directory.control, "hard")
            case actions.Pause(resume):
                launcher.command(self.directory.control, "continue" if resume else "suspend")
            case actions.ReportPhase():
                running = starter_pb2.JobRunning(pid=self.state.pid, phase=str(self.state.phase))
                self.host.board.post(starter_pb2.JobEvent(run_id=self.run_id, running=running))
            case actions.ReportSuspended(resumed):
                told = starter_pb2.JobSuspended(resumed=resumed)
                self.host.board.post(starter_pb2.JobEvent(run_id=self.run_id, suspended=told))
                reporting.update(self)
                reporting.log_suspension(self, resumed)
            case actions.SendStarted():
                reporting.send_started(self)
            case actions.SendOutputs():
                self._start(reporting.send_outputs(self))
            case actions.SendEnd():
                reporting.send_end(self)
            case actions.ReportGone():
                reporting.tell_gone(self)
            case actions.Discard():
                self.discard()

    def _end_helpers(self) -> None:
        """A run that is told to go does not wait for its hooks and transfers."""
        if self.helpers:
            asyncio.get_running_loop().run_in_executor(None, child_programs.end, self.directory.control)

    async def settle(self) -> None:
        """Wait a little for what the run has begun to do."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2.0)

    def leaving(self) -> str:
        """How the job leaves, in the word for hooks: exit, remove, hold or evict."""
        kill = self.state.kill
        if kill is None:
            return "exit"
        return "hold" if kill.hold else "remove" if kill.code == JOB_REMOVED else "evict"

    def finished(self, end: End) -> bool:
        """Whether fetched work has come to its end, whatever that is: nobody told it to go."""
        result = self.keeper.result
        ran = result is not None and result.how in ("exited", "signaled")
        return bool(self.fetched_for) and ran and (end.by_itself or self.state.kill is None)

    def begin(self, work: Any) -> None:
        """Let work of this run go on by itself."""
        self._start(work)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s: unhandled error in run %s: %s", self.job_id, self.run_id, error, exc_info=error)
            if self.state.phase in _WORKING:
                with contained(_log, f"{self.job_id}: ending run {self.run_id}"):
                    faults.give_up(self, error)

    @property
    def may_send(self) -> bool:
        """Whether files of the job may go over the link as it is now."""
        return self.link is None or self.job is None or not self.job.secret or self.link.private

    def say(self, **what: Any) -> None:
        """Tell the shadow something; dropped while the stream is broken."""
        if self.link is not None and self.accepted:
            self.link.send(schedd_pb2.StarterMessage(run_id=self.run_id, **what))

    async def _deferred(self) -> End | None:
        """Wait for the job's deferral time; the end of a run that was killed meanwhile, or came too late."""
        if self.job is None or self.job.deferral is None:
            return None
        at, window_s = self.job.deferral
        now = self.host.clock.now()
        if now > at + window_s:
            return held(f"Job missed its execution time, {now - at:.0f} s ago", MISSED_DEFERRED_TIME)
        while (left := at - self.host.clock.now()) > 0:
            if self._told_to_go:
                return killed(self.state.kill or Kill(fast=True))
            await asyncio.sleep(min(left, 0.2))
        return None

    async def _launch(self) -> None:
        end = await self._deferred()
        if end is not None:
            self.on(events.Failed(end))
            return
        try:
            self.spec = await self.host.prepare(self)
            if self._told_to_go:
                raise LaunchRefusedError(killed(self.state.kill or Kill(fast=True)))
            pid = await self.host.spawn(self)
        except (OSError, SlotwiseError) as error:
            # What a killed hook or transfer says is not why the run ends.
            kill = self.state.kill
            self.on(events.Failed(failure(error) if kill is None else killed(kill)))
            return
        self.keeper.watch(pid)

    async def _relaunch(self) -> None:
        """Start the job again where it wrote its checkpoint."""
        try:
            await self.keeper.make_room()
            pid = await self.host.spawn(self)
        except (OSError, SlotwiseError) as error:
            self.on(events.Failed(failure(error)))
            return
        self.keeper.watch(pid)

    @property
    def _told_to_go(self) -> bool:
        return self.state.kill is not None or self.state.unwanted

    def discard(self) -> None:
        """Clean up, and forget the run."""
        self._start(self._discard())

    async def _discard(self) -> None:
        with contained(_log, f"{self.job_id}: cleaning up after run {self.run_id}", partial(faults.left, self)):
            await self._clean_up()
        self.host.forget(self)

    async def _clean_up(self) -> None:
        self.keeper.stop()
        self.live.stop()
        self._end_helpers()
        self.sessions.leave()
        if self.inbox is not None:
            self.inbox.close()  # a file that stayed open keeps its blocks, and a mount busy, for as long as we live
        if self.link is not None:
            self.link.drop(self.run_id)
        problems = await self.host.dispose(self)
        if problems:
            _log.error("%s: could not clean up after run %s: %s", self.job_id, self.run_id, "; ".join(problems[:5]))
            code, reason = CANNOT_CLEAN_VOLUME if self.volume is not None else CANNOT_CLEAN
            left = self.host.left.note(self.run_id, self.slot, code, f"{reason}: {problems[0]}")
            gone = starter_pb2.JobGone(how="failed", broken=True, reason=problems[0], left=left)
            self.host.board.post(starter_pb2.JobEvent(run_id=self.run_id, gone=gone))
