"""``slotwise power report``: machine-hours asleep by host and day, and the energy that was saved."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import grpc

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.pool.sleep_hours import Day, Report, days_before, report
from slotwise.cli.render.picture import require
from slotwise.cli.render.table import Column, table
from slotwise.errors import UsageError
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc
from slotwise.wire.status import to_error

_OPTIONS = [
    Option("help", 1), Option("json", 1), Option("days", 2, 1), Option("plot", 2, 1), Option("watts", 1, 1),
    Option("pool", 2, 1),
]  # fmt: skip
#: More days than this have no column each.
_MOST_COLUMNS = 10
_MOST_DAYS = 3660
USAGE = """usage: slotwise power report [options] [MACHINE ...]
  Machine-hours asleep by machine and day, from the collector's record, and the energy that was saved where a machine
  says what it draws (SLOTWISE_POWER_WATTS).
  -days N        today and the N - 1 days before it (7)
  -watts W       what a machine draws less while it sleeps, for those that do not say
  -plot FILE     draw it, as a PNG or SVG file (needs matplotlib)
  -json          everything, for programs
  -pool HOST:PORT"""


def main(args: list[str], inv: Invocation) -> int:
    """Ask the collector, and show."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    count = parsed.number("days")
    count = 7 if count is None else count
    if not 1 <= count <= _MOST_DAYS:
        raise UsageError(f"-days {count} is not a number of days", hint=f"1 to {_MOST_DAYS}")
    picture = parsed.value("plot")
    if picture is not None:
        require(picture)  # before anything is asked
    now = time.time()
    days = days_before(now, count)
    sleeps = _asked(inv.aimed(parsed.value("pool")), days, [word.lower() for word in parsed.words])
    found = report(sleeps, days, now, _watts(parsed.value("watts")))
    if picture is not None:
        from slotwise.cli.pool import power_plot

        power_plot.draw(found, inv.path(picture))
        inv.err(f"drawn: {picture}")
    if parsed.has("json"):
        inv.out(json.dumps(_record(found, now), indent=2))
    elif found.machines:
        inv.out(text_of(found), end="")
    else:
        inv.out(f"No machine has slept since {days[0].label}.")
    return 0


def _watts(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        watts = float(text)
    except ValueError:
        watts = -1.0
    if not 0 < watts <= 1e6:
        raise UsageError(f"-watts {text} is not a number of watts", hint="what an idle machine draws, as 85")
    return watts


def _asked(inv: Invocation, days: Sequence[Day], machines: list[str]) -> list[collector_pb2.Sleep]:
    request = collector_pb2.SleepsRequest(since=int(days[0].begin), until=int(days[-1].end), machines=machines)
    try:
        stub = inv.stub(collector_pb2_grpc.CollectorStub, "collector")
        return [sleep for reply in stub.Sleeps(request) for sleep in reply.sleeps]
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None


def text_of(found: Report) -> str:
    """The table: a column for each day while they are few."""
    each = found.days if len(found.days) <= _MOST_COLUMNS else ()
    columns = [Column("MACHINE", most=40), *(Column(day.label[5:], right=True, width=5) for day in each)]
    columns += [Column(heading, right=True) for heading in ("HOURS", "PER-DAY", "SLEEPS", "kWh")]

    def row(name: str, hours: Sequence[float], total: float, sleeps: int, kwh: float | None) -> list[str]:
        cells = [f"{value:.1f}" if value else "-" for value in (hours if each else ())]
        energy = "-" if kwh is None else f"{kwh:.2f}"
        return [name, *cells, f"{total:.1f}", f"{total / len(found.days):.1f}", str(sleeps), energy]

    rows = [
        row(one.machine + (" *" if one.sleeps_now else ""), one.hours, one.total, one.sleeps, one.kwh)
        for one in found.machines
    ]
    sleeps = sum(one.sleeps for one in found.machines)
    rows.append(row(f"{len(found.machines)} machines", found.by_day, sum(found.by_day), sleeps, found.kwh))
    notes = "* sleeps now\n" if any(one.sleeps_now for one in found.machines) else ""
    if any(one.kwh is None for one in found.machines):
        notes += "- in kWh: the machine's power draw is not known (SLOTWISE_POWER_WATTS, or -watts)\n"
    return table(columns, rows) + notes


def _record(found: Report, now: float) -> dict[str, object]:
    def by_day(hours: Sequence[float]) -> dict[str, float]:
        return {day.label: round(value, 4) for day, value in zip(found.days, hours, strict=True)}

    def kwh(value: float | None) -> float | None:
        return None if value is None else round(value, 4)

    return {
        "until": int(now),
        "hours_asleep": round(sum(found.by_day), 4),
        "kwh_saved": kwh(found.kwh),
        "days": by_day(found.by_day),
        "machines": [
            {
                "machine": one.machine,
                "hours_asleep": round(one.total, 4),
                "kwh_saved": kwh(one.kwh),
                "sleeps": one.sleeps,
                "sleeps_now": one.sleeps_now,
                "days": by_day(one.hours),
            }
            for one in found.machines
        ],
    }
