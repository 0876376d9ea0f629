"""One run: does what the lifecycle decides, and tells it what happened."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from dataclasses import replace
from typing import Any

from slotwise.classad import ClassAd
from slotwise.errors import SlotwiseError
from slotwise.starter import launcher, report, transfer
from slotwise.starter import lifecycle as life
from slotwise.starter.ads import memory_usage_expression, pack_one, text, unpack_one
from slotwise.starter.facts import JobFacts, SlotFacts
from slotwise.starter.failures import NO_JOB, LaunchRefusedError, failure, scratch_failure
from slotwise.starter.keeper_spec import (
    Identity,
    KeeperResult,
    KeeperSpec,
    read_result,
    read_state,
    read_usage,
)
from slotwise.starter.leftovers import CANNOT_CLEAN, CANNOT_CLEAN_VOLUME, CANNOT_KILL
from slotwise.starter.lifecycle import Phase, RunState
from slotwise.starter.report import Disk, Moment
from slotwise.starter.run_host import Host
from slotwise.starter.scratch import RunDirectory
from slotwise.starter.shadow_link import ShadowLink
from slotwise.starter.verdict import (
    MISSED_DEFERRED_TIME,
    TRANSFER_INPUT_ERROR,
    End,
    How,
    Kill,
    MemoryRule,
    held,
    killed,
)
from slotwise.starter.volumes import Volume
from slotwise.wire.gen import common_pb2, schedd_pb2, starter_pb2

_log = logging.getLogger(__name__)


#: Jobs shorter than this are not worth a walk through their scratch directory, seconds.
LONG_ENOUGH_S = 2.0


class Run:
    """A run and its parts. All methods are for the event loop's thread."""

    def __init__(self, host: Host, run_id: str, slot: SlotFacts, machine_ad: ClassAd, directory: RunDirectory) -> None:
        self.host = host
        self.run_id = run_id
        self.slot = slot
        self.machine_ad = machine_ad
        self.directory = directory
        self.state = RunState()
        self.token = ""
        self.lease_s = 0.0
        self.shadow_address = ""
        self.link: ShadowLink | None = None
        self.accepted = False
        self.lost_at: float | None = None
        # Known once the shadow has accepted the run:
        self.job_ad = ClassAd({})
        self.job: JobFacts | None = None
        #: Why the run cannot be had here at all, found out before the shadow was asked.
        self.obstacle: End | None = None
        self.identity = Identity()
        self.transfers = True
        self.limits: dict[str, Any] = {}
        self.memory = MemoryRule()
        self.cgrouped = False
        self.spec: KeeperSpec | None = None
        self.inbox: transfer.Inbox | None = None
        self.before: transfer.Listing = {}
        self.result: KeeperResult | None = None
        self.disk = Disk()
        self.started_at = 0.0
        self.bytes_sent = 0
        self.volume: Volume | None = None
        self.next_update_at = 0.0
        self.next_disk_at = 0.0
        self.next_startd_update_at = 0.0
        self._watch: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- events in

    def on(self, event: life.Event) -> None:
        """Let something have happened, and do what follows from it."""
        state, actions = life.step(self.state, event, self.job or NO_JOB)
        if state.phase is not self.state.phase:
            _log.debug("run %s: %s -> %s", self.run_id, self.state.phase, state.phase)
        self.state = state
        for action in actions:
            self._do(action)

    def hello(self) -> schedd_pb2.RunHello | None:
        """The greeting on a new stream."""
        self.accepted = False
        known = self.job is not None
        return schedd_pb2.RunHello(token=self.token, slot_name=self.slot.name, resume=known)

    def link_lost(self) -> None:
        """The shadow's stream broke."""
        self.lost_at = self.host.clock.now()
        self.accepted = False
        if self.inbox is not None:
            self.inbox.close()
        self.on(life.LinkLost())

    def hear(self, message: schedd_pb2.ShadowMessage) -> None:
        """The shadow said something."""
        what = message.WhichOneof("what")
        if what == "accepted":
            self._accepted(message.accepted)
        elif what == "input":
            self._take_input(message.input)
        elif what == "inputs_complete":
            self._inputs_complete(message.inputs_complete)
        elif what == "ack":
            self.on(life.Acked())
        elif what == "refused":
            _log.info("run %s: refused by the shadow: %s", self.run_id, message.refused.reason)
            self.on(life.Unwanted(tell_startd=True))
        elif what == "kill":
            kill = message.kill
            wish = Kill(fast=kill.fast, reason=kill.reason, code=kill.reason_code, want_outputs=kill.want_outputs)
            self.on(life.KillAsked(wish))

    def notice(self, what: str) -> None:
        """The keeper said something."""
        word, _, rest = what.partition(" ")
        if word == "started":
            self.started_at = self.host.clock.now()
            self.on(life.Started(int(rest or 0)))
        elif word == "ended":
            self._take_result()
        elif word in ("suspended", "continued"):
            self.on(life.Suspended(resumed=word == "continued"))

    def _accepted(self, accepted: schedd_pb2.RunAccepted) -> None:
        self.accepted = True
        self.lost_at = None
        if self.job is not None:
            self._resume_inputs()
            self.on(life.LinkBack(self.transfers))
            return
        try:
            if self.obstacle is not None:
                raise LaunchRefusedError(self.obstacle)
            self.host.understand(self, unpack_one(accepted.job_ad))
            if self.transfers:
                self._resume_inputs()
        except (OSError, SlotwiseError) as error:
            self.job = self.job or NO_JOB
            self.on(life.Failed(failure(error)))
            return
        self.on(life.Accepted(self.transfers))

    def _resume_inputs(self) -> None:
        if self.state.phase in (Phase.OFFERED, Phase.INPUT):
            if self.inbox is not None:
                self.inbox.close()
            self.inbox = transfer.Inbox(self.directory.scratch, self.identity)

    def _take_input(self, piece: schedd_pb2.FilePiece) -> None:
        if self.state.phase is not Phase.INPUT or self.inbox is None:
            return
        try:
            self.inbox.take(piece)
        except OSError as error:
            reason = (
                f"Transfer input files failure at execution point while receiving files. "
                f"Details: writing to file {piece.name}: (errno {error.errno}) {error.strerror}"
            )
            self.on(life.InputsDone(reason, TRANSFER_INPUT_ERROR, error.errno or 0))
        except SlotwiseError as error:
            self.on(life.InputsDone(str(error), TRANSFER_INPUT_ERROR, errno.EINVAL))

    def _inputs_complete(self, complete: schedd_pb2.InputsComplete) -> None:
        if self.inbox is not None:
            self.inbox.close()
        self.on(life.InputsDone(complete.error, complete.hold_code, complete.hold_subcode))

    def _take_result(self) -> None:
        result = read_result(self.directory.control)
        if result is None or self.result is not None:
            return
        self.result = result
        self._stop_watching()
        if self.host.disks.checks(self) or result.ended_at - result.started_at > LONG_ENOUGH_S:
            self._start(self._conclude(result))
        else:
            self._judge(result, None)

    async def _conclude(self, result: KeeperResult) -> None:
        """A job that failed beside a full disk is held for the disk."""
        self.disk = await self.host.disks.measure(self)
        full = self.host.disks.over_limit(self) or self.host.disks.failed_by_pool(self)
        self._judge(result, None if result.how == "exited" and result.code == 0 else full)

    def _judge(self, result: KeeperResult, overruled: End | None) -> None:
        if result.leftovers:
            _log.error("run %s: processes or cgroups of the job could not be removed", self.run_id)
        for limit in result.unenforced:
            _log.warning("run %s: the host refused a limit: %s", self.run_id, limit)
        self.on(life.KeeperEnded(result, self.memory, self.job or NO_JOB, overruled))

    # ---- the keeper's own end

    def watch(self, pid: int) -> None:
        """See to it that the keeper's end is noticed even if it cannot tell."""
        if self.result is None:
            self._watch = launcher.watch_exit(pid, self._keeper_gone)
            if self._watch is None:
                self._keeper_gone()

    def _stop_watching(self) -> None:
        if self._watch is not None:
            launcher.unwatch(self._watch)
            self._watch = None

    def _keeper_gone(self) -> None:
        self._stop_watching()
        if self.result is None:
            self._start(self._find_out())

    async def _find_out(self) -> None:
        """The keeper is gone: its result, or (killed before it could leave one) the end of its family."""
        if read_result(self.directory.control) is None:
            loop = asyncio.get_running_loop()
            found, names = await loop.run_in_executor(None, launcher.sweep, self.directory.control)
            _log.warning("run %s: its keeper died; family %s %s", self.run_id, found, " ".join(names))
        self._take_result()

    # ---- actions

    def _do(self, action: life.Action) -> None:
        match action:
            case life.AskInputs():
                if self.job is not None and self.job.transfer.mode == "IF_NEEDED":
                    self._say(need_input=schedd_pb2.FileNeed(window=0))
            case life.Launch():
                self._start(self._launch())
            case life.StopSoft(number, seconds):
                wait_s = self.host.vacate_s(self) if seconds is None else seconds
                launcher.command(self.directory.control, f"soft {number} {wait_s}")
            case life.StopHard():
                launcher.command(self.directory.control, "hard")
            case life.Pause(resume):
                launcher.command(self.directory.control, "continue" if resume else "suspend")
            case life.TellPhase():
                running = starter_pb2.JobRunning(pid=self.state.pid, phase=str(self.state.phase))
                self.host.board.post(starter_pb2.JobEvent(run_id=self.run_id, running=running))
            case life.TellSuspended(resumed):
                told = starter_pb2.JobSuspended(resumed=resumed)
                self.host.board.post(starter_pb2.JobEvent(run_id=self.run_id, suspended=told))
                self.update()
            case life.SendStarted():
                self._send_started()
            case life.SendOutputs():
                self._start(self._send_outputs())
            case life.SendEnd():
                self._send_end()
            case life.TellGone():
                self._tell_gone()
            case life.Discard():
                self._start(self._discard())

    async def settle(self) -> None:
        """Wait a little for what the run has begun to do."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2.0)

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
            _log.error("run %s: %s", self.run_id, error, exc_info=error)

    def _say(self, **what: Any) -> None:
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
            if self.state.kill is not None or self.state.unwanted:
                return killed(self.state.kill or Kill(fast=True))
            await asyncio.sleep(min(left, 0.2))
        return None

    async def _launch(self) -> None:
        end = await self._deferred()
        if end is not None:
            self.on(life.Failed(end))
            return
        try:
            if self.transfers and self.job is not None and self.job.transfer.output_files is None:
                self.before = transfer.listing(self.directory.scratch, self.identity)
            self.spec = await self.host.prepare(self)
            pid = await self.host.spawn(self)
        except (OSError, SlotwiseError) as error:
            self.on(life.Failed(failure(error)))
            return
        self.watch(pid)

    def _send_started(self) -> None:
        started = schedd_pb2.RunStarted(
            pid=self.state.pid,
            scratch_dir=str(self.directory.scratch),
            at=int(self.started_at),
            slot_properties=pack_one({"CondorScratchDir": str(self.directory.scratch), "Cpus": self.slot.cpus}),
        )
        self._say(started=started)

    async def _send_outputs(self) -> None:
        """Send what goes back; a break of the stream leaves it for the next time."""
        job = self.job
        if job is None or not self.transfers:
            self.on(life.OutputsSent())
            return
        only_streams = self.state.outputs == "streams"
        try:
            chosen = transfer.choose(job, self.directory.scratch, self.before, self.identity, streams_only=only_streams)
            large = sum(output.size for output in chosen) > 4 * transfer.PIECE
            pieces = transfer.pieces(chosen, self.identity)
            loop = asyncio.get_running_loop()
            while True:
                piece = await loop.run_in_executor(None, next, pieces, None) if large else next(pieces, None)
                if piece is None:
                    break
                if self.link is None or not self.accepted:
                    return
                message = schedd_pb2.StarterMessage(run_id=self.run_id, output=piece)
                if not await self.link.send_piece(message):
                    return
                self.bytes_sent += len(piece.data)
        except transfer.OutputError as error:
            self.on(life.OutputsSent(error.end))
            return
        except OSError as error:
            self.on(life.OutputsSent(scratch_failure(error)))
            return
        self.on(life.OutputsSent())

    def _moment(self) -> Moment:
        return Moment(
            now=self.host.clock.now(),
            started_at=self.started_at,
            pid=self.state.pid,
            suspended=self.state.suspended,
            cgroup=self.cgrouped,
            bytes_received=self.inbox.received if self.inbox is not None else 0,
            bytes_sent=self.bytes_sent,
        )

    def _send_end(self) -> None:
        end = self.state.end
        if end is None:
            return
        limit = self.memory.limit_mib
        attributes = report.end_attributes(end, self.result, self.disk, self._moment(), limit)
        attributes["MemoryUsage"] = memory_usage_expression()
        at = self.result.ended_at if self.result is not None and self.result.ended_at else self.host.clock.now()
        self._say(
            ended=schedd_pb2.RunEnded(
                how=str(end.how),
                code=end.code,
                ad=pack_one(attributes),
                reason=end.reason,
                reason_code=end.reason_code,
                reason_subcode=end.reason_subcode,
                at=int(at),
                core_dumped=end.core,
            )
        )

    def _tell_gone(self) -> None:
        end = self.state.end
        how = {How.EXITED: "exited", How.SIGNALED: "exited", How.HELD: "held", How.EVICTED: "evicted"}
        usage = self.result.usage if self.result is not None else None
        left = None
        if self.result is not None and self.result.leftovers:
            left = self.host.left.note(self.run_id, self.slot, *CANNOT_KILL)
        gone = starter_pb2.JobGone(
            how=how.get(end.how, "failed") if end is not None else "evicted",
            broken=left is not None,
            left=left,
            reason=end.reason if end is not None else "",
            code=(end.code if end.by_itself else end.reason_code) if end is not None else 0,
            cpu_s=usage.user_s + usage.system_s if usage is not None else 0.0,
        )
        self.host.board.post(starter_pb2.JobEvent(run_id=self.run_id, gone=gone))

    async def _discard(self) -> None:
        self._stop_watching()
        if self.link is not None:
            self.link.drop(self.run_id)
        problems = await self.host.dispose(self)
        if problems:
            _log.error("run %s: could not be removed: %s", self.run_id, "; ".join(problems[:5]))
            code, reason = CANNOT_CLEAN_VOLUME if self.volume is not None else CANNOT_CLEAN
            left = self.host.left.note(self.run_id, self.slot, code, f"{reason}: {problems[0]}")
            gone = starter_pb2.JobGone(how="failed", broken=True, reason=problems[0], left=left)
            self.host.board.post(starter_pb2.JobEvent(run_id=self.run_id, gone=gone))
        self.host.forget(self)

    # ---- while it runs

    def update(self) -> None:
        """Tell shadow and startd what the job uses."""
        usage = read_usage(self.directory.control)
        attributes = report.usage_attributes(usage, self.disk, self._moment())
        attributes["MemoryUsage"] = memory_usage_expression()
        pack = pack_one(attributes)
        self._say(update=common_pb2.AdBatch(pack=pack))
        self.tell_startd_usage(pack)
        with contextlib.suppress(OSError):
            fresh = self.directory.update_ad.with_suffix(".ad.tmp")
            fresh.write_text(text(ClassAd(attributes)))
            fresh.rename(self.directory.update_ad)

    def tell_startd_usage(self, pack: bytes | None = None) -> None:
        """Tell the startd what the job uses, for its policy."""
        if pack is None:
            usage = read_usage(self.directory.control)
            attributes = report.usage_attributes(usage, self.disk, self._moment())
            attributes["MemoryUsage"] = memory_usage_expression()
            pack = pack_one(attributes)
        batch = common_pb2.AdBatch(pack=pack)
        self.host.board.post(starter_pb2.JobEvent(run_id=self.run_id, usage=batch))

    def take_over(self) -> None:
        """The keeper had ended before this starter began: take its result."""
        self._take_result()

    def adopt(self) -> None:
        """Take up a run that a former starter left running."""
        state = read_state(self.directory.control)
        pid = int(state.get("pid", 0))
        self.started_at = float(state.get("started_at", 0.0))
        suspended = state.get("suspended") == "1"
        phase = Phase.RUNNING if pid else Phase.STARTING
        self.state = replace(self.state, phase=phase, pid=pid, suspended=suspended)
