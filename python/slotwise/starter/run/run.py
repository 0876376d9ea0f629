"""One run: carries out what the life cycle decides, and reports to it what happened."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from slotwise.classad import ClassAd, ExprTree
from slotwise.daemon.containment import contained
from slotwise.daemon.host_faults import is_of_the_host
from slotwise.errors import InvariantError, SlotwiseError
from slotwise.execution.exit_status import (
    MISSED_DEFERRED_TIME,
    NO_CREDENTIALS,
    TRANSFER_INPUT_ERROR,
    End,
    Kill,
    held,
    killed,
)
from slotwise.execution.keeper_link import KeeperLink
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.ids import doing_for_run
from slotwise.starter.hooks import hooks
from slotwise.starter.hooks.run_programs import ChildPrograms
from slotwise.starter.io_proxy.listener import JobIoProxy
from slotwise.starter.job.ads import pack_one, unpack_one
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.choice import NONE
from slotwise.starter.job.failures import NO_JOB, LaunchRefusedError, failure
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.links.leftovers import CANNOT_CLEAN, CANNOT_CLEAN_VOLUME
from slotwise.starter.links.shadow_connection import ShadowConnection
from slotwise.starter.links.user_log import UserLog
from slotwise.starter.messages import (
    Accepted,
    Ack,
    CheckpointKept,
    CommonOffered,
    CommonSent,
    Credentials,
    FilePiece,
    FromShadow,
    Hello,
    Input,
    InputsComplete,
    KillRun,
    NeedInputs,
    OutputTurnGiven,
    Refused,
    RemoteIo,
    RemoteIoDone,
    SlotFree,
    StreamKept,
    Update,
    Visit,
)
from slotwise.starter.run import actions, conclusion, events, faults, outputs, reporting, run_log
from slotwise.starter.run.lifecycle import soft_kill, step
from slotwise.starter.run.measured import Reported
from slotwise.starter.run.run_host import HostServices
from slotwise.starter.run.schedule import UpdateSchedule
from slotwise.starter.run.states import Phase, RunState
from slotwise.starter.runtimes.runtime import ContainerJob, Entrance, container_run
from slotwise.starter.scratch.space import ScratchSpace
from slotwise.starter.sessions.sessions import Sessions
from slotwise.starter.transfer import job_credentials, transfer
from slotwise.starter.transfer.common_inputs import RunPart
from slotwise.starter.transfer.live_output import LiveOutput
from slotwise.starter.transfer.output_turn import OutputTurn
from slotwise.starter.transfer.run_files import RunFiles

_log = logging.getLogger(__name__)

#: Phases in which work of the starter's own leads on.
_WORKING = (Phase.OFFERED, Phase.PREPARING, Phase.STARTING, Phase.OUTPUT, Phase.CHECKPOINT)


class JobPreparation(Protocol):
    """What comes before the start of a job; see :class:`slotwise.starter.host.preparation.Preparation`."""

    def parse_job(self, run: Run, job_ad: ClassAd) -> None:
        """Read the final job ad: what the job asks for, its identity, whether files move."""
        ...

    async def prepare_transfer(self, run: Run) -> None:
        """Do what comes before the input files."""
        ...

    async def prepare(self, run: Run) -> None:
        """Make all that the job needs, and write down how it is to be run."""
        ...

    def take_group(self, group: int) -> None:
        """A run from before a restart has this tracking group."""
        ...


class RunHost(HostServices, Protocol):
    """The host as a run uses it: it prepares and disposes of the whole of a run."""

    @property
    def preparation(self) -> JobPreparation:
        """Prepares jobs."""
        ...

    def spawn(self, run: Run) -> asyncio.Future[int]:
        """Have a keeper forked."""
        ...

    def vacate_s(self, run: Run) -> int:
        """Seconds that a job may take to leave unless the kill says otherwise."""
        ...

    async def dispose(self, run: Run) -> list[str]:
        """Remove directory and volume; returns what could not be removed."""
        ...

    def clean_later(self, run: Run) -> None:
        """Remove directory and volume later: something has prevented it."""
        ...

    def forget(self, run: Run) -> None:
        """The run is gone."""
        ...


class Run:
    """A run and its parts. All methods are for the event loop's thread."""

    def __init__(self, host: RunHost, assignment: Assignment) -> None:
        self.host = host
        self.assignment = assignment
        self.state = RunState()
        self.job = RunJob()
        directory = assignment.directory
        self.scratch = ScratchSpace(assignment.run_id, directory, assignment.slot.disk_kib)
        #: Why the run cannot be had here at all, found out before the shadow was asked.
        self.obstacle: End | None = None
        #: The starter failed at it: it is being killed.
        self.failed = False
        self.shadow = ShadowConnection(assignment.run_id, host.clock.monotonic())
        self.files = RunFiles()
        self.common = RunPart(self, host.common)
        self.live = LiveOutput(self, host.clock)
        self.output_turn = OutputTurn()
        self.programs = ChildPrograms(directory, self.job)
        self.keeper = KeeperLink(assignment.run_id, directory.control, self)
        self.reported = Reported()
        self.schedule = UpdateSchedule()
        #: Where the job speaks to its access point; None until it may.
        self.io_proxy: JobIoProxy | None = None
        self.sessions = Sessions(self)
        #: The log that fetched work has itself asked for, once it can be written.
        self.user_log: UserLog | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        #: Makes the job's image available.
        self._preparation: asyncio.Future[ContainerJob] | None = None

    @property
    def run_id(self) -> str:
        """The run's id, ``cluster.proc#start``."""
        return self.assignment.run_id

    @property
    def token(self) -> str:
        """Proves to the shadow that the run was assigned by its startd."""
        return self.assignment.token

    @property
    def job_id(self) -> str:
        """``cluster.proc`` of the job."""
        return self.assignment.job_id

    @property
    def pid(self) -> int:
        """The job's process; 0 when it does not execute."""
        return self.state.pid

    @property
    def executing(self) -> bool:
        """The job executes, or is suspended."""
        return self.state.phase is Phase.RUNNING

    def entrance(self) -> Entrance | None:
        """How a visitor enters the job's view; None: nobody can."""
        return self.host.machine.runtimes.inside(container_run(self.assignment, self.job, self.pid))

    @property
    def allows_visits(self) -> ExprTree | None:
        """ENABLE_SSH_TO_JOB, as an expression over machine and job; None: all may visit."""
        return self.host.machine.settings.visits

    @property
    def may_send(self) -> bool:
        """Whether files of the job may go over the link as it is now."""
        return self.job.view is None or not self.job.view.secret or self.shadow.private

    # ---- events in

    def on(self, event: events.Event) -> None:
        """Apply an event, and carry out the actions that follow from it. One that cannot happen now ends the run."""
        former = self.state
        try:
            self.state, following = step(former, event)
        except InvariantError as error:
            _log.exception("%s: error in run %s: it ends", self.job_id, self.run_id)
            self.fail(error)
            return
        with contained(_log, f"{self.job_id}: logging a transition of run {self.run_id}"):
            run_log.changed(self, former, self.host.clock.now())
        for action in following:
            doing = f"{self.job_id}: {type(action).__name__} of run {self.run_id}"
            with contained(_log, doing, partial(faults.action_failed, self, action)):
                self._do(action)

    def fail(self, error: BaseException) -> None:
        """Something about the run could not be processed: it ends."""
        faults.end(self, error)

    def give_up(self, error: BaseException) -> None:
        """The end of the job could not be processed, and nothing is left of its family: the run ends."""
        faults.give_up(self, error)

    def cannot_go_on(self, end: End) -> None:
        """The run ends: a stream cannot be written at the access point."""
        self.on(events.Failed(end))

    # ---- from the shadow

    def hello(self) -> Hello:
        """The greeting on a new stream."""
        self.shadow.greet()
        self.files.asks_for_inputs = self.host.machine.settings.hooks.any_before_transfer
        return Hello(
            token=self.token,
            slot_name=self.assignment.slot.name,
            resume=self.job.view is not None,
            asks_for_inputs=self.files.asks_for_inputs,
            keeps_common_inputs=True,
        )

    def link_lost(self) -> None:
        """The shadow's stream broke."""
        self.shadow.lose(self.host.clock.monotonic())
        self.sessions.leave()
        self.live.link_lost()
        self.output_turn.lose()
        self.files.close_inbox()
        if self.state.phase is Phase.INPUT:
            self.common.leave()
        self.on(events.LinkLost())

    def hear(self, message: FromShadow) -> None:
        """Process a message of the shadow."""
        doing = doing_for_run(self.run_id, f"processing {type(message).__name__} of the shadow")
        with contained(_log, doing, partial(faults.message_failed, self, message)):
            self._hear(message)

    def _hear(self, message: FromShadow) -> None:
        match message:
            case Accepted():
                self._accepted(message)
            case Input(piece):
                self._take_input(piece)
            case CommonOffered():
                if self.state.phase is Phase.INPUT:
                    self.common.offered(message, encrypted=self.host.disks.encrypts(self.scratch))
            case CommonSent():
                self.common.sent(message)
            case InputsComplete() if self.common.is_placing:
                self.begin(self._inputs_complete_when_placed(message))
            case InputsComplete():
                self._inputs_complete(message)
            case CheckpointKept():
                self._checkpoint_kept(message)
            case OutputTurnGiven():
                self.output_turn.give()
            case StreamKept():
                self.live.hear(message)
            case Credentials(files):
                self._renew_credentials(files)
            case RemoteIoDone():
                if self.io_proxy is not None:
                    self.io_proxy.hear(message)
            case Visit():
                self.sessions.hear(message)
            case Ack():
                self.on(events.EndAcknowledged())
            case Refused(reason):
                _log.info("%s: run %s rejected by the shadow: %s", self.job_id, self.run_id, reason)
                self.on(events.Unwanted(report_gone=True))
            case KillRun(fast, reason, code, want_outputs):
                kill = Kill(fast=fast, reason=reason, code=code, want_outputs=want_outputs)
                self.on(events.KillRequested(kill))

    def _accepted(self, accepted: Accepted) -> None:
        self.shadow.accept()
        self.output_turn.accept(offered=accepted.output_turns)
        if self.job.view is None and self.state.phase is Phase.ENDED:
            self.job.view = NO_JOB  # killed before the shadow has answered: only its end is left to report
        if self.job.view is not None:
            self._resume_inputs()
            self.live.link_back()
            if self.io_proxy is not None:
                self.io_proxy.ask_again()
            self.on(events.LinkBack(self.job.transfers))
            return
        try:
            if self.obstacle is not None:
                raise LaunchRefusedError(self.obstacle)
            self.job.user = accepted.user
            self.host.preparation.parse_job(self, unpack_one(accepted.job_ad))
            self._take_credentials(accepted.credentials)
            if self.job.transfers:
                self._resume_inputs()
        except (OSError, SlotwiseError) as error:
            self.job.view = self.job.view or NO_JOB
            self.on(events.Failed(failure(error)))
            return
        hooked = hooks.precedes_transfer(self, self.host.machine.settings)
        tells_why = bool(self.job.view and self.job.view.transfer.failure_files)
        self.on(events.Accepted(self.job.transfers, hooked=hooked, tells_why=tells_why))

    def _resume_inputs(self) -> None:
        if self.state.phase in (Phase.OFFERED, Phase.PREPARING, Phase.INPUT):
            self.files.open_inbox(self.assignment.directory, self.job.identity)

    async def _inputs_complete_when_placed(self, message: InputsComplete) -> None:
        """A former stream of this run may have begun to put common inputs into its directory."""
        inbox = self.files.inbox
        await self.common.settle()
        if self.files.inbox is inbox:  # each stream has its own
            self._inputs_complete(message)

    def _inputs_complete(self, message: InputsComplete) -> None:
        if message.error:
            self.common.leave()
        self.files.inputs_complete()
        self.on(events.InputsDone(message.error, message.hold_code, message.hold_subcode))

    def _take_input(self, piece: FilePiece) -> None:
        if self.executing:
            self._renew_proxy(piece)
            return
        if self.common.receiving:
            self.common.take(piece)
            return
        inbox = self.files.inbox
        if self.state.phase is not Phase.INPUT or inbox is None:
            return
        try:
            inbox.take(piece)
        except OSError as error:
            if is_of_the_host(error.errno):
                self.on(events.Failed(failure(error)))
                return
            reason = outputs.input_failure(self.assignment, self.job, os.fsdecode(piece.name), error)
            self.on(events.InputsDone(reason, TRANSFER_INPUT_ERROR, error.errno or 0))
        except SlotwiseError as error:
            self.on(events.InputsDone(str(error), TRANSFER_INPUT_ERROR, errno.EINVAL))

    def _renew_proxy(self, piece: FilePiece) -> None:
        """The one file that comes while the job runs: its proxy, which its owner has renewed."""
        name = self.job.view.proxy_name if self.job.view is not None else ""
        if not name or os.fsdecode(piece.name) != name or not piece.last or piece.offset:
            return
        scratch = self.assignment.directory.scratch
        try:
            self.files.before[name] = transfer.replace_file(scratch, name, piece.data, self.job.identity)
        except OSError as error:
            _log.warning("%s: cannot write the renewed proxy (run %s): %s", self.job_id, self.run_id, error)
        else:
            _log.info("%s: has a renewed proxy (run %s)", self.job_id, self.run_id)

    def _take_credentials(self, files: Mapping[str, bytes]) -> None:
        """Put the tokens that came with the job in place.

        :raises LaunchRefusedError: when the job needs some, and its access point knows of none.
        """
        if self.job.view is None or not self.job.view.needs_credentials:
            return
        if not files:
            raise LaunchRefusedError(held("Job credentials are not available: none came with the job", NO_CREDENTIALS))
        job_credentials.put(self.assignment.directory, files, self.job.identity)

    def _renew_credentials(self, files: Mapping[str, bytes]) -> None:
        if self.job.view is None or not self.job.view.needs_credentials or self.state.phase is Phase.ENDED:
            return
        try:
            job_credentials.put(self.assignment.directory, files, self.job.identity)
        except (OSError, SlotwiseError) as error:
            _log.warning("%s: cannot write renewed credentials (run %s): %s", self.job_id, self.run_id, error)
        else:
            _log.info("%s: has renewed credentials (run %s): %s", self.job_id, self.run_id, ", ".join(sorted(files)))

    def _checkpoint_kept(self, kept: CheckpointKept) -> None:
        problem = None
        if kept.error:
            _log.error(
                "%s: the shadow could not store the checkpoint of run %s: %s", self.job_id, self.run_id, kept.error
            )
            problem = held(kept.error, kept.hold_code, kept.hold_subcode) if kept.hold_code else None
        self.on(events.CheckpointStored(problem))

    # ---- from the keeper

    def notice(self, what: str) -> None:
        """Process a notice of the keeper."""
        self.keeper.notice(what)

    def job_started(self, pid: int) -> None:
        """The job executes."""
        if self.state.phase is Phase.STARTING:  # a notice that comes late says when it was read, no more
            self.job.started_at = self.host.clock.now()
        self.on(events.Started(pid))
        self.live.follow()
        self.ask_runtime()

    def ask_runtime(self) -> None:
        """Have the runtime report what it knows of the job now that it runs."""
        if self.job.choice.runtime != NONE:
            self.begin(self._describe())

    async def _describe(self) -> None:
        with contained(_log, doing_for_run(self.run_id, "asking its runtime about it")):
            found = await self.host.machine.runtimes.describe(
                container_run(self.assignment, self.job, self.pid), self.job.ad
            )
            if found and self.executing:
                self.reported.by_runtime = found
                reporting.update(self)

    def job_suspended(self, *, resumed: bool) -> None:
        """The keeper has suspended or continued the job."""
        self.on(events.Suspended(resumed=resumed))

    def keeper_ended(self, result: KeeperResult) -> None:
        """All processes of the job are gone."""
        if self.state.phase is Phase.STARTING:
            self.job.started_at = result.started_at  # the notice of the start has not come yet
        conclusion.begin(self, result)

    def adopt(self) -> None:
        """Take up a run that a former starter left running."""
        found = self.keeper.adopt()
        self.job.started_at = found.started_at
        phase = Phase.RUNNING if found.pid else Phase.STARTING
        executed = found.pid > 0
        self.state = replace(self.state, phase=phase, pid=found.pid, executed=executed, suspended=found.suspended)

    # ---- actions

    def _do(self, action: actions.Action) -> None:
        match action:
            case actions.RunHook():
                self.begin(self._prepare_transfer())
            case actions.RequestInputs():
                if_needed = self.job.view is not None and self.job.view.transfer.mode == "IF_NEEDED"
                if self.files.asks_for_inputs or if_needed:
                    self.shadow.report(NeedInputs())
            case actions.Launch():
                self.begin(self._launch())
            case actions.Relaunch():
                self.begin(self._relaunch())
            case actions.SendCheckpoint():
                self.begin(outputs.send_checkpoint(self))
            case actions.StopSoft(kill):
                if self.state.phase is Phase.STARTING:
                    self._stop_preparing()
                number, seconds = soft_kill(kill, (self.job.view or NO_JOB).kill)
                wait_s = self.host.vacate_s(self) if seconds is None else seconds
                self.keeper.ask_to_exit(number, wait_s)
            case actions.StopHard():
                self._stop_preparing()
                self.keeper.kill()
            case actions.Pause(resume):
                self.keeper.suspend(resume=resume)
            case actions.ReportPhase():
                reporting.report_phase(self)
            case actions.ReportSuspended(resumed):
                reporting.report_suspension(self, resumed)
            case actions.SendStarted():
                reporting.send_started(self)
            case actions.SendOutputs():
                self.begin(outputs.send_outputs(self))
            case actions.SendEnd():
                reporting.send_end(self)
            case actions.ReportGone():
                reporting.report_slot_free(self)
            case actions.Discard():
                self.discard()

    async def _prepare_transfer(self) -> None:
        try:
            await self.host.preparation.prepare_transfer(self)
        except (OSError, SlotwiseError) as error:
            self.on(events.Failed(failure(error)))
            return
        self.on(events.Prepared(self.job.transfers))

    async def _deferred(self) -> End | None:
        """Wait for the job's deferral time; the end of a run that was killed meanwhile, or came too late."""
        if self.job.view is None or self.job.view.deferral is None:
            return None
        at, window_s = self.job.view.deferral
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
            await self.host.preparation.prepare(self)
            if self._told_to_go:
                raise LaunchRefusedError(killed(self.state.kill or Kill(fast=True)))
            pid = await self.host.spawn(self)
        except (OSError, SlotwiseError) as error:
            # What a killed hook or transfer says is not why the run ends.
            kill = self.state.kill
            self.on(events.Failed(failure(error) if kill is None else killed(kill)))
            return
        self.keeper.watch(pid)

    def note_progress(self, text: str) -> None:
        """Say what is being done for the job before it starts: in the log, in the job's ad, and in its event log."""
        _log.info("%s: %s (run %s)", self.job_id, text, self.run_id)
        self.shadow.report(Update(pack_one({"ContainerImageStatus": text})))
        self.shadow.report(RemoteIo(op="ulog", text=f"{text} on {self.assignment.slot.name}"))

    def log_message(self, text: str) -> None:
        """Have a message of the starter in the job's event log (event 21, no error)."""
        self.shadow.report(RemoteIo(op="message", text=text))
        if self.user_log is not None:
            self.user_log.message(text, self.host.clock.now())

    async def prepare_image(self, work: Coroutine[object, object, ContainerJob]) -> ContainerJob:
        """Wait until the job's image is available, or the job is killed.

        :raises LaunchRefusedError: when the image cannot be had, or the job has been killed meanwhile.
        """
        self._preparation = asyncio.ensure_future(work)
        try:
            return await self._preparation
        except asyncio.CancelledError:
            if self._told_to_go:
                raise LaunchRefusedError(killed(self.state.kill or Kill(fast=True))) from None
            raise
        finally:
            self._preparation = None

    def _stop_preparing(self) -> None:
        """End what runs for a job that does not execute yet."""
        self.programs.end()
        if self._preparation is not None:
            self._preparation.cancel()

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

    # ---- work in the background

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Let work of this run go on by itself."""
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

    async def settle(self) -> None:
        """Wait a little for what the run has begun to do."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2.0)

    # ---- the end

    def discard(self) -> None:
        """Clean up, and forget the run."""
        self.begin(self._discard())

    async def _discard(self) -> None:
        self.output_turn.lose()
        with contained(_log, f"{self.job_id}: cleaning up after run {self.run_id}", self._not_cleaned):
            await self._clean_up()
        self.host.forget(self)

    def _not_cleaned(self, _error: Exception) -> None:
        """The starter failed at cleaning up: that is tried again, and the link forgets the run."""
        self.shadow.drop()
        self.host.clean_later(self)

    async def _clean_up(self) -> None:
        self.keeper.close()
        self.live.stop()
        self.programs.end()
        self.sessions.leave()
        self.files.close_inbox()
        self.common.leave()
        await self.common.settle()
        self.shadow.drop()
        problems = await self.host.dispose(self)
        if problems:
            _log.error("%s: could not clean up after run %s: %s", self.job_id, self.run_id, "; ".join(problems[:5]))
            code, reason = CANNOT_CLEAN_VOLUME if self.scratch.volume is not None else CANNOT_CLEAN
            left = self.host.leftovers.note(self.run_id, self.assignment.slot, code, f"{reason}: {problems[0]}")
            free = SlotFree(how="failed", broken=True, reason=problems[0], left=left)
            self.host.startd.report(self.run_id, free)
