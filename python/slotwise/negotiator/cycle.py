"""Runs cycles: gather, decide (off the event loop), dispatch, book, report."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from slotwise.classad import ExprTree, new_syntax
from slotwise.classad.evaluate import Expr
from slotwise.config import Config
from slotwise.daemon.further_attributes import further_attributes
from slotwise.daemon.merging import merge_into_slots
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import HostError, PeerUnavailableError
from slotwise.matchmaking import kept_machines as kept
from slotwise.matchmaking.demand import Ask, Shape, UnmetDemand, unmet
from slotwise.matchmaking.engine import Accounting, CycleOutcome, Engine, Knobs
from slotwise.matchmaking.reports import CycleReport, History
from slotwise.matchmaking.rows import Refusal
from slotwise.negotiator import metrics
from slotwise.negotiator.accountant import Accounts
from slotwise.negotiator.amended_slots import Amendment, amended
from slotwise.negotiator.cycle_log import CycleLog
from slotwise.negotiator.dispatch import Offers, build_offers, send_offers
from slotwise.negotiator.excess import ExcessNotices
from slotwise.negotiator.gather import AccessPoint, Asking, Channels, Demand, gather
from slotwise.negotiator.in_flight import InFlight, Offered
from slotwise.negotiator.last_input import LastInput
from slotwise.negotiator.mirror import Mirror
from slotwise.negotiator.notices import notices_of, send_notices
from slotwise.negotiator.offline import offline_updates
from slotwise.negotiator.revaluation import Revaluation
from slotwise.negotiator.schedule import CycleTiming
from slotwise.negotiator.store import AccountingStore
from slotwise.observe.outage import Outage
from slotwise.table import AdTable
from slotwise.wire import address
from slotwise.wire.gen.schedd_pb2 import MatchBatch

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """The knobs of the daemon around the cycle."""

    timing: CycleTiming
    name: str
    job_constraint: str
    timeout_s: float
    #: NEGOTIATOR_INFORM_STARTD: startds hear of matches from the negotiator, too.
    inform_startds: bool
    match_exprs: dict[str, str]
    #: NEGOTIATOR_ATTRS: further attributes in the negotiator's ad.
    advertised: Mapping[str, bool | int | Expr]
    stats_length: int
    default_factor: float
    accounting_interval_s: float
    reeval_expr: ExprTree
    #: The user map GROUP_PREFIX is configured.
    group_prefix: bool = False

    @classmethod
    def of_config(cls, config: Config, host: str) -> Settings:
        """Read the knobs."""
        timing = CycleTiming(
            interval_s=config.get_float("NEGOTIATOR_INTERVAL"),
            cycle_delay_s=config.get_float("NEGOTIATOR_CYCLE_DELAY"),
            min_interval_s=config.get_float("NEGOTIATOR_MIN_INTERVAL"),
            on_demand=config.get_bool("SLOTWISE_NEGOTIATE_ON_DEMAND"),
        )
        exprs = {name: config.get(name) for name in config.get_list("NEGOTIATOR_MATCH_EXPRS")}
        return cls(
            timing=timing,
            name=config.get("NEGOTIATOR_NAME") or host,
            job_constraint=new_syntax(config.get_str("NEGOTIATOR_JOB_CONSTRAINT")),
            timeout_s=config.get_float("NEGOTIATOR_TIMEOUT"),
            inform_startds=config.get_bool("NEGOTIATOR_INFORM_STARTD"),
            match_exprs={name: text for name, text in exprs.items() if text},
            advertised=further_attributes(config, "NEGOTIATOR"),
            stats_length=config.get_int("NEGOTIATION_CYCLE_STATS_LENGTH"),
            default_factor=config.get_float("DEFAULT_PRIO_FACTOR"),
            accounting_interval_s=config.get_float("SLOTWISE_ACCOUNTING_INTERVAL"),
            group_prefix="GROUP_PREFIX" in config.get_list("NEGOTIATOR_CLASSAD_USER_MAP_NAMES"),
            reeval_expr=config.get_expr("STARTD_AD_REEVAL_EXPR") or ExprTree("true"),
        )


@dataclass
class Cycles:
    """Runs cycles, and holds the state that lives between them."""

    context: DaemonContext
    settings: Settings
    knobs: Knobs
    mirror: Mirror
    store: AccountingStore
    accounts: Accounts
    engine: Engine = field(default_factory=Engine)
    channels: Channels = field(default_factory=Channels)
    in_flight: InFlight = field(default_factory=InFlight)
    excess: ExcessNotices = field(default_factory=ExcessNotices)
    history: History = field(default_factory=History)
    last_input: LastInput = field(default_factory=LastInput)
    revaluation: Revaluation = field(default_factory=Revaluation)
    log: CycleLog = field(default_factory=CycleLog)
    #: Held while a cycle runs. Accounts can be edited nevertheless: see ``Accounts.take_over``.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    significant: tuple[str, ...] = ()
    #: Whether the last cycle left requests without a match.
    unmet: bool = False
    #: Access points that asked for a cycle themselves, in case the collector does not know them yet.
    asked_by: dict[str, AccessPoint] = field(default_factory=dict)
    _number: int = 0
    #: ``mirror.changes`` when the last cycle looked at the slots.
    _seen: int = 0
    #: The attributes that the ads of reserved machines were last given, by slot.
    _kept: dict[str, kept.KeptAttributes] = field(default_factory=dict)
    _used: Knobs | None = None
    #: Ids of matches; those of a former negotiator are smaller.
    _match_ids: Iterator[int] = field(init=False)
    _outage: Outage = field(init=False, default_factory=functools.partial(Outage, _log))

    def __post_init__(self) -> None:
        self._match_ids = itertools.count(int(self.context.clock.now()) << 24)

    def points(self) -> dict[str, AccessPoint]:
        """Access points by name: those the collector knows, those that asked, and that of this host."""
        found = dict(self.asked_by)
        schedds = self.mirror.schedds
        names, places, more = schedds.values(["Name", "ScheddIpAddr", "MyAddress"])
        for name, place, other in zip(names, places, more, strict=True):
            target = place if isinstance(place, str) and place else other
            if isinstance(name, str) and isinstance(target, str) and target:
                found[name] = AccessPoint(name, target)
        if not found:
            try:
                local = address.lookup(self.context.home, "schedd")
                found[local.name] = AccessPoint(local.name, local.local)
            except PeerUnavailableError:
                pass
        return found

    async def run(self, why: str, *, preempt: bool = True) -> CycleReport:
        """One cycle; without ``preempt`` it matches free slots only."""
        async with self.lock:
            return await self._run(why, self.knobs if preempt else self.knobs.without_preemption)

    async def _run(self, why: str, knobs: Knobs) -> CycleReport:
        self._used = knobs
        clock = self.context.clock
        started_at, began = clock.now(), clock.monotonic()
        self.log.begun(self._number + 1, why)
        for name, setting in self.accounts.end_leases(started_at):
            _log.info("the lease on the %s of %s has expired", setting, name)
        points = self.points()
        demand = await self._gather(points)
        gathered = clock.monotonic()
        now = int(clock.now())
        accounting = self.accounting()
        outcome, offers = await self._decide(demand, knobs, accounting, now)
        decided = clock.monotonic()
        schedds = len(points) - len(demand.failed)
        self.log.decided(self._number, why, outcome, demand, schedds, len(self.mirror.slots), gathered - began)
        startds = notices_of(offers.batches.values()) if self.settings.inform_startds else {}
        await send_notices(startds, self.channels, self.context.credential)
        reservations = outcome.reservations()
        self.excess.add_to(
            offers.batches,
            (
                row
                for row in (*outcome.excess(), *kept.claims_to_end(reservations, self.mirror.slots))
                if row.schedd in points
            ),
            self.settings.timing.interval_s,
            MatchBatch(cycle=self._number, negotiator_name=self.settings.name),
        )
        failed = await send_offers(offers, points, self.channels, self.context.credential, self.settings.timeout_s)
        told = [offered for offered in offers.made if demand.origins[offered.match.request][0] not in failed]
        matches = [offered.match for offered in told]
        if len(told) < len(offers.made):
            _log.warning("could not deliver %d matches to their schedds", len(offers.made) - len(told))
        await self._log_matches(told, offers, outcome, demand, points)
        self.in_flight.note(self.mirror.slots, told, clock.monotonic())
        ads = kept.attributes(reservations)
        updates = offline_updates(matches, self.mirror.slots, demand, points, now)
        for slot, changed in kept.changes(self._kept, ads, self.mirror.slots).items():
            updates.setdefault(slot, {}).update(changed)
        self._kept = ads
        await merge_into_slots(self.context, updates)
        dispatched = clock.monotonic()
        self._book(accounting, outcome)
        report = CycleReport(
            number=self._number,
            why=why,
            started_at=started_at,
            ended_at=started_at + (clock.monotonic() - began),
            gather_s=gathered - began,
            dispatch_s=dispatched - decided,
            timings=outcome.timings(),
            statistics=outcome.statistics(),
            submitters=outcome.submitters(),
            rejections=kept.explained(outcome.rejections(), reservations),
            groups=outcome.groups(),
            schedds=schedds,
            failed_schedds=demand.failed,
            matches=len(told),
            preemptions=sum(1 for row in matches if row.preempts is not None),
            reservations=reservations,
            waiting=outcome.waiting(),
            demand=_unmet(list(refusals(outcome)), demand, started_at),
        )
        self.history.cycles.appendleft(report)
        self.log.finished(report)
        metrics.observe(report)
        self.unmet = demand.jobs > len(told)
        await self.channels.keep({point.target for point in points.values()} | set(startds))
        return report

    async def _log_matches(
        self, told: list[Offered], offers: Offers, outcome: CycleOutcome, demand: Demand, points: dict[str, AccessPoint]
    ) -> None:
        def write() -> None:
            self.log.matched(told, demand, points, offers)
            self.log.rejected(refusals(outcome), demand, points, self.context.clock.monotonic())

        if len(told) <= _FEW:
            write()
        else:
            await asyncio.to_thread(write)

    async def account(self) -> None:
        """Charge usage up to now, without negotiating.

        Usage is what the last look saw, times the time since: frequent looks keep short claims from being charged for
        a whole cycle interval.
        """
        async with self.lock:
            accounting = self.accounting()
            with self.mirror.held() as slots, amended(slots, self._in_flight(slots)):
                now = int(self.context.clock.now())
                outcome = await self._run_engine(Demand(), self._knobs_used(), accounting, now)
            # No access point was asked for requests: what depends on them stays as the last cycle left it.
            self.accounts.take_over(accounting.records, outcome.accounting().records)
            self._save_if_possible()

    @contextmanager
    def slots_to_match(self) -> Iterator[AdTable]:
        """The slots as a cycle sees them now; the mirror holds changes back meanwhile."""
        with self.mirror.held() as slots:
            replacements = self.revaluation.replacements(slots, self.settings.reeval_expr)
            with amended(slots, itertools.chain(replacements, self._in_flight(slots))):
                yield slots

    def _in_flight(self, slots: AdTable) -> Iterator[Amendment]:
        return self.in_flight.amendments(slots, self.context.clock.monotonic())

    def _knobs_used(self) -> Knobs:
        """The knobs of the last cycle while they are unchanged: the engine's slots are in order for them."""
        used = self._used
        return used if used is self.knobs.without_preemption else self.knobs

    def accounting(self) -> Accounting:
        """The accounts that a cycle is given: as they are now, whatever is edited while it runs."""
        records = {name: dict(record) for name, record in self.accounts.records.items()}
        return Accounting(
            records, self.accounts.remainder_times, self.accounts.reservations, dict(self.accounts.entitled)
        )

    def slots_came_back(self) -> bool:
        """Whether a claim that a submitter held beyond its share has been returned since the last call."""
        return self.excess.came_back(self.mirror.slots)

    def missed_slots(self) -> bool:
        """Whether the last cycle left requests unmet, and slots have changed since it looked at them."""
        return self.unmet and self.mirror.changes != self._seen

    def in_use(self) -> bool:
        """Whether there is usage to charge, from the last look or in the slots now."""
        if any(record.get("weighted_resources_used") for record in self.accounts.records.values()):
            return True
        return bool(len(self.in_flight)) or self.mirror.slots.count('State == "Claimed"') > 0

    def asking(self) -> Asking:
        """The questions to access points."""
        settings = self.settings
        return Asking(self.significant, settings.job_constraint, settings.timeout_s, settings.group_prefix)

    async def _gather(self, points: dict[str, AccessPoint]) -> Demand:
        demand = await gather(points.values(), self.channels, self.context.credential, self.asking())
        for name in demand.failed:
            self.asked_by.pop(name, None)
        self.in_flight.hear(demand.outcomes, demand.reporting)
        return demand

    async def _decide(
        self, demand: Demand, knobs: Knobs, accounting: Accounting, now: int
    ) -> tuple[CycleOutcome, Offers]:
        with self.slots_to_match() as slots:
            self._number += 1
            self._seen = self.mirror.changes
            if len(demand):
                await self._note_input(demand, knobs, accounting, now)
            outcome = await self._run_engine(demand, knobs, accounting, now)
            self.last_input.decided(outcome)
            build = functools.partial(
                build_offers,
                outcome.matches(),
                refusals(outcome),
                demand,
                slots,
                self.mirror.capabilities,
                cycle=self._number,
                negotiator_name=self.settings.name,
                match_exprs=self.settings.match_exprs,
                ids=self._match_ids,
            )
            offers = build() if len(outcome) <= _FEW else await asyncio.to_thread(build)
        for warning in outcome.warnings:
            _log.warning("%s", warning)
        if offers.unclaimable:
            _log.warning("%d matched slots have no claim id yet, skipped in this cycle", len(offers.unclaimable))
        self.significant = tuple(outcome.significant_attributes)
        self.revaluation.matched(offered.match for offered in offers.made)
        return outcome, offers

    async def _note_input(self, demand: Demand, knobs: Knobs, accounting: Accounting, now: int) -> None:
        work = (self._number, self.mirror.slots, demand, knobs, accounting, now)
        if len(self.mirror.slots) <= _SMALL:
            self.last_input.note(*work)
        else:
            await asyncio.to_thread(self.last_input.note, *work)

    async def _run_engine(self, demand: Demand, knobs: Knobs, accounting: Accounting, now: int) -> CycleOutcome:
        work = (self.mirror.slots, demand.requests, demand.submitters, knobs, accounting, now)
        if len(self.mirror.slots) * max(1, len(demand)) <= _SMALL:
            return self.engine.run(*work)
        return await asyncio.to_thread(self.engine.run, *work)

    def _book(self, before: Accounting, outcome: CycleOutcome) -> None:
        after = outcome.accounting()
        self.accounts.take_over(before.records, after.records)
        self.accounts.remainder_times = dict(after.remainder_times)
        self.accounts.reservations = after.reservations
        self.accounts.entitled = dict(after.entitled)
        self._save_if_possible()

    def _save_if_possible(self) -> None:
        """Make the accounting durable; on a full disk cycles go on, and usage is in memory until it can be saved."""
        now = self.context.clock.monotonic()
        try:
            self.save()
        except HostError as error:
            self._outage.failed(now, "%s; they are kept in memory meanwhile", error)
        else:
            self._outage.over(now, "usage and priorities are saved")

    def save(self) -> None:
        """Make the accounting durable.

        :raises HostError: it cannot be written; it is still in memory.
        """
        accounts = self.accounts
        self.store.save(accounts.records, accounts.leases, accounts.remainder_times, accounts.reservations)


def _unmet(refused: list[Refusal], demand: Demand, now: float) -> UnmetDemand:
    """What the refused jobs ask for."""
    if not refused:
        return UnmetDemand(now)
    requests, asks = demand.requests, {}
    columns = requests.values(["RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs", *_SINCE], now=int(now))
    for key, cpus, memory, disk, gpus, *times in zip(requests.keys(), *columns, strict=True):
        since = next((float(at) for at in times if isinstance(at, int | float) and at > 0), float("inf"))
        asks[key] = Ask(demand.origins[key][1], Shape.asked(cpus, memory, disk, gpus), since)
    return unmet(refused, asks.get, now)


def refusals(outcome: CycleOutcome) -> Iterator[Refusal]:
    """The requests that got nothing, or nothing more, each with the reason that its access point is given."""
    yield from kept.explained(outcome.rejections(), outcome.reservations())
    yield from outcome.waiting()


#: Attributes that say since when a job is idle, the best one first.
_SINCE = ("EnteredCurrentStatus", "QDate")
#: Slots times requests up to which a cycle is faster than the way to a thread and back.
_SMALL = 2000
#: The most matches whose offers are assembled on the event loop; one takes some 70 microseconds.
_FEW = 100
