"""``slotwise power what-if``: what a HIBERNATE policy would have saved in the past, and which jobs it had delayed."""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict

import grpc
from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import Constant, Expression, compiled
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.jobs.history_files import Source, read_sources
from slotwise.cli.render.ads import read_file
from slotwise.cli.render.table import Column, table
from slotwise.daemon.history_file import parts_of
from slotwise.errors import ConfigError, NotFoundError, UsageError
from slotwise.model.power.decision import Rules
from slotwise.model.power.levels import WORDS, level_of
from slotwise.model.power.what_if import Outcome, Plan, Run, base_slot, replay
from slotwise.table import unpack_ads
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

if TYPE_CHECKING:
    from slotwise.config import Config

_OPTIONS = [
    Option("help", 1), Option("json", 1), Option("policy", 3, 1), Option("level", 1, 1), Option("file", 1, 1),
    Option("ads", 2, 1), Option("days", 2, 1), Option("interval", 1, 1), Option("uptime", 1, 1),
    Option("rooster", 1, 1), Option("wake", 1, 1), Option("watts", 3, 1), Option("pool", 3, 1), Option("name", 2, 1),
]  # fmt: skip
#: How often HIBERNATE is looked at in the plan where the pool does not look at it, in seconds.
_CHECKED_S = 300.0
#: Seconds from the call until a machine runs jobs, by level, where -wake does not say.
_WAKE_S = (0.0, 5.0, 5.0, 15.0, 60.0, 180.0)
_HOUR_S = 3600.0
_MOST_LINES = 20
_RUN = [
    "ClusterId", "ProcId", "LastRemoteHost", "RemoteHost", "JobCurrentStartDate", "JobStartDate", "CompletionDate",
    "EpochWriteDate", "LastVacateTime", "EnteredCurrentStatus",
]  # fmt: skip
USAGE = """usage: slotwise power what-if [-policy EXPR] [-level S3] [options]
  Replays the runs of the past with the startd's own decision, and says hours saved against jobs delayed.
  -policy EXPR     HIBERNATE, as in the configuration, or when a machine is to sleep (true or false); without it:
                   that of the configuration
  -level LEVEL     the level that "true" means (S3)
The past
  -file FILE       ads of jobs that ended, or of runs (JOB_EPOCH_HISTORY), with its rotated parts; without it the
                   schedd's history is asked (-name SCHEDD, -pool HOST:PORT)
  -ads FILE        ads of the machines' slots, as `slotwise status -long` prints them; without it, and without -file,
                   the collector is asked
  -days N          the last N days of the past only
What sleeping costs (seconds)
  -interval S      HIBERNATE_CHECK_INTERVAL     -uptime S    SLOTWISE_HIBERNATION_MIN_UPTIME
  -rooster S       ROOSTER_INTERVAL             -wake S      from the call until jobs run (S3: 15, S4: 60, S5: 180)
  -watts W         what a machine draws less while it sleeps, for those that do not say
  -json            everything, for programs"""


class Past(Struct, frozen=True):
    """What is known: runs and slots' ads by machine, and the span."""

    runs: dict[str, list[Run]]
    ads: dict[str, list[ClassAd]]
    since: float
    until: float


def main(args: list[str], inv: Invocation) -> int:
    """Gather, replay, show."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.words:
        raise UsageError(f"{parsed.words[0]!r} is one word too many", hint="put the policy in quotes, after -policy")
    plan = _plan(parsed, inv.knobs())
    past = _past(parsed, inv.aimed(parsed.value("pool"), parsed.value("name")))
    outcomes = [
        replay(machine, past.ads.get(machine, []), past.runs.get(machine, []), plan, past.since, past.until)
        for machine in sorted({*past.runs, *past.ads})
    ]
    watts = _seconds(parsed, "watts", 0.0)
    record = summary(outcomes, past, watts)
    if parsed.has("json"):
        inv.out(json.dumps(record, indent=2))
    else:
        inv.out(text_of(record), end="")
    return 0


# ------------------------------------------------------------------------------------------------------------ the plan


def _plan(parsed: Parsed, config: Config) -> Plan:
    word = parsed.value("level") or "S3"
    level = level_of(word)
    if not level:
        raise UsageError(f"-level {word} is not a low power state", hint=", ".join(names[0] for names in WORDS[1:]))
    checked_s = config.get_float("HIBERNATE_CHECK_INTERVAL")
    rules = Rules(
        interval_s=_seconds(parsed, "interval", checked_s if checked_s > 0 else _CHECKED_S, least=1.0),
        uptime_s=_seconds(parsed, "uptime", config.get_float("SLOTWISE_HIBERNATION_MIN_UPTIME")),
        supported=frozenset(range(1, len(WORDS))),
        wakeable=True,
    )
    wake = parsed.value("wake")
    wake_s = _WAKE_S if wake is None else (_seconds(parsed, "wake", 0.0),) * len(WORDS)
    rooster_s = _seconds(parsed, "rooster", config.get_float("ROOSTER_INTERVAL"))
    return Plan(_policy(parsed, config), level, rules, rooster_s, wake_s)


def _policy(parsed: Parsed, config: Config) -> Expression:
    text = parsed.value("policy")
    if text is None:
        text = config.get_text("HIBERNATE")
        if not text:
            raise UsageError("there is no policy: HIBERNATE is not set", hint="-policy EXPR")
    word = text.strip().strip('"').upper()
    if any(word in words for words in WORDS):
        return Constant(word)
    try:
        return compiled("-policy", text)
    except ConfigError as error:
        raise UsageError(f"-policy: {error}", hint="an expression, in quotes for the shell") from None


def _seconds(parsed: Parsed, name: str, otherwise: float, *, least: float = 0.0) -> float:
    text = parsed.value(name)
    if text is None:
        return otherwise
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= 1e9:
        raise UsageError(f"-{name} {text} is not a number from {least:g} on")
    return number


# ------------------------------------------------------------------------------------------------------------ the past


def run_of(ad: ClassAd) -> Run | None:
    """The last run that a job's ad, or the ad of a run, records; None when it records none."""
    slot = ad.eval("LastRemoteHost")
    slot = slot if isinstance(slot, str) else ad.eval("RemoteHost")
    begin = _moment(ad, "JobCurrentStartDate") or _moment(ad, "JobStartDate")
    if not isinstance(slot, str) or not begin:
        return None
    for name in ("CompletionDate", "EpochWriteDate", "LastVacateTime", "EnteredCurrentStatus"):
        end = _moment(ad, name)
        if end >= begin:
            break
    else:
        return None
    return Run(f"{ad.eval('ClusterId')}.{ad.eval('ProcId')}", slot, begin, end)


def _moment(ad: ClassAd, name: str) -> float:
    value = ad.eval(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _past(parsed: Parsed, inv: Invocation) -> Past:
    file, machines = parsed.value("file"), parsed.value("ads")
    jobs = _from_file(file, inv) if file is not None else _from_schedd(inv)
    runs: dict[str, list[Run]] = defaultdict(list)
    seen = set()
    for ad in jobs:
        run = run_of(ad)
        # A job's history and those of its runs may record the same run.
        if run is not None and (key := (run.job, run.slot, run.begin)) not in seen:
            seen.add(key)
            runs[machine_of(run.slot)].append(run)
    if not runs:
        raise NotFoundError(
            "no run of the past is known", hint="ads with LastRemoteHost, JobCurrentStartDate and CompletionDate"
        )
    since = min(run.begin for found in runs.values() for run in found)
    until = max(run.end for found in runs.values() for run in found)
    days = _seconds(parsed, "days", 0.0)
    if days:
        since = max(since, until - days * 24 * _HOUR_S)
    ads: dict[str, list[ClassAd]] = defaultdict(list)
    slots = read_file(inv.path(machines)) if machines is not None else _slots(inv) if file is None else ()
    for ad in slots:
        name = ad.eval("Name")
        if isinstance(name, str) and ad.eval("DynamicSlot") is not True:
            ads[machine_of(name)].append(ad)
    return Past(dict(runs), dict(ads), since, until)


def machine_of(slot: str) -> str:
    """The host that a slot is of."""
    return base_slot(slot).rpartition("@")[2].lower()


def _from_file(name: str, inv: Invocation) -> Iterator[ClassAd]:
    files = parts_of(inv.path(name))
    if not files:
        raise NotFoundError(f"there is no file {name}")
    return read_sources(Source(tuple(files)), schedd_pb2.HistoryQuery(), inv)


def _from_schedd(inv: Invocation) -> list[ClassAd]:
    query = schedd_pb2.HistoryQuery()
    query.query.projection.extend(_RUN)
    try:
        stub = inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")
        return [ad for chunk in stub.History(query) if chunk.data for ad in unpack_ads(chunk.data)]
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None


def _slots(inv: Invocation) -> list[ClassAd]:
    query = common_pb2.AdQuery(kind="Machine", constraint="DynamicSlot =!= true")
    try:
        stub = inv.stub(collector_pb2_grpc.CollectorStub, "collector")
        return [ad for chunk in stub.Query(query) if chunk.data for ad in unpack_ads(chunk.data)]
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None


# --------------------------------------------------------------------------------------------------------- the outcome


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """The smallest of the values that ``share`` of them do not exceed; 0 of none."""
    if not sorted_values:
        return 0.0
    return sorted_values[max(0, math.ceil(share * len(sorted_values)) - 1)]


class MachineSummary(TypedDict):
    """What one machine would have done."""

    machine: str
    hours_idle: float
    hours_asleep: float
    hours_waking: float
    sleeps: int
    runs: int
    runs_delayed: int


class Summary(TypedDict):
    """What all machines would have saved, and whom it would have delayed, with the names that programs read."""

    since: int
    until: int
    hours_idle: float
    hours_asleep: float
    kwh_saved: float | None
    sleeps: int
    runs: int
    runs_delayed: int
    delay_s: dict[str, float]
    runs_vacated: list[str]
    complaints: list[str]
    machines: list[MachineSummary]


def summary(outcomes: Iterable[Outcome], past: Past, watts: float = 0.0) -> Summary:
    """What all machines saved, and whom it delayed. ``watts``: for machines whose ads do not say what they draw."""
    outcomes = list(outcomes)
    delays = sorted(delay for one in outcomes for delay in one.delays)
    vacated = sorted({job for one in outcomes for job in one.vacated})
    machines: list[MachineSummary] = []
    energy: float | None = 0.0
    for one in outcomes:
        saved = _saved_watts(past.ads.get(one.machine, ())) or watts
        energy = None if energy is None or not saved else energy + one.asleep_s / _HOUR_S * saved / 1000
        machines.append(
            {
                "machine": one.machine,
                "hours_idle": round(one.past_idle_s / _HOUR_S, 3),
                "hours_asleep": round(one.asleep_s / _HOUR_S, 3),
                "hours_waking": round(one.waking_s / _HOUR_S, 3),
                "sleeps": one.sleeps,
                "runs": one.runs,
                "runs_delayed": len(one.delays),
            }
        )
    return {
        "since": int(past.since),
        "until": int(past.until),
        "hours_idle": round(sum(one.past_idle_s for one in outcomes) / _HOUR_S, 3),
        "hours_asleep": round(sum(one.asleep_s for one in outcomes) / _HOUR_S, 3),
        "kwh_saved": None if energy is None else round(energy, 3),
        "sleeps": sum(one.sleeps for one in outcomes),
        "runs": sum(one.runs for one in outcomes),
        "runs_delayed": len(delays),
        "delay_s": {
            "median": round(percentile(delays, 0.5), 1),
            "95": round(percentile(delays, 0.95), 1),
            "most": round(delays[-1], 1) if delays else 0.0,
            "sum": round(sum(delays), 1),
        },
        "runs_vacated": vacated,
        "complaints": sorted({why for one in outcomes for why in one.complaints}),
        "machines": machines,
    }


def _saved_watts(ads: Iterable[ClassAd]) -> float:
    for ad in ads:
        saved = _moment(ad, "IdleWatts") - _moment(ad, "AsleepWatts")
        if 0 < saved <= 1e6:
            return saved
    return 0.0


def text_of(record: Summary) -> str:
    """The summary for people, and the machines that would have slept longest."""
    span_h = (record["until"] - record["since"]) / _HOUR_S
    idle, asleep, delay = record["hours_idle"], record["hours_asleep"], record["delay_s"]
    lines = [
        f"{len(record['machines'])} machines and {record['runs']} runs from {_date(record['since'])}"
        f" to {_date(record['until'])} ({span_h:.1f} hours)",
        f"idle:     {idle:.1f} machine-hours",
        f"asleep:   {asleep:.1f} machine-hours ({100 * asleep / idle if idle else 0:.0f} % of that),"
        f" in {record['sleeps']} sleeps",
    ]
    if record["kwh_saved"]:
        lines.append(f"saved:    {record['kwh_saved']:.1f} kWh")
    share = 100 * record["runs_delayed"] / record["runs"] if record["runs"] else 0
    lines.append(f"delayed:  {record['runs_delayed']} runs ({share:.1f} %)")
    if record["runs_delayed"]:
        lines[-1] += f", half of them by {delay['median']:.0f} s or less, 95 % by {delay['95']:.0f} s or less"
        lines[-1] += f", at most by {delay['most']:.0f} s"
    if vacated := record["runs_vacated"]:
        lines.append(
            f"WARNING: the policy would have sent {len(vacated)} running jobs away ({', '.join(vacated[:5])}"
            f"{', ...' if len(vacated) > 5 else ''}): it does not ask whether the slot is in use"
        )
    lines += [f"WARNING: {why}" for why in record["complaints"]]
    best = sorted(record["machines"], key=lambda one: (-one["hours_asleep"], one["machine"]))[:_MOST_LINES]
    columns = [Column("MACHINE", most=40)]
    columns += [Column(name, right=True) for name in ("IDLE", "ASLEEP", "SLEEPS", "RUNS", "DELAYED")]
    rows = [
        [
            one["machine"], f"{one['hours_idle']:.1f}", f"{one['hours_asleep']:.1f}", str(one["sleeps"]),
            str(one["runs"]), str(one["runs_delayed"]),
        ]
        for one in best
    ]  # fmt: skip
    more = len(record["machines"]) - len(best)
    return "\n".join(lines) + "\n\n" + table(columns, rows) + (f"... and {more} more machines\n" if more else "")


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
