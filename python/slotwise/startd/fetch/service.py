"""Runs hooks that fetch work when it is due, and those that are notified of it. The edge of
:mod:`slotwise.startd.fetch`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Coroutine, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from slotwise import ids
from slotwise.accounts import name_of
from slotwise.classad import ClassAd
from slotwise.classad.long_form import on_one_line
from slotwise.clock import Clock
from slotwise.config import Config
from slotwise.daemon.containment import contained
from slotwise.daemon.privileges import as_daemon_account
from slotwise.daemon.program_trust import fault, fault_for_root
from slotwise.errors import SlotwiseError, UsageError
from slotwise.model.ownership import LocalDomains
from slotwise.startd.dispatcher import Dispatcher
from slotwise.startd.fetch import schedule, work
from slotwise.startd.fetch.offers import WorkOffers
from slotwise.startd.fetch.programs import Outcome, Programs
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.host.hook_calls import FETCH_WORK, HookCall, knob_of, slot_text
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot import events as ev

_log = logging.getLogger(__name__)

#: How often slots are checked at least, and at most (seconds).
_LOOK_S, _PACE_S = 60.0, 0.05
#: How long hooks may still run when the startd stops (seconds).
_STOP_S = 5.0
#: After how long a hook that is only notified is run again when it was killed (seconds).
_AGAIN_S = (0.5, 2.0, 10.0)
#: How many hooks that are only notified run at the same time.
_TELL_AT_ONCE = 8
#: Most lines of a hook's standard error that go into the log.
_MOST_LINES = 20


def work_offers(point: ExecutionPoint) -> WorkOffers:
    """Offers work to the slots of a host."""
    return WorkOffers(point.host, point.claim_ids, point.ads, point.dynamic_slots, point.hooks, point.apply)


class FetchWork:
    """The hooks of one startd that fetch work and are notified of it. All calls come from the event loop's thread."""

    def __init__(
        self, dispatcher: Dispatcher, config: Config, clock: Clock, env: Mapping[str, str], place: Path
    ) -> None:
        self._dispatcher, self._clock = dispatcher, clock
        self._offers = work_offers(dispatcher.point)
        self._programs = Programs(place, env)
        self._config = config
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[str, HookCall] = {}
        self._wake = asyncio.Event()
        self._room = asyncio.Semaphore(_TELL_AT_ONCE)
        #: Knobs whose programs cannot be used, as the log has it.
        self._complained: dict[str, str] = {}
        self._stopping = False

    def start(self) -> None:
        """Resume the calls of a previous startd, then ask for work when it is due."""
        calls = self._dispatcher.journal.calls()
        self._programs.open([call.call_id for call in calls])
        for call in calls:
            self._running[call.call_id] = call
            if call.hook == FETCH_WORK and (record := self._slot_of(call)) is not None:
                record.fetch.attempts = record.fetch.attempts.begin(self._clock.now())
            self._begin(self._take_up(call))
        self._begin(self._keep())

    def follow(self, config: Config) -> None:
        """Use these knobs from now on."""
        self._config = config
        self._complained.clear()
        self._wake.set()

    def look(self) -> None:
        """Slots have changed: work may be due."""
        self._wake.set()

    async def stop(self) -> None:
        """Let hooks end for a moment; what they fetch is refused, with a notice. The next startd resumes those that do
        not."""
        self._stopping = True
        self._wake.set()
        deadline = asyncio.get_running_loop().time() + _STOP_S
        while self._tasks and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(set(self._tasks), timeout=left)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _limit_s(self) -> float:
        return self._config.get_float("SLOTWISE_FETCH_WORK_TIMEOUT")

    # ------------------------------------------------------------------------------------------------- when to ask

    async def _keep(self) -> None:
        while not self._stopping:
            next_at = self._clock.now() + _LOOK_S
            for record in self._dispatcher.point.slots:
                with contained(_log, f"{record.name}: seeing whether to fetch work"):
                    next_at = min(next_at, self._ask_if_due(record))
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(_PACE_S, next_at - self._clock.now())):
                    await self._wake.wait()
                await asyncio.sleep(_PACE_S)  # many changes, one look

    def _ask_if_due(self, record: SlotRecord) -> float:
        """Ask for work for a slot if it is time; when to look again."""
        now, point = self._clock.now(), self._dispatcher.point
        never = now + _LOOK_S
        fetching = point.settings.fetching(record.slot_id, record.type_number)
        if not fetching.keyword or record.fetch.attempts.running or not schedule.asks(record.slot):
            return never
        point.ads.refresh(record, now)
        job = record.job.ad if record.job is not None else None
        delay_s = schedule.delay(fetching.delay.value(record.ad, job, now) if fetching.delay is not None else None)
        record.fetch.attempts = replace(record.fetch.attempts, delay_s=delay_s)
        at = schedule.due_at(record.fetch.attempts, record.slot, delay_s)
        if at > now:
            return at
        policy = point.settings.policy(record.slot_id, record.type_number)
        if policy.start(record.ad, None, now) is False:  # no job whatever would be taken: the hook is not asked
            return never
        path = self._program(knob_of(fetching.keyword, FETCH_WORK))
        if not path:
            return never
        point.ads.show(record, now)
        call = HookCall(
            f"f{ids.secret(64)}",
            FETCH_WORK,
            record.name,
            fetching.keyword,
            slot_text(record.ad),
            parent=record.parent or "",
        )
        self._dispatcher.journal.save((), (), [call])
        record.fetch.attempts = record.fetch.attempts.begin(now)
        self._running[call.call_id] = call
        self._begin(self._fetch(call, path))
        return never

    def _program(self, knob: str) -> str:
        """The program of a hook; empty when there is none that may be run, which is logged once."""
        path = self._config.get_str(knob).strip()
        if not path:
            return ""
        as_root = os.geteuid() == 0 and not as_daemon_account()
        wrong = fault_for_root(path) if as_root else fault(path, None)
        if wrong and self._complained.get(knob) != wrong:
            _log.error("%s (%s) %s: it is not used", knob, path, wrong)
        self._complained[knob] = wrong
        return "" if wrong else path

    # ----------------------------------------------------------------------------------------------- hooks that fetch

    async def _fetch(self, call: HookCall, path: str) -> None:
        try:
            outcome = await self._programs.run(call.call_id, [path], call.given, self._limit_s)
        except OSError as error:
            _log.error("%s: could not start %s (%s): %s", call.slot_name, call.knob, path, error)
            outcome = Outcome(None)
        self._fetched(call, outcome)

    async def _take_up(self, call: HookCall) -> None:
        """Resume a call of a previous startd: wait for a fetch; run others again unless they have ended."""
        outcome = await self._programs.find(call.call_id, self._limit_s)
        if call.hook == FETCH_WORK:
            _log.info(
                "%s: %s of the previous startd %s",
                call.slot_name,
                call.knob,
                "never began" if outcome is None else "ended",
            )
            self._fetched(call, outcome)
        elif outcome is None or outcome.killed:
            await self._run_notified(call)
        else:
            self._notified(call, outcome)

    def _slot_of(self, call: HookCall) -> SlotRecord | None:
        """The slot that asked, or the partitionable one that it was carved from."""
        slots = self._dispatcher.point.slots
        return slots.get(call.slot_name) or slots.get(call.parent)

    def _fetched(self, call: HookCall, outcome: Outcome | None) -> None:
        """Offer the work of a hook that has ended to the slot. ``outcome`` None: it never began."""
        now, dispatcher = self._clock.now(), self._dispatcher
        ad, problem = (None, "") if outcome is None else self._understood(call, outcome)
        record = self._slot_of(call)
        if problem:
            _log.error("%s: %s: %s", call.slot_name, call.knob, on_one_line(problem))
        if record is not None:
            if record.name == call.slot_name:
                record.fetch.attempts = record.fetch.attempts.end(now, failed=bool(problem))
            abandon = partial(dispatcher.abandon, [record.name])
            with contained(_log, f"{record.name}: taking in what {call.knob} has fetched", abandon):
                if ad is not None:
                    self._offers.offer(record, ad, self._owner_of, call.call_id, now)
                elif outcome is not None and not problem:
                    dispatcher.point.apply(record, ev.NoWorkFetched(), now)
            if record.name in dispatcher.point.slots:
                dispatcher.point.outbox.changed[record.name] = None
        elif ad is not None:
            _log.error(
                "%s: discarding the work that %s has fetched: the slot has been deleted", call.slot_name, call.knob
            )
        dispatcher.point.outbox.fetched.append(call.call_id)
        dispatcher.flush()

    def _understood(self, call: HookCall, outcome: Outcome) -> tuple[ClassAd | None, str]:
        """The ad that a hook has printed (None: no work), or what is wrong with it."""
        self._log_errors(call, outcome)
        if len(outcome.output) > work.LONGEST:
            return None, f"printed more than {work.LONGEST >> 10} KiB: none of it is used"
        if outcome.timed_out:
            return None, f"did not end within {self._limit_s:g} s (SLOTWISE_FETCH_WORK_TIMEOUT) and was killed"
        if outcome.status is None or outcome.status < 0:
            how = "was killed" if outcome.status is None else f"died of signal {-outcome.status}"
            return None, f"{how}: what it printed is not used"
        try:
            ad = work.read(outcome.output)
        except UsageError as error:
            return None, str(error)
        if outcome.status:  # HTCondor ignores it
            _log.warning("%s: %s exited with status %d", call.slot_name, call.knob, outcome.status)
        return ad, ""

    def _owner_of(self, ad: ClassAd) -> str:
        config = self._config
        domains = LocalDomains.of(config.get_str("UID_DOMAIN"), config.get_text("TRUST_UID_DOMAIN"))
        otherwise = "" if os.geteuid() == 0 else name_of(os.geteuid())
        return work.owner(ad, domains, otherwise, now=self._clock.now())

    # ----------------------------------------------------------------------------------------- hooks that are notified

    def notify(self, call: HookCall) -> None:
        """Run a hook that is notified of fetched work; the journal has the call already."""
        self._running[call.call_id] = call
        self._begin(self._run_notified(call))

    async def _run_notified(self, call: HookCall) -> None:
        """Run it again when it is killed: whether it has read the notice is not known, and twice does no harm."""
        outcome = Outcome(0)
        for pause_s in (*_AGAIN_S, None):
            path = self._program(call.knob)
            if path:
                async with self._room:
                    try:
                        words = [path, *call.arguments]
                        outcome = await self._programs.run(call.call_id, words, call.given, self._limit_s)
                    except OSError as error:
                        _log.error("%s: could not start %s (%s): %s", call.slot_name, call.knob, path, error)
            if pause_s is None or not outcome.killed:
                break
            _log.warning("%s: %s was killed: running it again", call.slot_name, call.knob)
            await asyncio.sleep(pause_s)
        self._notified(call, outcome)

    def _notified(self, call: HookCall, outcome: Outcome) -> None:
        """It was notified; what it printed and how it ended does not matter, as in HTCondor."""
        self._log_errors(call, outcome)
        if outcome.timed_out:
            _log.error("%s: %s did not end within %g s and was killed", call.slot_name, call.knob, self._limit_s)
        elif outcome.status != 0:
            how = "was killed" if outcome.status is None else f"ended with status {outcome.status}"
            _log.warning("%s: %s %s", call.slot_name, call.knob, how)
        self._dispatcher.point.outbox.fetched.append(call.call_id)
        self._dispatcher.flush()

    def settled(self, call_ids: list[str]) -> None:
        """The outcome of these calls is in the journal."""
        for call_id in call_ids:
            self._running.pop(call_id, None)
            self._programs.forget(call_id)
        self._wake.set()

    # -------------------------------------------------------------------------------------------------------- helpers

    def _log_errors(self, call: HookCall, outcome: Outcome) -> None:
        """What a hook writes to its standard error goes into the log."""
        for line in outcome.errors.splitlines()[-_MOST_LINES:]:
            if line.strip():
                _log.warning("%s: %s: %s", call.slot_name, call.knob, on_one_line(line.rstrip()))

    def _begin(self, what: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, SlotwiseError):
                _log.error("fetching work: %s", error)
            else:
                _log.error("error in fetching work: %s", error, exc_info=error)
