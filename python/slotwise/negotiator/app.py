"""Wires and starts the negotiator."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from functools import partial
from pathlib import Path

from slotwise.config import Config
from slotwise.daemon import tasks
from slotwise.daemon.ad import daemon_ad
from slotwise.daemon.further_attributes import in_ad
from slotwise.daemon.pause import pause
from slotwise.daemon.publish import TablePublisher
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import SlotwiseError
from slotwise.matchmaking.demand import UnmetDemand
from slotwise.matchmaking.engine import Knobs
from slotwise.matchmaking.reports import CycleReport, accounting_ads
from slotwise.negotiator.accountant import Accounts
from slotwise.negotiator.cycle import Cycles, Settings
from slotwise.negotiator.metrics import DemandMetrics, counted
from slotwise.negotiator.mirror import Mirror
from slotwise.negotiator.schedule import Schedule
from slotwise.negotiator.service import NegotiatorServicer
from slotwise.negotiator.store import AccountingStore
from slotwise.run_times import spent
from slotwise.wire.gen import negotiator_pb2_grpc

_log = logging.getLogger(__name__)
#: The longest wait for the collector's ads at the start; a cycle over an empty mirror would match nothing.
_MIRROR_WAIT_S = 10.0
#: The least time between two publications of ads after cycles; on-demand cycles may run many times a second.
_PUBLISH_GAP_S = 1.0


class Negotiator:
    """The running negotiator: the loop that runs cycles when they are due, and its ads."""

    def __init__(self, context: DaemonContext) -> None:
        self._context = context
        settings = Settings.of_config(context.config, context.address.name)
        path = context.home.spool / "accounting.db"
        named = context.config.get("SLOTWISE_ACCOUNTING_DATABASE")
        self._store = AccountingStore(Path(named) if named else path)
        accounts = Accounts(
            self._store.records(), self._store.leases(), self._store.remainder_times(), self._store.reservations()
        )
        self.schedule = Schedule(settings.timing, timer_at=context.clock.monotonic())
        self._bell = asyncio.Event()
        self.cycles = Cycles(
            context,
            settings,
            Knobs.of_config(context.config),
            Mirror(context, self._slots_changed, self._schedd_joined),
            self._store,
            accounts,
        )
        self.cycles.history.length = settings.stats_length
        self._update_s = context.config.get_float("NEGOTIATOR_UPDATE_INTERVAL")
        self._publisher = TablePublisher(context, lambda: self._update_s)
        self._published_at = 0.0
        self._publish_later: asyncio.TimerHandle | None = None
        self.servicer = NegotiatorServicer(self.cycles, self.schedule, self._bell.set, self._publish_soon)
        self._publish()
        context.metrics += (counted, DemandMetrics(self._last_demand))
        self._task = tasks.keep("negotiating", self._run)
        self._accounting = tasks.keep("charging usage", self._account)

    def _last_demand(self) -> UnmetDemand | None:
        """What the last cycle has left unmet; None before the first one."""
        cycles = self.cycles.history.cycles
        return cycles[0].demand if cycles else None

    async def reconfig(self, config: Config) -> list[str]:
        """Adopt new knobs; a running cycle keeps those it began with."""
        knobs = Knobs.of_config(config)
        async with self.cycles.lock:
            settings = Settings.of_config(config, self._context.address.name)
            self.cycles.knobs, self.cycles.settings = knobs, settings
            self.cycles.history.length = settings.stats_length
            self.schedule.timing = settings.timing
            self.schedule.timer_at = min(
                self.schedule.timer_at, self._context.clock.monotonic() + settings.timing.interval_s
            )
        self._update_s = config.get_float("NEGOTIATOR_UPDATE_INTERVAL")
        self._publisher.publish()
        self._bell.set()
        return []

    async def stop(self, mode: str) -> None:
        """End the loop; accounting is on disk after every cycle."""
        await tasks.end(self._task, self._accounting)
        if self._publish_later is not None:
            self._publish_later.cancel()
        await self._publisher.stop()
        await self.cycles.mirror.close()
        await self.cycles.channels.keep(set())
        self._store.close()

    def _slots_changed(self) -> None:
        if not self.cycles.unmet:
            return
        now = self._context.clock.monotonic()
        if self.cycles.slots_came_back():
            # Somebody waits for it, and its core is idle.
            self.schedule.ask(now, on_demand=True)
        else:
            self.schedule.slot_freed(now)
        self._bell.set()

    def _schedd_joined(self) -> None:
        """A schedd that has come up may have idle jobs from before."""
        self.schedule.ask(self._context.clock.monotonic(), on_demand=True)
        self._bell.set()

    async def _run(self) -> None:
        clock = self._context.clock
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MIRROR_WAIT_S):
                await self.cycles.mirror.complete.wait()
        while True:
            wait_s = self.schedule.next_at() - clock.monotonic()
            if wait_s > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._bell.wait()
                self._bell.clear()
                continue
            await self._cycle("timer" if self.schedule.timer_at <= clock.monotonic() else "on demand")

    def _accounting_pause_s(self, least_s: float) -> float:
        return max(0.1, self.cycles.settings.accounting_interval_s, least_s)

    async def _account(self) -> None:
        """Charge usage every few seconds, in at most a twentieth of the time."""
        clock, took_s = self._context.clock, 0.0
        while True:
            await pause(partial(self._accounting_pause_s, 20 * took_s))
            if not self.cycles.in_use():
                continue
            began = clock.monotonic()
            try:
                await self.cycles.account()
            except Exception:
                _log.exception("error while charging usage")
            took_s = clock.monotonic() - began
            self._publish_soon()

    async def _cycle(self, why: str) -> None:
        clock = self._context.clock
        began, preempted = clock.monotonic(), False
        report: CycleReport | None = None
        self.schedule.begin(began)
        try:
            report = await self.cycles.run(why, preempt=self.schedule.may_preempt(began))
        except SlotwiseError as error:
            _log.error("negotiation cycle failed, nothing was matched: %s", error)
        except Exception:
            _log.exception("negotiation cycle failed, nothing was matched")
        else:
            preempted = report.preemptions > 0
            self._publish_soon()
        ended = clock.monotonic()
        spent.of("NegotiationCycles").add(ended - began)
        self.schedule.end(ended, preempted=preempted)
        if report is not None and (report.limits_left_slots or self.cycles.missed_slots()):
            self.schedule.slot_freed(clock.monotonic())
        self._look_again()

    def _look_again(self) -> None:
        """Start a cycle when matches that hide free slots are given up, so that unmet requests see those slots."""
        ends_at = self.cycles.in_flight.next_end(self.cycles.mirror.slots) if self.cycles.unmet else None
        if ends_at is not None:
            self.schedule.slot_freed(ends_at)

    def _publish_soon(self) -> None:
        if self._publish_later is not None:
            return
        due_s = max(0.02, self._published_at + _PUBLISH_GAP_S - self._context.clock.monotonic())
        self._publish_later = asyncio.get_running_loop().call_later(due_s, self._publish)

    def _publish(self) -> None:
        """Write the negotiator ad and the accounting ads into the advertiser's tables, which send what changed."""
        self._publish_later = None
        context, cycles = self._context, self.cycles
        self._published_at, now = context.clock.monotonic(), context.clock.now()
        name = cycles.settings.name
        ad = (
            in_ad(cycles.settings.advertised)
            | daemon_ad(context, "Negotiator", name=name)
            | {"NegotiatorName": name, "NegotiatorIpAddr": context.address.target, "RealUid": os.getuid()}
            | cycles.history.attributes()
        )
        own = self._publisher.table("Negotiator")
        for key in own.keys():  # noqa: SIM118 - a table is not a dict
            if key != name:
                own.remove(key)
        own.upsert(name, ad)
        if context.config.get_bool("NEGOTIATOR_ADVERTISE_ACCOUNTING"):
            last = cycles.history.cycles[0] if cycles.history.cycles else None
            ads = accounting_ads(
                cycles.accounts.records, cycles.accounts.leases, last, name, now, cycles.settings.default_factor
            )
            table = self._publisher.table("Accounting")
            for key in table.keys():  # noqa: SIM118 - a table is not a dict
                if key not in ads:
                    table.remove(key)
            for key, accounting in ads.items():
                table.upsert(key, accounting)
        self._publisher.publish()


async def start(context: DaemonContext) -> Negotiator:
    """Start negotiating."""
    negotiator = Negotiator(context)
    negotiator_pb2_grpc.add_NegotiatorServicer_to_server(negotiator.servicer, context.server)
    return negotiator
