"""The time that a report is about, and its parts: hours, days or weeks of the caller's calendar."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Literal, get_args

from msgspec import Struct

from slotwise.errors import UsageError

Step = Literal["hour", "day", "week"]
STEPS: tuple[Step, ...] = get_args(Step)
#: Parts of a report at most.
_MOST = 5000
_UNITS_S = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


class Periods(Struct, frozen=True):
    """Consecutive parts of time: part ``i`` is from ``edges[i]`` until ``edges[i + 1]``, in epoch seconds."""

    step: Step
    edges: tuple[float, ...]

    @property
    def since(self) -> float:
        """Where the first begins."""
        return self.edges[0]

    @property
    def until(self) -> float:
        """Where the last ends."""
        return self.edges[-1]

    @property
    def seconds(self) -> tuple[float, ...]:
        """How long each is; a day on which clocks are changed has 23 or 25 hours."""
        return tuple(end - begin for begin, end in zip(self.edges, self.edges[1:], strict=False))

    @property
    def labels(self) -> tuple[str, ...]:
        """The begin of each, in local time."""
        form = "%Y-%m-%d %H:%M" if self.step == "hour" else "%Y-%m-%d"
        return tuple(datetime.fromtimestamp(begin).strftime(form) for begin in self.edges[:-1])


def moment(text: str, now: float) -> float:
    """A time as users write it: ``2026-03-01``, ``2026-03-01 12:00``, epoch seconds, or how long ago: ``12h``, ``7d``.

    :raises UsageError: when it is none of these.
    """
    text = text.strip()
    if ago := re.fullmatch(r"(\d{1,6})([mhdw])", text):
        return now - int(ago[1]) * _UNITS_S[ago[2]]
    if re.fullmatch(r"\d{9,11}", text):
        return float(text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a time",
            hint="YYYY-MM-DD, 'YYYY-MM-DD HH:MM', seconds since the epoch, or 12h, 7d, 4w ago",
        ) from None


def periods(since: float, until: float, step: Step | None = None) -> Periods:
    """The parts between two times; the first and the last may be cut short. Without ``step`` one that fits the length.

    :raises UsageError: when there is nothing between, or too much.
    """
    if not since < until:
        raise UsageError("the report ends before it begins", hint="-since is before -until")
    days = (until - since) / 86400
    if step is None:
        step = "hour" if days <= 2.1 else "day" if days <= 92 else "week"
    if days * {"hour": 24, "day": 1, "week": 1 / 7}[step] > _MOST:
        raise UsageError(f"more than {_MOST} parts of an {step} are too many" if step == "hour" else "too long a time",
                         hint="take longer parts: -by week")  # fmt: skip
    edges, at = [since], _next(since, step)
    while at < until:
        edges.append(at)
        at = _next(at, step)
    return Periods(step, (*edges, until))


def _next(at: float, step: Step) -> float:
    """Where the next hour, day or week (from Monday) begins."""
    if step == "hour":
        return at // 3600 * 3600 + 3600
    today = datetime.fromtimestamp(at).replace(hour=0, minute=0, second=0, microsecond=0)
    days = 1 if step == "day" else 7 - today.weekday()
    return (today + timedelta(days=days)).timestamp()
