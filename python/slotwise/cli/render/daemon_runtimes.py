"""What a daemon has spent its time on between two of its ads, as `top` shows it. Pure.

A statistic ``X`` counts how often something was done, ``XRuntime`` how long that took in seconds; ``XRuntimeAvg``,
``Max``, ``Min`` and ``Std`` are over the daemon's life.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.errors import UsageError

Cell = float | int | str | None
Row = Mapping[str, Cell]


class Column(Struct, frozen=True):
    """Its heading in three lines, and of which kind its numbers are: float, floatneg (may be negative), int or str."""

    scope: str
    what: str
    unit: str
    kind: str = "float"

    @property
    def heading(self) -> tuple[str, str, str]:
        """The three lines."""
        return (self.scope, self.what, self.unit)


COLUMNS: dict[str, Column] = {
    "TotalRt": Column("Total", "Runtime", "(s)"),
    "InstRt": Column("Recent", "Runtime", "(s)"),
    "InstAvg": Column("Recent", "Avg", "(s)"),
    "TotAvg": Column("Lifetime", "Avg", "(s)"),
    "TotMax": Column("Lifetime", "Max", "(s)"),
    "TotMin": Column("Lifetime", "Min", "(s)"),
    "RtPctAvg": Column("Pct of", "Avg", "(%)"),
    "RtPctMax": Column("Pct of", "Max", "(%)"),
    "RtSigmas": Column("Std", "Devs", "", "floatneg"),
    "TotalCt": Column("Total", "Count", "(#)", "int"),
    "InstCt": Column("Recent", "Count", "(#)", "int"),
    "InstRate": Column("Recent", "Rate", "(/s)"),
    "AvgRate": Column("Lifetime", "Rate", "(/s)"),
    "CtPctAvg": Column("Pct of", "Rate", "(%)"),
    "Item": Column("", "Name", "", "str"),
}
SETS: dict[str, tuple[str, ...]] = {
    "default": ("InstRt", "InstAvg", "TotAvg", "TotMax", "RtPctAvg", "InstRate", "AvgRate", "Item"),
    "runtime": ("InstRt", "InstAvg", "TotAvg", "TotMax", "RtPctAvg", "RtPctMax", "RtSigmas", "Item"),
    "count": ("TotalCt", "InstCt", "InstRate", "AvgRate", "CtPctAvg", "Item"),
    "all": tuple(COLUMNS),
}
_RUNTIME = re.compile(r"(.*)Runtime")
#: Statistics that are left out.
_LEFT_OUT = re.compile(r"DC(Socket|Pipe).*|SCGetAutoCluster_cchit")


def number(ad: ClassAd, name: str) -> float | int | None:
    """A finite number of the ad."""
    value = ad.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return value


def items(ad: ClassAd) -> list[str]:
    """The statistics of an ad that have run times."""
    names = [found[1] for name in ad if (found := _RUNTIME.fullmatch(name)) and not _LEFT_OUT.fullmatch(found[1])]
    return [name for name in names if number(ad, name) is not None]


def times(old: ClassAd, new: ClassAd) -> tuple[float, float]:
    """When the two ads were made, in seconds since the epoch.

    :raises UsageError: they are of one moment, or of a daemon that was started anew between them.
    """
    started, before = number(new, "DaemonStartTime"), number(old, "DaemonStartTime")
    lives = number(old, "StatsLifetime"), number(new, "StatsLifetime")
    first, last = number(old, "MyCurrentTime") or 0, number(new, "MyCurrentTime") or 0
    if started is not None and before is not None and lives[0] is not None and lives[1] is not None:
        if started != before:
            raise UsageError("Daemon ads have different start times.")
        then, now = started + lives[0], started + lives[1]
        if then != now and math.isfinite(now - then):
            return then, now
    if last <= first:
        raise UsageError("ClassAds have the same timestamp.")
    return first, last


def rows(old: ClassAd, new: ClassAd, more: Sequence[str] = ()) -> list[Row]:
    """A row for each statistic that both ads have, and for the attributes of ``more``."""
    then, now = times(old, new)
    found = []
    for name in [*items(new), *more]:
        count, before = number(new, name), number(old, name)
        if count is None or before is None:
            continue
        found.append(_row(name, old, new, count, count - before, now - then))
    return found


def _row(name: str, old: ClassAd, new: ClassAd, count: float, more: float, seconds: float) -> Row:
    total, before = number(new, f"{name}Runtime"), number(old, f"{name}Runtime")
    recent = None if total is None or before is None else total - before
    average = recent / more if recent is not None and more > 0 else None
    mean, most, least, deviation = (number(new, f"{name}Runtime{kind}") for kind in ("Avg", "Max", "Min", "Std"))
    of_range = None
    if average is not None and most is not None and least is not None:
        of_range = 100.0 if most == least else 100 * (average - least) / (most - least)
    life = number(new, "StatsLifetime")
    rate, mean_rate = more / seconds, count / life if life else None
    return {
        "TotalRt": total if before is not None else None,
        "InstRt": recent,
        "InstAvg": average,
        "TotAvg": mean,
        "TotMax": most,
        "TotMin": least,
        "RtPctAvg": 100 * average / mean if average is not None and mean else None,
        "RtPctMax": of_range,
        "RtSigmas": (average - mean) / deviation if average is not None and mean is not None and deviation else None,
        "TotalCt": count,
        "InstCt": more,
        "InstRate": rate,
        "AvgRate": mean_rate,
        "CtPctAvg": 100 * rate / mean_rate if more > 0 and mean_rate else None,
        "Item": name.removeprefix("DC"),
    }


def ordered(found: Sequence[Row], column: str) -> list[Row]:
    """The rows with the greatest value of a column first; those without one last."""

    def key(row: Row) -> tuple[bool, float, str]:
        value = row[column]
        if isinstance(value, str):
            return True, 0.0, value
        return value is not None, value or 0.0, ""

    return sorted(found, key=key, reverse=True)


def table(found: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Three lines of headings, a rule, and a line for each row."""
    shapes = {name: _shape(COLUMNS[name], [row[name] for row in found]) for name in names}
    lines = []
    for part in range(3):
        cells = [_left_or_right(COLUMNS[name], COLUMNS[name].heading[part], shapes[name][0]) for name in names]
        lines.append(" ".join(cells).rstrip())
    lines.append(" ".join("-" * max(shapes[name][0], len(COLUMNS[name].what)) for name in names))
    for row in found:
        lines.append(" ".join(_cell(COLUMNS[name], row[name], *shapes[name]) for name in names))
    return lines


def _shape(column: Column, cells: Sequence[Cell]) -> tuple[int, int]:
    """Width, and decimals: as many as fit below the heading."""
    if column.kind == "str":
        return 0, 0
    heading = max(len(part) for part in column.heading)
    numbers = [cell for cell in cells if isinstance(cell, int | float) and math.isfinite(cell)] or [0]
    # As HTCondor's tool: a value that is not there counts as 0.
    if len(numbers) < len(cells):
        numbers.append(0)
    width = max(len(str(int(max(numbers)))), len(str(int(min(numbers))))) + (column.kind == "floatneg")
    if column.kind == "int" or width + 1 >= heading:
        return max(width, heading), 0
    return heading, heading - width - 1


def _left_or_right(column: Column, text: str, width: int) -> str:
    return text if column.kind == "str" else text.rjust(width)


def _cell(column: Column, value: Cell, width: int, decimals: int) -> str:
    if column.kind == "str":
        return str(value)
    if not isinstance(value, int | float):
        return "n/a".rjust(width)
    return f"{value:>{width}.{0 if column.kind == 'int' else decimals}f}"


def duty(old: ClassAd, new: ClassAd) -> tuple[float, float] | None:
    """Percent of the time between two ads that the daemon was busy, and calls a second; None where that is unknown."""
    names = ("DCSelectWaittime", "DCPumpCycleSum", "DCCommands")
    pairs = [(number(old, name), number(new, name)) for name in names]
    if any(before is None or after is None for before, after in pairs):
        return None
    waited, cycles, calls = ((after or 0) - (before or 0) for before, after in pairs)
    if cycles < 1e-6:
        return None
    then, now = times(old, new)
    return 100 * (1 - waited / cycles), calls / (now - then)


def memory(kib: float) -> str:
    """An amount of memory for people."""
    suffixes = "KMGTP"
    place = next((n for n in range(len(suffixes)) if kib < 1000 ** (n + 1)), len(suffixes) - 1)
    return f"{kib / 1000**place:.1f} {suffixes[place]}"


def moment(seconds: float) -> str:
    """A time, as HTCondor's tool shows it; the number itself where no calendar has it."""
    try:
        return str(datetime.fromtimestamp(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"


def span(seconds: float) -> str:
    """How long something took; the number itself where it is beyond all measure."""
    try:
        return str(timedelta(seconds=seconds))
    except OverflowError:
        return f"{seconds:g} s"
