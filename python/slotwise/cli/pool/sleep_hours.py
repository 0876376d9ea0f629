"""Hours that machines slept, by machine and day, and the energy that was saved. Pure.

Times are seconds since the epoch, energy is in kWh.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from slotwise.wire.gen import collector_pb2

_HOUR_S = 3600.0


class Day(Struct, frozen=True):
    """A day of the caller's calendar, from ``begin`` until ``end`` (epoch seconds)."""

    label: str
    begin: float
    end: float


class Saved(Struct):
    """What one machine has slept.

    :param hours: for each day, in the order of the days.
    :param kwh: None where a part of it is not known.
    """

    machine: str
    hours: list[float]
    sleeps: int = 0
    kwh: float | None = 0.0
    sleeps_now: bool = False

    @property
    def total(self) -> float:
        """Hours of all days."""
        return sum(self.hours)


class Report(Struct, frozen=True):
    """All machines that slept on these days, those that slept longest first."""

    days: tuple[Day, ...]
    machines: tuple[Saved, ...] = ()
    by_day: tuple[float, ...] = field(default=())

    @property
    def kwh(self) -> float | None:
        """What all have saved together; None where that is not known of one of them."""
        known = [one.kwh for one in self.machines if one.kwh is not None]
        return sum(known) if len(known) == len(self.machines) else None


def days_before(now: float, count: int) -> tuple[Day, ...]:
    """The day of ``now`` and those before it, the oldest first; days of 23 or 25 hours are what they are."""
    today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    found = []
    for back in range(count - 1, -1, -1):
        first = today - timedelta(days=back)
        found.append(Day(f"{first:%Y-%m-%d}", first.timestamp(), (first + timedelta(days=1)).timestamp()))
    return tuple(found)


def report(
    sleeps: Iterable[collector_pb2.Sleep], days: Sequence[Day], now: float, watts: float | None = None
) -> Report:
    """Divide sleeps by machines and days. A sleep that has not ended counts until ``now``.

    :param watts: what machines draw less while they sleep that do not say so.
    """
    found: dict[str, Saved] = {}
    for sleep in sleeps:
        end = float(sleep.ended) if sleep.ended else now
        hours = [max(0.0, min(end, day.end) - max(sleep.began, day.begin)) / _HOUR_S for day in days]
        if not any(hours) and sleep.ended:
            continue
        one = found.setdefault(sleep.machine, Saved(sleep.machine, [0.0] * len(days)))
        one.hours = [former + more for former, more in zip(one.hours, hours, strict=True)]
        one.sleeps += 1
        one.sleeps_now |= not sleep.ended
        saved = sleep.saved_watts or watts
        one.kwh = None if one.kwh is None or not saved else one.kwh + sum(hours) * saved / 1000
    machines = tuple(sorted(found.values(), key=lambda one: (-one.total, one.machine)))
    return Report(tuple(days), machines, tuple(sum(one.hours[at] for one in machines) for at in range(len(days))))
