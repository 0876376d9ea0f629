"""The table of `qusers -daily`: what the jobs of users or projects did in the last hours and days, as in HTCondor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slotwise.classad import ClassAd

_HOUR, _DAY = 3600, 86400
_HEADINGS = ("Name", "Launched", "NoExec", "Requeued", "Held", "SlotHours", "IdleWeight")
_COUNTS = ("Launched", "FailedToStart", "Requeued", "Held")


def table(ads: Sequence[ClassAd], now: float, *, rescale: bool = False) -> str:
    """The lines for these records.

    :param rescale: show the weight of idle jobs as an average over the time that has passed, not over the whole span.
    """
    rows = [[*_HEADINGS], *(row for ad in ads for row in _rows(ad, now, rescale))]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEADINGS))]
    lines = (
        " ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines)


def _rows(ad: ClassAd, now: float, rescale: bool) -> Iterator[list[str]]:
    yield [str(ad.get("User") or ad.get("Name")), *[""] * (len(_HEADINGS) - 1)]
    began, span_s = _number(ad, "HourlyStatsStartTime", now), _number(ad, "HourlyStatsUnitSize", 4 * _HOUR)
    phase_s = _number(ad, "HourlyStatsUnitPhase", 0)
    lived_s = now - began
    lists = [ad.get(f"HourlyJobs{name}") for name in (*_COUNTS, "SlotTime", "WeightedIdle")]
    spans = max((len(found) for found in lists if isinstance(found, list)), default=0)
    shown_s = lived_s if spans < 2 else phase_s
    yield _row(ad, f"    last {shown_s / _HOUR:.1f} hrs", "Hourly", 0, 1, shown_s / span_s if rescale else 1)
    if spans > 1:
        shown_s = lived_s if spans == 2 else phase_s + span_s
        yield _row(ad, f"    Last {shown_s / _HOUR:.1f} hrs", "Hourly", 0, 2, shown_s / span_s if rescale else 1)
    if (lived_s > span_s or spans > 1) and lived_s >= 3 * span_s:
        yield _row(ad, f"    Last {min(24, int(lived_s // _HOUR))} hrs", "Hourly", 0, spans, max(1, spans))
    for label, day, least_s in (("Yesterday", 0, _DAY), ("Day Before", 1, 27 * _HOUR)):
        if lived_s > least_s:
            yield _row(ad, f"    {label}", "Daily", day, day + 1, max(1, spans))


def _row(ad: ClassAd, label: str, kind: str, first: int, end: int, divisor: float) -> list[str]:
    def cell(name: str, form: str, by: float = 1) -> str:
        values = ad.get(f"{kind}Jobs{name}")
        if not isinstance(values, list) or len(values) < end or not end:
            return ""
        total = sum(value for value in values[first:end] if isinstance(value, int | float))
        return format(total / by if form != "d" else total, form)

    divisor = divisor or 1
    return [
        label,
        *(cell(name, "d") for name in _COUNTS),
        cell("SlotTime", ".2f", _HOUR),
        cell("WeightedIdle", ".2f", divisor),
    ]


def _number(ad: ClassAd, name: str, default: float) -> float:
    value = ad.get(name)
    return value if isinstance(value, int | float) else default
