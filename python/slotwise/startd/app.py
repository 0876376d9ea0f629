"""Wires the startd: reads host and configuration, restores claims, serves, polls, advertises."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from slotwise import ids
from slotwise.classad.evaluate import Value
from slotwise.config import Config
from slotwise.daemon import tasks
from slotwise.daemon.ad import qualified
from slotwise.daemon.locate import collector_target
from slotwise.daemon.runtime import DaemonContext
from slotwise.daemon.starter_key import shown_to_starter
from slotwise.daemon.step_file import StepFile
from slotwise.errors import ConfigError, HostError
from slotwise.model.resources import Resources
from slotwise.startd import self_shutdown
from slotwise.startd.cron.service import Cron
from slotwise.startd.dispatcher import Dispatcher, Recipients
from slotwise.startd.fetch.service import FetchWork
from slotwise.startd.fingerprint import network
from slotwise.startd.fingerprint.self_monitor import SelfMonitor
from slotwise.startd.fingerprint.x_input import XProbe
from slotwise.startd.host import is_owner_check, machine_amounts
from slotwise.startd.host.drain import SavedDrain
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.job_history import JobHistorySettings
from slotwise.startd.journal import Journal
from slotwise.startd.monitor import boinc, sampler
from slotwise.startd.monitor.benchmarks import Benchmarks
from slotwise.startd.monitor.clock_jump import ClockJumpDetector
from slotwise.startd.monitor.device_check import DeviceCheck
from slotwise.startd.power import wake_on_lan
from slotwise.startd.power.hibernation import Hibernation
from slotwise.startd.publish.metrics import StartdMetrics
from slotwise.startd.publish.slot_publisher import SlotPublisher
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.service import StartdServicer
from slotwise.startd.settings import Settings, machine_resources, slot_types
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.fsm import step
from slotwise.startd.slot.replay import Recorder
from slotwise.startd.slot.states import Backfill
from slotwise.startd.slot_types.layout import PlannedSlot, is_full, plan
from slotwise.startd.starter_link import StarterLink
from slotwise.table import unpack_ads
from slotwise.wire.gen import startd_pb2_grpc

_log = logging.getLogger(__name__)

#: Timers are set anew at most this often (seconds).
_GATHER_S = 0.05
#: The fact in the journal that says how much disk was divided among the slots, in KiB.
_DISK = "disk_kib"


async def start(context: DaemonContext) -> Startd:
    """Start the startd of a host."""
    startd = Startd(context)
    startd_pb2_grpc.add_StartdServicer_to_server(StartdServicer(startd.dispatcher), context.server)
    startd.begin()
    return startd


class Startd:
    """A running startd."""

    def __init__(self, context: DaemonContext, *, starter_alive: Callable[[int], bool] | None = None) -> None:
        self._context = context
        config, now = context.config, context.clock.now()
        self._execute = Path(config.get("EXECUTE") or context.home.execute)
        self._facts = sampler.host_facts(config, context.env, self._execute)
        self._custom = sampler.inventory(config)
        self.journal = Journal(context.home.spool / "startd.sqlite")
        saved = self.journal.load()
        self._resources = machine_amounts.with_disk_in_use(
            machine_resources(config, self._facts, self._custom), saved, self.journal.recall(_DISK)
        )
        self._hostname = config.get("FULL_HOSTNAME") or context.address.name
        settings = self._settings(config, self._resources)
        self._layout = self._planned(config, settings)
        settings.read_all((slot.slot_id, slot.type_number) for slot in self._layout)
        boot, self._sequence = int(now), 0
        me = context.address.target

        def new_id() -> str:
            self._sequence += 1
            return ids.claim_id(me, boot, self._sequence)

        self.point = ExecutionPoint(settings, self._layout, new_id, now)
        self._sampler = sampler.HostSampler(self._execute, XProbe(context.env), now, SelfMonitor(now))
        self._sampler.sample(self.point.host, config, now)
        for record in self.point.slots:  # the first look was without load and idle times
            self.point.ads.show(record, now)
        is_owner_check.require(self.point.host, self.point.ads, now)
        self.point.poll(now)
        self._record(config)
        context.metrics.append(StartdMetrics(self.point, context.clock.now))
        self.dispatcher = Dispatcher(self.point, self.journal, context.clock)
        self.dispatcher.history.settings = JobHistorySettings.of(context.config)
        for record in self.point.slots:
            if record.slot.broken:
                _log.error("%s is broken: %s", record.name, record.slot.broken)
        self.point.restore(saved, unpack_ads, now)
        self._note_disk()
        self._devices = DeviceCheck(self.dispatcher, config, self._custom)
        self._take_up_drain(now)
        self._link = StarterLink(
            context.home,
            partial(shown_to_starter, context.home),
            self.dispatcher.starter_reports,
            self.dispatcher.starter_lists,
            env=context.env,
            alive=starter_alive,
        )
        self._boinc = boinc.Client(lambda: self._context.config, self.journal, self._filler)
        self._boinc.end_former()
        self._fetch = FetchWork(self.dispatcher, config, context.clock, context.env, context.home.spool / "fetch")
        self._cron = Cron(self.dispatcher, context.clock, context.env)
        self._benchmarks = Benchmarks(self.dispatcher, context.clock, context.env)
        self._publisher = SlotPublisher(
            self.dispatcher, self._collector, context.credential, sample=lambda: self._sample()
        )
        self.dispatcher.connect(
            Recipients(
                send_starter=self._link.send,
                unsent_starts=self._link.unsent_starts,
                starter_address=lambda: self._link.address,
                ads_changed=self._publisher.publish,
                slots_changed=self._fetch.look,
                run_benchmarks=self._benchmarks.want,
                drained=self._drained,
                run_backfill=self._boinc.want,
                run_hook=self._fetch.notify,
                fetches_saved=self._fetch.settled,
            )
        )
        card = network.default_interface()
        self.hibernation = Hibernation(
            config,
            self.dispatcher,
            self._publisher,
            wake_on_lan.read(card) if card is not None else wake_on_lan.WakeOnLan(),
            lambda: self._sample(),
        )
        self._show_power(now)
        self._tasks: list[asyncio.Task[None]] = []
        self._idle_deadline: float | None = None

    def begin(self) -> None:
        """Start what runs in the background."""
        self._fetch.start()
        self.dispatcher.flush()
        self._link.start()
        self._publisher.start()
        self._cron.follow(self._context.config)
        self._benchmarks.follow(self._context.config)
        self._devices.start()
        self.hibernation.start()
        self._tasks.append(tasks.keep("evaluating policies", self._poll))

    # ---------------------------------------------------------------------------------------------- RunningDaemon

    async def reconfig(self, config: Config) -> list[str]:
        """Put a new configuration in force; slot layout and custom resources stay until a restart."""
        settings = self._settings(config, self.point.settings.resources)
        settings.sample = self.point.settings.sample
        settings.set_draining_start(self.point.settings.draining_start)
        settings.read_all((record.slot_id, record.type_number) for record in self.point.slots)
        changed = self._planned(config, settings) != self._layout
        now = self._context.clock.now()
        is_owner_check.require_of(settings, self.point.host, self.point.ads, now)
        kept = ("LastBenchmark", "Mips", "KFlops")
        benchmark: dict[str, Value] = {
            name: self.point.ads.machine[name] for name in kept if name in self.point.ads.machine
        }
        self.point.settings = settings
        self._record(config)
        warnings = [*self._cron.follow(config), *self._benchmarks.follow(config)]
        self.dispatcher.history.settings = JobHistorySettings.of(config)
        self.hibernation.follow(config)
        self.point.ads.machine = {**settings.machine, **benchmark, **self.hibernation.attributes()}
        self._devices.follow(config)
        self._fetch.follow(config)
        for record in self.point.slots:
            if record.slot.claim is None:
                self.point.claim_ids.renew(record)
            self.point.ads.show(record, now)
        self.point.poll(now)
        self.dispatcher.touch_all()
        self.dispatcher.flush()
        self.dispatcher.wake.set()
        if changed:
            warnings.append("the slot types have changed; they take effect when the startd restarts")
        return warnings

    async def stop(self, mode: str) -> None:
        """End all claims as ``mode`` says, take the ads back, end the starter."""
        await self.hibernation.stop()
        now = self._context.clock.now()
        for record in self.point.slots:
            self.point.apply(record, ev.ShutdownBegun(mode), now)
        self.dispatcher.flush()
        patience = 3.0 if mode == "fast" else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._until_unclaimed()
        await tasks.end(*self._tasks)
        for end in list(self.dispatcher.hang_up.values()):
            end()
        await asyncio.sleep(0)
        await self._fetch.stop()
        await self._boinc.close()
        await self._cron.stop()
        await self._benchmarks.stop()
        await self._devices.stop()
        await self._publisher.stop()
        await self._link.stop()
        await self.dispatcher.history.close()
        self.point.forget_faults(self._context.clock.now())
        self.dispatcher.flush()
        self.journal.close()

    async def _until_unclaimed(self) -> None:
        def in_use(record: SlotRecord) -> bool:
            return record.slot.claim is not None or isinstance(record.slot.state, Backfill)

        while any(map(in_use, self.point.slots)):
            await asyncio.sleep(0.05)

    # --------------------------------------------------------------------------------------------------- background

    async def _poll(self) -> None:
        """Evaluate policies every POLLING_INTERVAL while slots are in use, and when timers expire."""
        clock, dispatcher = self._context.clock, self.dispatcher
        jumps, last = ClockJumpDetector(clock), clock.now()
        while True:
            if jump_s := jumps.jump_s():
                last += jump_s
                self._clock_was_set(jump_s)
            now = clock.now()
            timers = self.point.settings.timers
            interval = timers.polling_s if self.point.any_active() else min(timers.update_s, 60.0)
            due = last + interval
            timer = self.point.next_timer(now)
            times = [at for at in (due, timer, self._idle_deadline) if at is not None]
            wait = max(0.01, min(times) - now)
            dispatcher.wake.clear()
            with contextlib.suppress(TimeoutError):
                # Not wait_for: that of Python 3.11 loses a cancellation that arrives together with the wake.
                async with asyncio.timeout(wait):
                    await dispatcher.wake.wait()
                await asyncio.sleep(_GATHER_S)  # many changes, one look
            if jumps.pending():
                continue
            now = clock.now()
            if self.hibernation.asleep:
                last = now
                continue
            self.hibernation.watch(now)
            self._no_claim_shutdown(now)
            timer = self.point.next_timer(now)
            if now < due and (timer is None or timer > now):
                continue
            try:
                if now >= due:
                    last = now
                    self._sample()
                self.point.claims.refuse_stale_activations(now)
                self.point.poll(now)
                dispatcher.flush()
                self._still_decides(now)
            except Exception:
                _log.exception("error while evaluating policies")
                await asyncio.sleep(1)

    def _clock_was_set(self, by_s: float) -> None:
        _log.warning("the wall clock jumped by %+.0f s: adjusting leases and deadlines of claims and jobs", by_s)
        for record in self.point.slots:
            self.point.apply(record, ev.ClockJumped(by_s), self._context.clock.now())
            self.point.outbox.save(record.name)
        self.hibernation.clock_was_set(by_s)
        self._sampler.clock_was_set(by_s)
        if self._idle_deadline is not None:
            self._idle_deadline += by_s
        self.dispatcher.flush()

    def _sample(self) -> None:
        now = self._context.clock.now()
        self._sampler.sample(self.point.host, self._context.config, now)
        if is_full(self._resources.disk_kib, len(self._layout)):
            self._divide_disk()
        for record in self.point.slots:
            self.point.ads.refresh(record, now)

    def _divide_disk(self) -> None:
        """Divide the disk again, which was full when the slots were made, as soon as there is room."""
        config = self._context.config
        free = sampler.free_disk(config, self._execute)
        if is_full(free, len(self._layout)):
            return
        self._resources = replace(self._resources, disk_kib=free)
        self._layout = self._planned(config, self.point.settings)
        parts = {slot.local_name: slot.resources.disk_kib for slot in self._layout}
        machine_amounts.divide_disk(self.point.host, free, parts)
        self._note_disk()
        _log.info("the disk of EXECUTE, which was full, has %d KiB now: slots have their parts of it", free)

    def _note_disk(self) -> None:
        """Keep for the next startd how much disk slots have been given parts of."""
        with contextlib.suppress(HostError):  # a full disk
            if self.journal.recall(_DISK) != self._resources.disk_kib:
                self.journal.remember(_DISK, self._resources.disk_kib)

    def _still_decides(self, now: float) -> None:
        """Stop when IS_OWNER has lost its value."""
        if self._context.stop_requested.done():
            return
        try:
            is_owner_check.require(self.point.host, self.point.ads, now)
        except ConfigError as error:
            _log.error("shutting down: %s", error)
            self._context.request_stop("graceful")

    def _no_claim_shutdown(self, now: float) -> None:
        limit = self._context.config.get_float("STARTD_NOCLAIM_SHUTDOWN")
        if limit <= 0 or any(record.slot.claim for record in self.point.slots):
            self._idle_deadline = None
        elif self._idle_deadline is None:
            self._idle_deadline = now + limit
        elif now >= self._idle_deadline:
            _log.info("no claim for %s s: shutting down (STARTD_NOCLAIM_SHUTDOWN)", limit)
            self._idle_deadline = now + limit
            self._later(self_shutdown.for_good(self._context, with_host=True))

    def _filler(self, name: str, stimulus: ev.SlotEvent) -> None:
        """The backfill client runs, or has exited."""
        record = self.point.slots.get(name)
        if record is not None:
            self.point.apply(record, stimulus, self._context.clock.now())
            self.dispatcher.flush()

    def _drained(self, action: str) -> None:
        """Do what was to follow the drain."""
        if action == "reconfig":
            self.point.drain.cancel("", self._context.clock.now())
            self.dispatcher.flush()
            self._later(self._reload())
        elif action == "exit":
            _log.info("drained: exiting as the drain request asked")
            self._later(self_shutdown.for_good(self._context, with_host=False))
        else:
            self._context.request_stop("graceful")

    async def _reload(self) -> None:
        if self._context.reload is not None:
            for warning in await self._context.reload():
                _log.warning("%s", warning)

    def _later(self, what: Coroutine[None, None, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(what))

    # ------------------------------------------------------------------------------------------------------ helpers

    def _record(self, config: Config) -> None:
        """Record the steps of slots, if that is configured."""
        kib = config.get_int("SLOTWISE_STARTD_STIMULI_MAX_KIB")
        file = StepFile(self._context.home.log / "startd-stimuli.jsonl", 1024 * kib)
        self.point.transitions.step = Recorder(file.append).step if kib > 0 else step

    def _take_up_drain(self, now: float) -> None:
        saved = self.journal.recall("drain")
        if saved is None:
            return
        try:
            self.point.drain.resume(cast(SavedDrain, saved), now)
        except (ConfigError, KeyError, TypeError, ValueError) as error:
            _log.error("could not resume the drain of the previous startd: %s", error)

    def _show_power(self, now: float) -> None:
        self.point.ads.machine.update(self.hibernation.attributes())
        for record in self.point.slots:
            self.point.ads.show(record, now)

    def _planned(self, config: Config, settings: Settings) -> list[PlannedSlot]:
        """The slots that the configuration makes of what the machine had when the startd began."""
        mode = config.get_text("SLOT_CONFIG_FAILURE_MODE")
        return plan(self._resources, slot_types(config, self._resources), mode, suits=settings.device_suits)

    def _settings(self, config: Config, resources: Resources) -> Settings:
        full = qualified(config.get_text("STARTD_NAME"), self._hostname)
        machine = sampler.machine_attributes(
            self._facts,
            config,
            hostname=self._hostname,
            address=self._context.address.target,
            started_at=self._context.address.started_at,
        )
        machine["DaemonLastReconfigTime"] = int(self._context.configured_at or self._context.address.started_at)
        machine.update(sampler.custom_attributes(self._custom))
        return Settings.of(config, machine, resources, self._custom, full)

    def _collector(self) -> str:
        return collector_target(self._context)
