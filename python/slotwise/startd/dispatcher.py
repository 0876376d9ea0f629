"""Carries out the execution point's decisions: saves them in the journal first, then sends messages and commands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from msgspec import Struct

from slotwise.clock import Clock
from slotwise.daemon.containment import cause, contained
from slotwise.errors import HostError, InvariantError
from slotwise.ids import doing_for_run
from slotwise.model.slot import VacateCode
from slotwise.observe.outage import Outage
from slotwise.startd import convert
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.host.hook_calls import HookCall
from slotwise.startd.host.outbox import Forget, Granted, Outbox, ShadowMoved, Start, ToSchedd, ToStarter
from slotwise.startd.host.run_reports import RunGone
from slotwise.startd.job_history import JobHistory, JobHistorySettings, history_ad
from slotwise.startd.journal import Journal
from slotwise.startd.records.slot_record import ScheddId
from slotwise.startd.slot.states import Cause
from slotwise.table import pack_ads, unpack_ads
from slotwise.wire.gen import startd_pb2, starter_pb2

_log = logging.getLogger(__name__)

#: The starter is asked for its runs after failures at most so often (seconds).
_LIST_AGAIN_S = 1.0
#: The phase of a run whose job waits for its checkpoint to be safe, as the starter calls it.
_CHECKPOINT = "checkpoint"


class Recipients(Struct, frozen=True):
    """Where decisions go, besides the journal and the schedds."""

    send_starter: Callable[[starter_pb2.JobCommand], None]
    #: Runs whose start still waits for a stream to the starter; and where its shadow reaches the starter.
    unsent_starts: Callable[[], set[str]]
    starter_address: Callable[[], str]
    #: Ads are to be advertised; slots have changed in some way.
    ads_changed: Callable[[], None]
    slots_changed: Callable[[], None]
    #: True: run the benchmarks; False: give them up.
    run_benchmarks: Callable[[bool], None]
    #: The machine is drained: exit, restart, reconfig.
    drained: Callable[[str], None]
    #: ``start`` or ``stop`` the backfill client for a slot.
    run_backfill: Callable[[str, str], None]
    run_hook: Callable[[HookCall], None]
    #: The outcome of these calls of hooks is in the journal.
    fetches_saved: Callable[[list[str]], None]


def _nowhere(*_: object) -> None:
    raise InvariantError("the startd decided something before it was wired")


_NOBODY = Recipients(_nowhere, set, str, _nowhere, _nowhere, _nowhere, _nowhere, _nowhere, _nowhere, _nowhere)


class ScheddStream(Protocol):
    """A schedd's stream of claims."""

    #: Where the schedd answers, as it says itself.
    address: str

    def send(self, messages: list[startd_pb2.ClaimEvent]) -> None:
        """Queue messages for the schedd."""
        ...

    def end(self) -> None:
        """End the stream: no more messages will come."""
        ...


class Dispatcher:
    """Carries out what the execution point decides. All calls come from the event loop's thread."""

    def __init__(self, point: ExecutionPoint, journal: Journal, clock: Clock) -> None:
        self.point = point
        self.journal = journal
        self.clock = clock
        #: The stream of claims of each schedd that is connected.
        self.streams: dict[ScheddId, ScheddStream] = {}
        #: Ends each open stream of claims, in an orderly way.
        self.hang_up: dict[object, Callable[[], None]] = {}
        self.recipients = _NOBODY
        self._outage = Outage(_log)
        self.history = JobHistory(JobHistorySettings())
        self.wake = asyncio.Event()
        #: Slots whose ads have yet to be advertised, and those that have been deleted.
        self.unsent: dict[str, None] = {}
        self.gone: dict[str, None] = {}
        #: Whether the startd's own ad is to be advertised with them.
        self.own_ad = False
        #: The runs that the starter could know when it was asked for its list; None: it was not asked.
        self._listing: set[str] | None = None
        #: When it was, or is to be, asked for them last, on the loop's clock.
        self._list_at: float | None = None
        #: Drains as the journal has them.
        self._kept = point.drain.durable()

    def connect(self, recipients: Recipients) -> None:
        """Pass decisions on to these from now on."""
        self.recipients = recipients

    def flush(self) -> None:
        """Save what changed, then carry out what was decided."""
        point = self.point
        for part in (point.backfill_slots, point.drain, point.claim_ids):
            with contained(_log, f"settling {type(part).__name__}"):
                part.settle(self.clock.now())
        out = point.take_outbox()
        with contained(_log, "writing the journal", partial(self._not_saved, out)):
            try:
                self._save(out)
            except HostError as error:
                self._outage.failed(self.clock.monotonic(), "%s; slots and claims are kept in memory meanwhile", error)
                self._not_saved(out, error)
            else:
                self._outage.over(self.clock.monotonic(), "the startd's journal is written")
        for entry in out.transitions:
            _log.log(logging.DEBUG if entry.routine else logging.INFO, "%s", entry)
        self._to_schedds(out.schedds)
        for command in out.starter:
            with contained(_log, "passing a command to the starter", partial(self.abandon, self._slots_of(command))):
                self._to_starter(command)
        with contained(_log, "what follows a change of slots"):
            self._follow(out)

    def _save(self, out: Outbox) -> None:
        """Save what changed in the journal.

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
        """Keep what could not be saved: the claims would not survive a restart now, and the next flush tries again.

        Hooks are not run, and results of hooks are not removed, until they are in the journal."""
        self.point.outbox.dirty.update(out.dirty)
        self.point.outbox.dirty.update(out.removed)
        self.point.outbox.hooks += out.hooks
        self.point.outbox.fetched += out.fetched
        out.hooks, out.fetched = [], []

    def _follow(self, out: Outbox) -> None:
        """Notify the other parts of the startd."""
        for name in out.removed:
            self.gone[name] = None
            self.unsent.pop(name, None)
        for name in out.changed:
            self.gone.pop(name, None)
            self.unsent[name] = None
        self.own_ad = self.own_ad or out.own_ad
        if out.changed or out.removed:
            self.recipients.ads_changed()
            self.recipients.slots_changed()
            self.wake.set()
        if out.benchmarks is not None:
            self.recipients.run_benchmarks(out.benchmarks)
        if out.completion:
            self.recipients.drained(out.completion)
        for name, what in out.fillers:
            self.recipients.run_backfill(name, what)
        for call in out.hooks:
            self.recipients.run_hook(call)
        if out.fetched:
            self.recipients.fetches_saved(out.fetched)

    def abandon(self, names: Iterable[str], error: Exception) -> None:
        """End the claims on these slots, as a message about them could not be processed; ask the starter what runs."""
        reason = f"The execution point failed to process a message: {cause(error)}"
        self.point.faults.abandon(names, Cause(VacateCode.EXCEPTION, reason, fast=True), self.clock.now())
        loop = asyncio.get_running_loop()
        loop.call_soon(self.flush)
        if self._list_at is None or loop.time() >= self._list_at:
            self._list_at = max(loop.time(), (self._list_at or 0.0) + _LIST_AGAIN_S)
            loop.call_at(self._list_at, self._ask_for_list)

    def _ask_for_list(self) -> None:
        self._listing = {record.slot.run.run_id for record in self.point.slots if record.slot.run is not None}
        self.recipients.send_starter(convert.list_runs())

    def touch_all(self) -> None:
        """Have every slot's ad advertised again."""
        for name in self.point.slots.names():
            self.point.outbox.advertise(name)

    # ------------------------------------------------------------------------------------------------------- schedds

    def _to_schedds(self, messages: list[ToSchedd]) -> None:
        by_schedd: dict[ScheddId, list[startd_pb2.ClaimEvent]] = {}
        for message in messages:
            if message.schedd in self.streams:
                recover = partial(self._not_sent, message)
                with contained(_log, f"a message to the schedd {message.schedd.name}", recover):
                    by_schedd.setdefault(message.schedd, []).append(self._claim_message(message))
        for schedd, sent in by_schedd.items():
            self.streams[schedd].send(sent)

    def _not_sent(self, message: ToSchedd, error: Exception) -> None:
        """The schedd misses a message: end the claim that it was about, and the stream, so that both sides compare."""
        granted = message.what.slots if isinstance(message.what, Granted) else ()
        names = [
            self.point.claim_ids.by_id.get(claim_id) for claim_id in (message.claim_id, *(slot[0] for slot in granted))
        ]
        self.abandon([name for name in names if name is not None], error)
        if (stream := self.streams.get(message.schedd)) is not None:
            stream.end()

    def _claim_message(self, message: ToSchedd) -> startd_pb2.ClaimEvent:
        return convert.claim_event(message, self.slot_pack, self.recipients.starter_address())

    def slot_pack(self, name: str) -> bytes:
        """A slot's packed ad; empty when the slot has been deleted."""
        record = self.point.slots.get(name)
        return pack_ads([record.ad]) if record is not None else b""

    # ------------------------------------------------------------------------------------------------------- starter

    def _slots_of(self, command: ToStarter) -> list[str]:
        """The slots that a command is about."""
        match command:
            case Start(slot_name):
                return [slot_name]
            case ShadowMoved(run_ids):
                return [name for run_id in run_ids for name in self.point.slots.names_of_run(run_id)]
        return self.point.slots.names_of_run(command.run_id)

    def _to_starter(self, command: ToStarter) -> None:
        if not isinstance(command, Start):
            self.recipients.send_starter(convert.command(command))
            return
        record = self.point.slots.get(command.slot_name)
        if record is None or record.activation is None or record.activation.run_id != command.run_id:
            return
        self.point.ads.show(record, self.clock.now())
        start = convert.start(record, self.point.settings)
        if start is not None:
            self.recipients.send_starter(start)

    def starter_reports(self, reports: list[starter_pb2.JobEvent]) -> None:
        """Take in what the starter reports of runs."""
        now = self.clock.now()
        for report in reports:
            what = report.WhichOneof("what")
            recover = partial(self._report_failed, report, self.point.slots.names_of_run(report.run_id))
            with contained(_log, doing_for_run(report.run_id, f"processing {what!r} of the starter"), recover):
                self._starter_report(report, now)
        self.flush()

    def _report_failed(self, report: starter_pb2.JobEvent, names: list[str], error: Exception) -> None:
        if not report.run_id:
            return
        self.abandon(names, error)
        if report.WhichOneof("what") in ("gone", "refused"):  # the starter does not have the run any more
            self.point.claims.run_gone(report.run_id, self.clock.now())

    def _starter_report(self, report: starter_pb2.JobEvent, now: float) -> None:
        reports, run_id = self.point.run_reports, report.run_id
        match report.WhichOneof("what"):
            case "gone":
                ended = convert.run_gone(run_id, report.gone)
                self._add_to_history(ended, now)
                reports.gone(ended, now)
            case "refused":
                reports.refused(run_id, report.refused.reason, now)
            case "running" if report.running.phase == _CHECKPOINT:
                reports.checkpointing(run_id, now)
            case "usage":
                reports.usage(run_id, unpack_ads(report.usage.pack), now)
            case "host_facts":
                for ad in unpack_ads(report.host_facts.pack):
                    if reports.host_facts(ad, now):
                        self.touch_all()
            case "repaired":
                reports.repaired(run_id, now)
            case "jobs":
                asked_of, self._listing = self._listing, None
                self.starter_lists(report.jobs, asked_of)

    def _add_to_history(self, report: RunGone, now: float) -> None:
        """The history of this execution point gets the job that ended."""
        record = self.point.slots.of_run(report.run_id)
        activation = record.activation if record is not None else None
        if not self.history.is_kept or record is None or activation is None or activation.run_id != report.run_id:
            return
        began = record.slot.run.activated_at if record.slot.run is not None else now
        self.history.add(history_ad(activation.job.ad, record.name, report.how, began, now))

    def starter_lists(self, jobs: starter_pb2.JobList, asked_of: set[str] | None = None) -> None:
        """Put both sides in agreement on the runs that the starter has.

        :param asked_of: the runs that the starter could know when it was asked; None: all.
        """
        now, reports = self.clock.now(), self.point.run_reports
        listed = {job.run_id for job in jobs.jobs}
        ours = {record.slot.run.run_id: record.name for record in self.point.slots if record.slot.run is not None}
        for left in jobs.left:
            doing = doing_for_run(left.run_id, "counting what it left behind")
            with contained(_log, doing, partial(self.abandon, [left.slot_name])):
                reports.left_behind(convert.leftover(left), now)
        for run_id in jobs.repaired:
            with contained(_log, doing_for_run(run_id, "counting what was repaired"), partial(self.abandon, [])):
                reports.repaired(run_id, now)
        for run_id in sorted(listed - ours.keys()):
            self.recipients.send_starter(convert.command(Forget(run_id)))
        for job in jobs.jobs:
            doing = doing_for_run(job.run_id, "checking whether it is suspended")
            with contained(_log, doing, partial(self.abandon, [job.slot_name])):
                reports.agree_on_suspension(convert.listed_run(job))
        with contained(_log, "comparing the addresses of shadows", partial(self.abandon, sorted(ours.values()))):
            self.point.schedd_addresses.agree({job.run_id: job.shadow_address for job in jobs.jobs})
        for run_id in sorted(ours.keys() - listed - self.recipients.unsent_starts()):
            if asked_of is None or run_id in asked_of:
                doing = doing_for_run(run_id, "processing its end")
                with contained(_log, doing, partial(self.abandon, [ours[run_id]])):
                    self.point.claims.run_gone(run_id, now)
        self.flush()
