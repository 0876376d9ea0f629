"""Reports as tables for people, and as records for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from slotwise.cli.render.table import Column, table
from slotwise.cli.render.times import span

if TYPE_CHECKING:
    from slotwise.analysis.fairness import Fairness
    from slotwise.analysis.periods import Periods
    from slotwise.analysis.usage import Usage
    from slotwise.analysis.waits import Waited, Waits
    from slotwise.analysis.waste import Waste

#: More parts of the time than this have no column each.
_MOST_COLUMNS = 8
#: Rows of a table; the rest is summed up.
_MOST_ROWS = 50


def _head(what: str, when: Periods) -> str:
    since, until = (datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M") for at in (when.since, when.until))
    return f"{what}, {since} to {until}\n\n"


def _right(*headings: str) -> list[Column]:
    return [Column(heading, right=True) for heading in headings]


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}%" if whole > 0 else "-"


def number(value: float | None) -> str:
    """A quantity for people: whole from 100 on, else to a tenth, and what is less than that to its first digit."""
    if value is None:
        return "-"
    if abs(value) < 0.1:
        return f"{value:.1g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _rest(rows: Sequence[object]) -> str:
    return f"({len(rows) - _MOST_ROWS} more; -json lists all)\n" if len(rows) > _MOST_ROWS else ""


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]


def usage_text(found: Usage) -> str:
    """Who used what, with a column for each part of the time while these are few."""
    when = found.periods
    each = when.labels if len(when.labels) <= _MOST_COLUMNS else ()
    length = sum(when.seconds) / 3600
    columns = [Column(found.per.upper(), most=44), *_right(*(label[5:] for label in each))]
    columns += _right("CORES", "PEAK", "QUOTA", "OF-QUOTA", "CORE-HOURS", "GPU-HOURS", "JOBS")
    rows = []
    for row in found.rows[:_MOST_ROWS]:
        mean = row.core_hours / length
        rows.append([
            row.name, *(number(cores) for cores in (row.cores if each else ())), number(mean), number(row.peak),
            number(row.quota), _share(mean_of(row.with_below, when), row.quota) if row.quota else "-",
            number(row.core_hours), number(row.gpu_hours), f"{row.jobs:,}",
        ])  # fmt: skip
    whole = sum(row.core_hours for row in found.rows)
    rows.append([
        "all", *(number(cores) for cores in (found.cores if each else ())), number(whole / length),
        number(max(found.cores, default=0.0)), "", "", number(whole),
        number(sum(row.gpu_hours for row in found.rows)), f"{sum(row.jobs for row in found.rows):,}",
    ])  # fmt: skip
    head = _head(
        f"Cores in use by {found.per}: means of the time" + (f" and of each {when.step}" if each else ""), when
    )
    return head + table(columns, rows) + _rest(found.rows)


def mean_of(values: Sequence[float], when: Periods) -> float:
    """The mean over the whole time of means of its parts."""
    return sum(value * length for value, length in zip(values, when.seconds, strict=True)) / sum(when.seconds)


def usage_record(found: Usage) -> dict[str, object]:
    """All rows, with the cores in each part of the time."""
    return {
        "per": found.per,
        "periods": list(found.periods.labels),
        "rows": [
            asdict(row)
            | {"cores": _rounded(row.cores), "with_below": _rounded(row.with_below), "peak": round(row.peak, 4)}
            for row in found.rows
        ],
    }


def fairness_text(found: Fairness) -> str:
    """What each user got, and what was due."""
    whole = sum(part.got_hours for part in found.parts)
    rows = [
        [part.user, number(part.factor), number(part.wanted_hours), number(part.due_hours),
         _share(part.due_hours, whole), number(part.got_hours), _share(part.got_hours, whole), f"{part.ratio:.2f}"]
        for part in found.parts[:_MOST_ROWS]
    ]  # fmt: skip
    columns = [Column("USER", most=44), *_right("FACTOR", "WANTED", "DUE", "DUE%", "GOT", "GOT%", "GOT/DUE")]
    return (
        _head("Core-hours that users wanted, were due and got", found.periods)
        + table(columns, rows)
        + _rest(found.parts)
        + f"\nFairness index {found.index:.3f} (1: everybody got what was due)\n"
    )


def fairness_record(found: Fairness) -> dict[str, object]:
    """All users."""
    return {
        "index": round(found.index, 4),
        "users": [asdict(part) | {"ratio": round(part.ratio, 4)} for part in found.parts],
    }


def waste_text(found: Waste) -> str:
    """What each user asked for and used; then evictions."""
    rows = [
        [row.user, f"{row.jobs:,}", number(row.core_hours), _share(row.cpu_hours, row.core_hours),
         number(row.idle_core_hours), number(row.gb_hours), _share(row.used_gb_hours, row.gb_hours),
         f"{row.evictions:,}", number(row.badput_hours), _share(row.badput_hours, row.core_hours)]
        for row in found.users[:_MOST_ROWS]
    ]  # fmt: skip
    columns = [
        Column("USER", most=44),
        *_right("JOBS", "CORE-H", "CPU-USED", "IDLE-CORE-H", "GB-H", "MEM-USED", "EVICTED", "BADPUT-H", "BADPUT"),
    ]
    text = _head("Asked for and used, of jobs that ended", found.periods) + table(columns, rows) + _rest(found.users)
    if found.reasons:
        lost = [[row.reason, f"{row.evictions:,}", number(row.badput_hours)] for row in found.reasons]
        text += "\nEvictions, and the core-hours whose work was lost\n\n"
        text += table([Column("REASON"), *_right("EVICTIONS", "BADPUT-H")], lost)
    return text


def waste_record(found: Waste) -> dict[str, object]:
    """All users and reasons."""
    return {"users": [asdict(row) for row in found.users], "reasons": [asdict(row) for row in found.reasons]}


def waits_text(found: Waits) -> str:
    """The spread of waits of each kind of jobs."""
    shown = [*found.rows[:_MOST_ROWS], *([found.all] if found.all and len(found.rows) > 1 else [])]
    columns = [
        Column(found.per.upper(), most=44),
        *_right("STARTED", "WAITING", "MEAN", "10%", "25%", "50%", "75%", "90%", "99%", "MOST"),
    ]
    rows = [
        [row.name, f"{row.jobs:,}", f"{row.waiting:,}",
         *((span(row.mean_s), *(span(value) for value in row.quantiles), span(row.most_s)) if row.jobs else ["-"] * 8)]
        for row in shown
    ]  # fmt: skip
    head = _head(f"From submission to the first start by {found.per}: shares of jobs that waited at most so long",
                 found.periods)  # fmt: skip
    return head + table(columns, rows) + _rest(found.rows)


def waits_record(found: Waits) -> dict[str, object]:
    """All kinds of jobs, with quantiles by share."""
    from slotwise.analysis.waits import SHARES

    def record(row: Waited) -> dict[str, object]:
        quantiles = {f"{share:g}": round(value, 3) for share, value in zip(SHARES, row.quantiles, strict=False)}
        return {
            "name": row.name, "started": row.jobs, "waiting": row.waiting, "mean_s": round(row.mean_s, 3),
            "most_s": row.most_s, "quantiles_s": quantiles,
        }  # fmt: skip

    return {
        "per": found.per,
        "rows": [record(row) for row in found.rows],
        "all": record(found.all) if found.all else None,
    }
