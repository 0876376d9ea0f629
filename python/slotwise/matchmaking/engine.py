"""One negotiation cycle: the only place of the negotiator that calls the Rust core.

:func:`run_cycle` is pure: tables, knobs, accounting state and time in, a :class:`CycleOutcome` out. Work that one cycle
can spare the next is kept in an :class:`Engine`, which changes no outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

from slotwise import _native
from slotwise.classad import ClassAd
from slotwise.config import Config
from slotwise.matchmaking.rows import (
    ClaimsToReturn,
    CycleStatistics,
    Group,
    JobExplanation,
    KeptMachine,
    Match,
    MatchColumns,
    Record,
    Rejection,
    Request,
    Submitter,
    Waiting,
)
from slotwise.table import AdTable

#: Slot, submitter, first job, epoch seconds of the expected start and of giving it up, whether it was given up.
Reservation = tuple[str, str, str, float, float, bool]


class Knobs:
    """The knobs of a cycle, read and checked once.

    :param values: expanded values by knob name; what is not set has its default.
    :raises ConfigError: for a value no cycle can use.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self.values = dict(values or {})
        self.core = _native.CycleKnobs(self.values)

    @classmethod
    def of_config(cls, config: Config) -> Knobs:
        """The knobs of a loaded configuration."""
        values = knob_values(config)
        if not config.get_bool("SLOTWISE_NEGOTIATE_ON_DEMAND"):
            # A claim that is given back would stay idle until the next regular cycle.
            values = _with(values, "SLOTWISE_CLAIM_FAIR_SHARE", "False")
        return cls(values)

    @cached_property
    def without_preemption(self) -> Knobs:
        """The same knobs, for a cycle that leaves claims alone."""
        return Knobs(_with(self.values, "NEGOTIATOR_CONSIDER_PREEMPTION", "False"))

    @property
    def interval_s(self) -> int:
        """Seconds between cycles."""
        return self.core.interval_s


def _with(values: Mapping[str, str], knob: str, value: str) -> dict[str, str]:
    """The values with one knob set, in whatever case it was named before."""
    return {name: text for name, text in values.items() if name.upper() != knob} | {knob: value}


def knob_values(config: Config) -> dict[str, str]:
    """Expanded values of everything that a configuration sets, by name as the negotiator reads it."""
    names = {_own_name(name) for name, _raw, _origin in config.settings()}
    # Some expressions are switched off by setting them to nothing.
    return {name: config.get(name) or "" for name in sorted(names)}


def _own_name(name: str) -> str:
    head, dot, rest = name.partition(".")
    return rest if dot and head.upper() == "NEGOTIATOR" else name


class Accounting(Struct, frozen=True):
    """Accounting state between cycles, a value.

    ``records`` are by submitter or group name; ``remainder_times`` say when each group last got a remainder slot.
    """

    records: Mapping[str, Record] = field(default_factory=dict)
    remainder_times: Mapping[str, float] = field(default_factory=dict)
    #: Slots kept for large requests, and those given up.
    reservations: tuple[Reservation, ...] = ()
    #: What submitters were entitled to hold after the cycle before, by weight, while others waited for their slots.
    entitled: Mapping[str, float] = field(default_factory=dict)

    def parts(
        self,
    ) -> tuple[dict[str, dict[str, float | None]], dict[str, float], list[Reservation], dict[str, float]]:
        """The form the core takes."""
        records = {name: dict(record) for name, record in self.records.items()}
        return records, dict(self.remainder_times), list(self.reservations), dict(self.entitled)


class CycleOutcome:
    """What a cycle decided. Rows are made when they are asked for; ``match_columns`` is the compact form."""

    __slots__ = ("core",)

    def __init__(self, core: _native.CycleOutcome) -> None:
        self.core = core

    def __len__(self) -> int:
        return len(self.core)

    def matches(self) -> list[Match]:
        """Matches in the order they were made."""
        return self.core.matches()

    def match_columns(self) -> MatchColumns:
        """Matches as columns: native-endian int32 and float64 buffers, and lists of names."""
        return self.core.match_columns()

    def rejections(self) -> list[Rejection]:
        """Autoclusters that were considered and got nothing (more): reason, count of jobs, slots by cause."""
        return self.core.rejections()

    def waiting(self) -> list[Waiting]:
        """Requests held back by a limit, quota, ceiling or time limit without having been considered to their end.

        ``reason`` is in the words of rejections. Of one submitter and access point the first 100.
        """
        return self.core.waiting()

    def requests(self) -> list[Request]:
        """Requests in the order they were served."""
        return self.core.requests()

    def submitters(self) -> list[Submitter]:
        """Submitters: priority, factor, share and limit of the first spin, matches, jobs held back and why."""
        return self.core.submitters()

    def groups(self) -> list[Group]:
        """Groups: quotas, demand, allocation, usage, matches."""
        return self.core.groups()

    def reservations(self) -> list[KeptMachine]:
        """Machines kept for large requests."""
        return self.core.reservations()

    def excess(self) -> list[ClaimsToReturn]:
        """Claims to be given back between jobs, because others wait for them."""
        rows = self.core.excess()
        return [ClaimsToReturn(row.submitter, row.schedd, row.slots, row.weights, row.weight) for row in rows]

    def accounting(self) -> Accounting:
        """The accounting state after the cycle, to be stored."""
        records, remainder_times, reservations, entitled = self.core.accounting()
        return Accounting(records, remainder_times, tuple(reservations), entitled)

    def statistics(self) -> CycleStatistics:
        """Counts for the negotiator ad."""
        return self.core.statistics()

    def timings(self) -> dict[str, float]:
        """Seconds by phase."""
        return self.core.timings()

    @property
    def warnings(self) -> list[str]:
        """What was ignored, and why."""
        return self.core.warnings

    @property
    def significant_attributes(self) -> list[str]:
        """Job attributes the cycle looked at: access points group jobs by them."""
        return self.core.significant_attributes

    @property
    def match_expressions(self) -> list[str]:
        """Names of the attributes that NEGOTIATOR_MATCH_EXPRS inserts into slots."""
        return self.core.match_expressions


class Engine:
    """Runs cycles one after the other and keeps what saves work: classes of slots, answers of requests."""

    __slots__ = ("core",)

    def __init__(self) -> None:
        self.core = _native.CycleEngine()

    def run(
        self,
        slots: AdTable,
        requests: AdTable,
        submitters: AdTable | None,
        knobs: Knobs,
        accounting: Accounting,
        now: int,
    ) -> CycleOutcome:
        """One cycle; see :func:`run_cycle`."""
        entries = None if submitters is None else submitters.native
        made = self.core.run(slots.native, requests.native, entries, knobs.core, accounting.parts(), now)
        return CycleOutcome(made)

    def explain(
        self, slots: AdTable, jobs: AdTable, job: ClassAd, knobs: Knobs, accounting: Accounting, now: int
    ) -> JobExplanation:
        """Why a job does not run: what each clause lets pass, who refuses it, what became of slots that match."""
        return self.core.explain(slots.native, jobs.native, job, knobs.core, accounting.parts(), now)


def run_cycle(
    table: AdTable,
    requests: AdTable,
    submitters: AdTable | None,
    config: Knobs,
    accounting: Accounting,
    now: int,
    engine: Engine | None = None,
) -> CycleOutcome:
    """Run one negotiation cycle. The interpreter is free meanwhile.

    :param table: slot ads.
    :param requests: request ads of access points (a representative job with ``ResourceRequestCount``,
        ``AutoClusterId``, ``Submitter``, ``ScheddName``; served in the order of ``RequestOrder``, else of rows), or,
        when ``submitters`` is None, job ads as ``condor_q -long`` lists them.
    :param submitters: submitter ads (``Name``, ``ScheddName``, ``ScheddIpAddr``, ``IdleJobs``, ``RunningJobs`` and
        their weighted twins).
    :param now: epoch seconds.
    :param engine: keeps work from one cycle to the next; a new one when None.
    :raises CycleInputError: for a job without ClusterId or owner.
    """
    return (engine or Engine()).run(table, requests, submitters, config, accounting, now)


def submitter_of(job: ClassAd, now: int) -> str:
    """The accounting name of a job, as a cycle reads it from the ad; empty when the job has no owner."""
    return Engine().explain(AdTable(), AdTable(), job, Knobs(), Accounting(), now).submitter


def read_long(text: bytes, heard_at: float = 0.0, key: str = "Name") -> AdTable:
    """A table of ads from ``condor_status -long`` or ``condor_q -long`` text.

    ``key`` is the attribute that names an ad, ``"job"`` for ClusterId.ProcId, or ``"number"``.

    :raises AdSyntaxError: names the line.
    """
    table = AdTable()
    table.load_text(text, key=key, received_at=heard_at)
    return table


def read_long_file(path: Path, heard_at: float = 0.0, key: str = "Name") -> AdTable:
    """As :func:`read_long`, from a file: a piece is read while the one before it is taken apart.

    :raises AdSyntaxError: names the line.
    :raises OSError: when the file cannot be read.
    """
    table = AdTable()
    loader = table.text_loader(key=key, received_at=heard_at)
    with path.open("rb", buffering=0) as file, ThreadPoolExecutor(1) as ahead:
        piece = file.read(_PIECE_BYTES).removeprefix(_BYTE_ORDER_MARK)
        while piece:
            coming = ahead.submit(file.read, _PIECE_BYTES)
            loader.feed(piece)
            piece = coming.result()
    loader.finish()
    return table


_PIECE_BYTES = 1 << 23
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
