"""The negotiator's gRPC service."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from slotwise.classad import ExprTree
from slotwise.daemon.ad_query import answer
from slotwise.daemon.questions import Questions
from slotwise.errors import BusyError, DeniedError, NotFoundError, UsageError
from slotwise.matchmaking.analysis import analyze
from slotwise.matchmaking.engine import CycleOutcome, Engine
from slotwise.matchmaking.reports import accounting_ads
from slotwise.matchmaking.rows import json_value
from slotwise.matchmaking.snapshot import CycleInput, snapshot_files
from slotwise.negotiator.cycle import Cycles
from slotwise.negotiator.gather import AccessPoint, gather
from slotwise.negotiator.last_input import LastInput
from slotwise.negotiator.schedule import Schedule
from slotwise.table import AdTable, question_most, unpack_ads
from slotwise.wire import call
from slotwise.wire.context import Context
from slotwise.wire.gen import common_pb2, negotiator_pb2, negotiator_pb2_grpc
from slotwise.wire.status import answers_errors

_EDIT = negotiator_pb2.AccountingEdit
_SETTINGS = {_EDIT.FACTOR: "factor", _EDIT.CEILING: "ceiling", _EDIT.FLOOR: "floor"}
_CANCELS = {
    _EDIT.CANCEL_FACTOR_LEASE: "factor",
    _EDIT.CANCEL_CEILING_LEASE: "ceiling",
    _EDIT.CANCEL_FLOOR_LEASE: "floor",
}
_USAGE = {
    _EDIT.ACCUMULATED_USAGE: "weighted_accumulated_usage",
    _EDIT.BEGIN_TIME: "begin_usage_time",
    _EDIT.LAST_TIME: "last_usage_time",
}
_log = logging.getLogger(__name__)
_PIECE = 1024 * 1024
#: How long the copy of the slots from which questions about a cycle now are answered is kept after the last one, in
#: seconds. Another question within that time copies only the slots that have changed since.
_KEPT_S = 300.0
_T = TypeVar("_T")


class NegotiatorServicer(negotiator_pb2_grpc.NegotiatorServicer):
    """Adapts calls to cycles and accounting.

    :param wake: called when the schedule has changed.
    :param edited: called after accounting was edited.
    """

    def __init__(
        self, cycles: Cycles, schedule: Schedule, wake: Callable[[], None], edited: Callable[[], None]
    ) -> None:
        self._cycles = cycles
        self._schedule = schedule
        self._wake = wake
        self._edited = edited
        #: Held by a call that looks at the pool as a cycle would see it now. It does so in a copy of the input, with an
        #: engine of its own: a cycle waits for no more than one such copy to be made.
        self._looking = asyncio.Lock()
        self._copy = LastInput()
        self._forgetting: asyncio.TimerHandle | None = None
        self._engine = Engine()
        self._questions = Questions(cycles.context.clock)

    @property
    def _now(self) -> float:
        return self._cycles.context.clock.now()

    @answers_errors
    async def Reschedule(
        self, request: negotiator_pb2.RescheduleRequest, context: Context
    ) -> negotiator_pb2.RescheduleReply:
        """Run a cycle soon."""
        name, target = request.schedd_name, request.schedd_address
        if name and target and self._cycles.context.authenticator.caller(context).may("ADVERTISE_SCHEDD"):
            self._cycles.asked_by[name] = AccessPoint(name, target)
        self._schedule.ask(self._cycles.context.clock.monotonic(), on_demand=request.on_demand)
        self._wake()
        return negotiator_pb2.RescheduleReply(started=True)

    @answers_errors
    async def Accounting(self, request: common_pb2.AdQuery, context: Context) -> AsyncIterator[common_pb2.AdChunk]:
        """Accounting ads, one per submitter and group.

        :raises DeniedError: as :func:`_require_reader`.
        """
        _require_reader("be shown priorities")
        constraint = ExprTree(request.constraint) if request.constraint else None
        async for chunk in answer(self._questions, [self._accounting_table()], constraint, request):
            yield chunk

    def _accounting_table(self) -> AdTable:
        cycles = self._cycles
        last = cycles.history.cycles[0] if cycles.history.cycles else None
        settings = cycles.settings
        ads = accounting_ads(
            cycles.accounts.records, cycles.accounts.leases, last, settings.name, self._now, settings.default_factor
        )
        table = AdTable()
        for name, ad in ads.items():
            table.upsert(name, ad)
        return table

    @answers_errors
    async def EditAccounting(self, request: negotiator_pb2.AccountingEdit, context: Context) -> common_pb2.Empty:
        """Change settings or usage of a submitter; durable when the call returns."""
        # No need to wait for a cycle: its changes of the accounts are merged with the edits made meanwhile.
        self._edit(request)
        self._cycles.save()
        self._edited()
        return common_pb2.Empty()

    def _edit(self, request: negotiator_pb2.AccountingEdit) -> None:
        accounts, name, what, now = self._cycles.accounts, request.submitter, request.what, self._now
        if what in _SETTINGS:
            accounts.set(name, _SETTINGS[what], request.value, now, request.duration_s)
        elif what in _CANCELS:
            accounts.cancel_lease(name, _CANCELS[what])
        elif what in _USAGE:
            accounts.set_usage(name, _USAGE[what], request.value, now)
        elif what == _EDIT.PRIORITY:
            accounts.set_priority(name, request.value, now)
        elif what == _EDIT.DELETE:
            accounts.delete(name)
        elif what == _EDIT.RESET_USAGE:
            accounts.reset_usage(name, now)
        elif what == _EDIT.RESET_ALL:
            accounts.reset_all(now)
        else:
            raise UsageError(f"no such edit: {what}")

    @answers_errors
    async def Snapshot(
        self, request: negotiator_pb2.SnapshotRequest, context: Context
    ) -> AsyncIterator[negotiator_pb2.SnapshotFile]:
        """Input and outcome of the last cycle with requests, as files; with ``dry_run`` those of a cycle now."""
        if request.dry_run:
            files = await self._of_now(lambda given: _files(given, given.run(Engine())))
        else:
            async with self._cycles.lock:
                kept = self._cycles.last_input.kept
                if kept is None or kept.outcome is None:
                    raise NotFoundError(
                        "no cycle has been asked for anything yet", hint="-now saves what a cycle would be given now"
                    )
                files = await asyncio.to_thread(_files, kept.given, kept.outcome)
        for name, data in files.items():
            for start in range(0, max(1, len(data)), _PIECE):
                yield negotiator_pb2.SnapshotFile(name=name, data=data[start : start + _PIECE])

    @answers_errors
    async def Analyze(self, request: negotiator_pb2.AnalyzeRequest, context: Context) -> negotiator_pb2.AnalyzeReply:
        """Why a job does not run.

        :raises DeniedError: as :func:`_require_reader`.
        """
        _require_reader("have jobs analyzed")
        job = next(iter(unpack_ads(request.job)), None)
        if job is None:
            raise UsageError("which job? There is no ad in the request")
        engine, who = self._engine, call.caller.get()
        try:
            report = await self._of_now(lambda given: analyze(given, job, engine, question_most(len(given.slots))))
        except BusyError as error:
            _log.warning("the analysis of a job that %s asked for is refused: %s", who, error)
            raise
        return negotiator_pb2.AnalyzeReply(json=json.dumps(report))

    async def _of_now(self, work: Callable[[CycleInput], _T]) -> _T:
        """Do something with the input that a cycle would get now; this matches nothing."""
        cycles = self._cycles
        async with self._looking:
            if self._forgetting is not None:
                self._forgetting.cancel()
            self._forgetting = asyncio.get_running_loop().call_later(_KEPT_S, self._forget)
            async with cycles.lock:
                points = cycles.points().values()
                demand = await gather(points, cycles.channels, cycles.context.credential, cycles.asking())
                cycles.in_flight.hear(demand.outcomes, demand.reporting)
                with cycles.slots_to_match() as slots:
                    seen = (0, slots, demand, cycles.knobs, cycles.accounting(), int(self._now))
                    given = await asyncio.to_thread(self._copy.note, *seen)
            return await asyncio.to_thread(work, given)

    def _forget(self) -> None:
        """Give back the memory of the copy of the slots: nobody has looked for a while."""
        self._copy = LastInput()

    @answers_errors
    async def LastCycle(self, request: common_pb2.Empty, context: Context) -> negotiator_pb2.LastCycleReply:
        """The last cycle, as JSON.

        :raises DeniedError: as :func:`_require_reader`.
        """
        _require_reader("be shown the last cycle")
        if not self._cycles.history.cycles:
            raise NotFoundError("no cycle has run yet")
        return negotiator_pb2.LastCycleReply(json=json.dumps(self._cycles.history.cycles[0].as_json()))


def _require_reader(what: str) -> None:
    """See that the caller may read.

    :raises DeniedError: for whoever may only advertise, with a token: a host asks for its users, with its proof.
    """
    caller = call.identity.get()
    if caller is not None and not caller.may("READ") and call.host_token.get() is None:
        raise DeniedError(f"{caller.name} may not {what}: that needs READ, or the proof of a host")


def _files(given: CycleInput, outcome: CycleOutcome) -> dict[str, bytes]:
    told = {
        "matches": outcome.matches(),
        "rejections": outcome.rejections(),
        "submitters": outcome.submitters(),
        "groups": outcome.groups(),
    }
    return snapshot_files(given, json.dumps(json_value(told), indent=1) + "\n")
