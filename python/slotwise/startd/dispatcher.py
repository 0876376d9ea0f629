"""Turns the execution point's decisions into messages, commands and rows: journal first, then everybody else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from slotwise.classad.values import number
from slotwise.clock import Clock
from slotwise.daemon.containment import cause, contained
from slotwise.ids import doing_for_run
from slotwise.model.resources import Resources
from slotwise.model.slot import HOLD_BY_STARTD, BrokenCode, VacateCode
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.host.hook_calls import HookCall
from slotwise.startd.host.outbox import (
    ActivatedRun,
    Ended,
    EndNoted,
    Forget,
    Freeze,
    Granted,
    Kill,
    Measured,
    Noted,
    NowIn,
    Outbox,
    Refused,
    RefusedRun,
    RepairNoted,
    Start,
    ToSchedd,
    ToStarter,
)
from slotwise.startd.job_history import JobHistory, JobHistorySettings, history_ad
from slotwise.startd.journal import Journal
from slotwise.startd.records.breakage import Breakage
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot.states import Cause, Claimed, Cleaning, Suspended
from slotwise.startd.slot_ad.owner_load import smoothed
from slotwise.startd.start_params import limits_of
from slotwise.table import pack_ads, unpack_ads
from slotwise.wire.gen import common_pb2, startd_pb2, starter_pb2

_log = logging.getLogger(__name__)

#: The starter is asked for its runs after failures at most so often (seconds).
_LIST_AGAIN_S = 1.0

#: A stream's own queue of events for its schedd.
Send = Callable[[list[startd_pb2.ClaimEvent]], None]


class Dispatcher:
    """Holds the execution point at the edge. All calls come from the event loop's thread."""

    def __init__(self, point: ExecutionPoint, journal: Journal, clock: Clock) -> None:
        self.point = point
        self.journal = journal
        self.clock = clock
        self.streams: dict[str, Send] = {}
        #: Ends the stream of claims of a schedd, by its name.
        self.ends: dict[str, Callable[[], None]] = {}
        #: Ends each open stream of claims, in an orderly way.
        self.hang_up: dict[object, Callable[[], None]] = {}
        self.send_starter: Callable[[starter_pb2.JobCommand], None] = lambda command: None
        #: Runs whose start still waits for a stream to the starter.
        self.unsent_starts: Callable[[], set[str]] = set
        self.starter_address: Callable[[], str] = lambda: ""
        self.ads_changed: Callable[[], None] = lambda: None
        self.slots_changed: Callable[[], None] = lambda: None
        self.benchmarks: Callable[[bool], None] = lambda run: None
        self.completed: Callable[[str], None] = lambda action: None
        self.filler: Callable[[str, str], None] = lambda name, what: None
        #: A hook is to hear of fetched work; and fetches are settled.
        self.hook: Callable[[HookCall], None] = lambda call: None
        self.fetched: Callable[[list[str]], None] = lambda call_ids: None
        self.history = JobHistory(JobHistorySettings())
        self.wake = asyncio.Event()
        #: Slots whose ads have yet to be advertised, and those that are gone.
        self.unsent: dict[str, None] = {}
        self.gone: dict[str, None] = {}
        #: The startd's own ad is to be sent with them.
        self.own_ad = False
        #: Runs that the starter was told to start, or listed.
        self.told: set[str] = set()
        #: Runs that the starter was asked for on a stream that stands; None: it was not asked.
        self._listing: set[str] | None = None
        #: When it was, or is to be, asked for them last, on the loop's clock.
        self._list_at: float | None = None
        #: Drains as the journal has them.
        self._kept = point.drain.durable()

    def flush(self) -> None:
        """Save what changed, then say and do what was decided."""
        point = self.point
        for part in (point.backfill_slots, point.drain, point.claim_ids):
            with contained(_log, f"settling {type(part).__name__}"):
                part.settle(self.clock.now())
        out = point.take_outbox()
        with contained(_log, "writing the journal", partial(self._not_saved, out)):
            self._save(out)
        for entry in out.transitions:
            _log.log(logging.DEBUG if entry.routine else logging.INFO, "%s", entry)
        self._to_schedds(out.schedds)
        for command in out.starter:
            names = [command.slot_name] if isinstance(command, Start) else point.slots.names_of_run(command.run_id)
            with contained(_log, "passing a command to the starter", partial(self.abandon, names)):
                self._to_starter(command)
        with contained(_log, "what follows a change of slots"):
            self._follow(out)

    def _save(self, out: Outbox) -> None:
        """Write down what changed.

        :raises HostError: when the journal cannot be written.
        """
        point = self.point
        if out.dirty or out.removed or out.hooks or out.fetched:
            changed = [point.slots[name] for name in out.dirty if name in point.slots]
            self.journal.save(
                changed, [name for name in (*out.dirty, *out.removed) if name not in point.slots],
                out.hooks, out.fetched,
            )  # fmt: skip
        if (state := point.drain.durable()) != self._kept:
            self.journal.remember("drain", point.drain.saved())
            self._kept = state

    def _not_saved(self, out: Outbox, error: Exception) -> None:
        """The claims would not survive a restart now; the next flush tries again. Hooks hear of nothing, and results of
        hooks are not cleared away, until they are in the journal."""
        self.point.outbox.dirty.update(out.dirty)
        self.point.outbox.dirty.update(out.removed)
        self.point.outbox.hooks += out.hooks
        self.point.outbox.fetched += out.fetched
        out.hooks, out.fetched = [], []

    def _follow(self, out: Outbox) -> None:
        """Tell the others in this process."""
        for name in out.removed:
            self.gone[name] = None
            self.unsent.pop(name, None)
        for name in out.changed:
            self.gone.pop(name, None)
            self.unsent[name] = None
        self.own_ad = self.own_ad or out.own_ad
        if out.changed or out.removed:
            self.ads_changed()
            self.slots_changed()
            self.wake.set()
        if out.benchmarks is not None:
            self.benchmarks(out.benchmarks)
        if out.completion:
            self.completed(out.completion)
        for name, what in out.fillers:
            self.filler(name, what)
        for call in out.hooks:
            self.hook(call)
        if out.fetched:
            self.fetched(out.fetched)

    def abandon(self, names: Iterable[str], error: Exception) -> None:
        """A message about these slots could not be processed: their claims end, and the starter is asked what runs."""
        reason = f"The execution point failed to process a message: {cause(error)}"
        self.point.faults.abandon(names, Cause(VacateCode.EXCEPTION, reason, fast=True), self.clock.now())
        loop = asyncio.get_running_loop()
        loop.call_soon(self.flush)
        if self._list_at is None or loop.time() >= self._list_at:
            self._list_at = max(loop.time(), (self._list_at or 0.0) + _LIST_AGAIN_S)
            loop.call_at(self._list_at, self._ask_for_list)

    def _ask_for_list(self) -> None:
        self._listing = {record.slot.run.run_id for record in self.point.slots if record.slot.run is not None}
        self.send_starter(starter_pb2.JobCommand(list=starter_pb2.ListJobs()))

    def touch_all(self) -> None:
        """Every slot's ad is to be sent again."""
        for name in self.point.slots.names():
            self.point.outbox.advertise(name)

    # ------------------------------------------------------------------------------------------------------- schedds

    def _to_schedds(self, messages: list[ToSchedd]) -> None:
        by_schedd: dict[str, list[startd_pb2.ClaimEvent]] = {}
        for message in messages:
            if message.schedd in self.streams:
                recover = partial(self._not_told, message)
                with contained(_log, f"a message to the schedd {message.schedd}", recover):
                    by_schedd.setdefault(message.schedd, []).append(self._event(message))
        for schedd, events in by_schedd.items():
            self.streams[schedd](events)

    def _not_told(self, message: ToSchedd, error: Exception) -> None:
        """The schedd misses a message: what that was about ends, and on another stream both sides compare what is."""
        granted = message.what.slots if isinstance(message.what, Granted) else ()
        names = [
            self.point.claim_ids.by_id.get(claim_id) for claim_id in (message.claim_id, *(slot[0] for slot in granted))
        ]
        self.abandon([name for name in names if name is not None], error)
        if (end := self.ends.get(message.schedd)) is not None:
            end()

    def _event(self, message: ToSchedd) -> startd_pb2.ClaimEvent:
        event = startd_pb2.ClaimEvent(serial=message.serial, claim_id=message.claim_id)
        match message.what:
            case Granted(slots, leftover, leftover_slot):
                for claim_id, name in slots:
                    event.granted.slots.append(
                        startd_pb2.GrantedSlot(claim_id=claim_id, slot_name=name, slot_ad=self.slot_pack(name))
                    )
                if leftover:
                    event.granted.leftover_claim_id = leftover
                    event.granted.leftover_slot_ad = self.slot_pack(leftover_slot)
            case Refused(code, reason):
                event.refused.code, event.refused.reason = code, reason
            case ActivatedRun(run_id):
                event.activated.run_id = run_id
                event.activated.starter_address = self.starter_address()
            case RefusedRun(run_id, code, reason):
                event.activation_refused.run_id = run_id
                event.activation_refused.code, event.activation_refused.reason = code, reason
            case NowIn(state, activity, at, run_id):
                event.state.state, event.state.activity = state, activity
                event.state.at, event.state.run_id = at, run_id
            case Ended(cause):
                event.ended.reason, event.ended.reason_code = cause.reason, cause.code
                event.ended.reason_subcode, event.ended.hold = cause.subcode, cause.hold
        return event

    def slot_pack(self, name: str) -> bytes:
        """A slot's ad for the wire; empty when the slot has gone meanwhile."""
        record = self.point.slots.get(name)
        return pack_ads([record.ad]) if record is not None else b""

    # ------------------------------------------------------------------------------------------------------- starter

    def _to_starter(self, command: ToStarter) -> None:
        match command:
            case Start(slot_name, run_id):
                self._start(slot_name, run_id)
            case Kill(run_id, fast, cause, vacate_s):
                kill = starter_pb2.KillJob(
                    fast=fast, reason=cause.reason, reason_code=HOLD_BY_STARTD if cause.hold else cause.code,
                    reason_subcode=cause.subcode, vacate_s=int(min(vacate_s, 2**31 - 1)), hold=cause.hold,
                )  # fmt: skip
                self.send_starter(starter_pb2.JobCommand(run_id=run_id, kill=kill))
            case Freeze(run_id, resume):
                self.send_starter(starter_pb2.JobCommand(run_id=run_id, suspend=starter_pb2.SuspendJob(resume=resume)))
            case Forget(run_id):
                self.send_starter(starter_pb2.JobCommand(run_id=run_id, forget=starter_pb2.ForgetJob()))
            case Measured(run_id, attributes):
                batch = common_pb2.AdBatch(pack=pack_ads([attributes]))
                self.send_starter(starter_pb2.JobCommand(run_id=run_id, slot_usage=batch))
            case EndNoted(run_id):
                self.send_starter(starter_pb2.JobCommand(run_id=run_id, end_noted=starter_pb2.EndNoted()))
            case Noted(run_id):
                self.send_starter(starter_pb2.JobCommand(run_id=run_id, left_noted=starter_pb2.LeftNoted()))
            case RepairNoted(run_id):
                self.send_starter(starter_pb2.JobCommand(run_id=run_id, repair_noted=starter_pb2.RepairNoted()))

    def _start(self, slot_name: str, run_id: str) -> None:
        record = self.point.slots.get(slot_name)
        if record is None or record.activation is None or record.activation.run_id != run_id:
            return
        self.point.ads.show(record, self.clock.now())
        claim = record.slot.claim
        self.told.add(run_id)
        self.send_starter(
            starter_pb2.JobCommand(
                run_id=run_id,
                start=starter_pb2.StartJob(
                    job_ad=record.activation.job.pack,
                    slot_ad=pack_ads([record.ad]),
                    slot_name=record.name,
                    run_token=record.activation.run_token,
                    shadow_address=record.activation.shadow_address,
                    limits=pack_ads([limits_of(record, self.point.settings.config, self.point.settings.limits)]),
                    lease_s=int(claim.lease_s) if claim else 0,
                    fetched_for=str(record.activation.job.values.get("User", "")) if record.activation.fetched else "",
                ),
            )
        )

    def starter_events(self, events: list[starter_pb2.JobEvent]) -> None:
        """What the starter tells about runs."""
        now = self.clock.now()
        for event in events:
            what = event.WhichOneof("what")
            recover = partial(self._event_failed, event, self.point.slots.names_of_run(event.run_id))
            with contained(_log, doing_for_run(event.run_id, f"processing {what!r} of the starter"), recover):
                self._starter_event(event, now)
        self.flush()

    def _event_failed(self, event: starter_pb2.JobEvent, names: list[str], error: Exception) -> None:
        if not event.run_id:
            return
        self.abandon(names, error)
        if event.WhichOneof("what") in ("gone", "refused"):  # the starter does not have the run any more
            self.point.claims.run_gone(event.run_id, self.clock.now())

    def _starter_event(self, event: starter_pb2.JobEvent, now: float) -> None:
        what = event.WhichOneof("what")
        run_id = event.run_id
        if what == "gone":
            self.told.discard(run_id)
            self._note_end(run_id, event.gone.how, now)
            self.point.ads.statistics.transferred(event.gone.bytes_received, event.gone.bytes_sent)
            if event.gone.broken:
                left = event.gone.left if event.gone.HasField("left") else starter_pb2.JobLeft(run_id=run_id)
                self._left(left, now, finished=event.gone.finished)
            else:
                finished = event.gone.finished
                self.point.claims.run_gone(run_id, now, finished=finished, reason=event.gone.reason)
            if event.gone.fetched:
                self.point.outbox.starter.append(EndNoted(run_id))
        elif what == "refused":
            self.told.discard(run_id)
            self._refused_run(run_id, event.refused.reason, now)
        elif what == "usage":
            self._usage(run_id, event.usage.pack, now)
        elif what == "host_facts":
            self._host_facts(event.host_facts.pack, now)
        elif what == "mended":
            self._repaired(run_id, now)
        elif what == "jobs":
            asked_of, self._listing = self._listing, None
            self.starter_lists(event.jobs, asked_of)

    def _note_end(self, run_id: str, how: str, now: float) -> None:
        """The history of this execution point gets the job that ended."""
        record = self.point.slots.of_run(run_id)
        if (
            self.history.is_kept
            and record is not None
            and record.activation is not None
            and record.activation.run_id == run_id
        ):
            began = record.slot.run.activated_at if record.slot.run is not None else now
            self.history.add(history_ad(record.activation.job.ad, record.name, how, began, now))

    def _repaired(self, run_id: str, now: float) -> None:
        """The leftovers of a run are gone; the starter reports it until it hears that the journal has it."""
        self.point.broken_slots.repaired(run_id, now)
        self.point.outbox.starter.append(RepairNoted(run_id))

    def _left(self, left: starter_pb2.JobLeft, now: float, *, finished: bool = False) -> None:
        """A run left something behind; the starter tells it until it hears that the journal has it."""
        reason, code = left.reason or "Could not clean up after job", left.code or BrokenCode.UNCLEAN
        if code == BrokenCode.HUNG_PROCESS and not self.point.settings.unkillable_break:
            _log.error("%s: %s (run %s); the slot stays in use", left.slot_name, reason, left.run_id)
            self.point.claims.run_gone(left.run_id, now, finished=finished)
            self.point.outbox.starter.append(Noted(left.run_id))
            return
        if not self.point.claims.run_gone(left.run_id, now, broken=reason, code=code, finished=finished):
            lent = self.point.settings.resources.shared
            devices = {t: tuple(names.split(",")) for t, names in left.assigned.items() if names and t not in lent}
            amounts = Resources(
                left.cpus, left.memory_mib, left.disk_kib, 0, {tag: len(n) for tag, n in devices.items()}, devices
            )
            breakage = Breakage(reason, code, now, left.run_id)
            self.point.broken_slots.report_leftover(left.slot_name, amounts, breakage, now)
        _log.error("%s is broken: %s (run %s)", left.slot_name, reason, left.run_id)
        self.point.outbox.starter.append(Noted(left.run_id))

    def _refused_run(self, run_id: str, reason: str, now: float) -> None:
        record = self.point.slots.of_run(run_id)
        if record is not None and record.slot.claim is not None:
            claim_id, schedd = record.slot.claim.claim_id, record.terms.schedd_name
            self.point.outbox.schedds.append(ToSchedd(schedd, 0, claim_id, RefusedRun(run_id, 1026, reason)))
        self.point.claims.run_gone(run_id, now, reason=reason)

    def _usage(self, run_id: str, pack: bytes, now: float) -> None:
        record = self.point.slots.of_run(run_id)
        if record is None:
            return
        for ad in unpack_ads(pack):
            for name in ad:
                value = ad.eval(name, None, now=int(now))
                if isinstance(value, bool | int | float | str):
                    record.usage[name] = value
                    if record.activation is not None:  # policies see the job as it is, not as it was submitted
                        record.activation.job.ad[name] = value
        self._load_of(record, now)
        self.point.ads.show(record, now)

    def _load_of(self, record: SlotRecord, now: float) -> None:
        """CondorLoadAvg: a moving average over a minute of what the job's processes use."""
        used = sum(number(record.usage.get(name)) for name in ("RemoteUserCpu", "RemoteSysCpu"))
        began = record.slot.run.activated_at if record.slot.run is not None else now
        before_at, before = record.cpu_seen or (began, 0.0)
        if now > before_at:
            record.condor_load = smoothed(
                record.condor_load, max(0.0, used - before) / (now - before_at), now - before_at
            )
            record.cpu_seen = (now, used)

    def _host_facts(self, pack: bytes, now: float) -> None:
        """What the starter can do for jobs on this host, and what it cannot, goes into every slot's ad."""
        for ad in unpack_ads(pack):
            facts = {name: ad.eval(name, None, now=int(now)) for name in ad}
            facts["CgroupEnforced"] = bool(facts.get("CgroupVersion"))
            facts["IsEnforcingDiskUsage"] = facts.get("EnforcesDisk") == "volume"
            if self.point.ads.starter_abilities != facts:
                self.point.ads.starter_abilities = facts
                self.touch_all()

    def starter_lists(self, jobs: starter_pb2.JobList, asked_of: set[str] | None = None) -> None:
        """The starter told which runs it has: put both sides in agreement.

        :param asked_of: the runs that the starter could know when it was asked; None: all.
        """
        now = self.clock.now()
        listed = {job.run_id for job in jobs.jobs}
        ours = {record.slot.run.run_id: record.name for record in self.point.slots if record.slot.run is not None}
        for left in jobs.left:
            doing = doing_for_run(left.run_id, "counting what it left behind")
            with contained(_log, doing, partial(self.abandon, [left.slot_name])):
                self._left(left, now)
        for run_id in jobs.mended:
            with contained(_log, doing_for_run(run_id, "counting what was repaired"), partial(self.abandon, [])):
                self._repaired(run_id, now)
        for run_id in sorted(listed - ours.keys()):
            self.send_starter(starter_pb2.JobCommand(run_id=run_id, forget=starter_pb2.ForgetJob()))
        for job in jobs.jobs:
            doing = doing_for_run(job.run_id, "seeing whether it is suspended")
            with contained(_log, doing, partial(self.abandon, [job.slot_name])):
                self._agree_on_suspension(job)
        for run_id in sorted(ours.keys() - listed - self.unsent_starts()):
            if asked_of is None or run_id in asked_of:
                doing = doing_for_run(run_id, "processing its end")
                with contained(_log, doing, partial(self.abandon, [ours[run_id]])):
                    self.point.claims.run_gone(run_id, now)
        self.told = listed & ours.keys()
        self.flush()

    def _agree_on_suspension(self, job: starter_pb2.JobListed) -> None:
        """A command to stop a job, or to let it go on, may have been lost with a stream or a starter."""
        record = self.point.slots.of_run(job.run_id)
        if record is None or not isinstance(record.slot.state, Claimed) or record.slot.state.run is None:
            return
        stopped = isinstance(record.slot.state.doing, Suspended)
        if job.suspended != stopped and not isinstance(record.slot.state.doing, Cleaning):
            self.point.outbox.starter.append(Freeze(job.run_id, resume=not stopped))
