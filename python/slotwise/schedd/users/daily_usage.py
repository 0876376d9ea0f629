"""What the jobs of users and projects did of late: by the last six four-hour spans, and by the last ten days. Pure.

As in HTCondor, spans begin at local midnight, counters begin again with the daemon, and only jobs that run on slots
count: starts, runs that could not begin, that went back to the queue or got held, the time on slots in seconds, and
how many cores idle jobs asked for on average over a span (their weight).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from slotwise.model.windows import Ring, Window
from slotwise.schedd.jobs.job import Cluster
from slotwise.schedd.storage.batch import RecordKind

_HOUR, _DAY = 3600, 86400
SPAN_S = 4 * _HOUR
_SPANS, _DAYS = _DAY // SPAN_S, 10
_INTEGERS = ("SlotTime", "Launched", "FailedToStart", "Requeued", "Held")
#: The counters of a run's end, by those of the schedd's statistics.
_ENDS = {
    "JobsShouldRequeue": "Requeued",
    "JobsNotStarted": "FailedToStart",
    "JobsExecFailed": "FailedToStart",
    "JobsShouldHold": "Held",
}


class _Usage:
    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self.spans: Ring[Counter[str]] = Ring(Counter, Window(_DAY, SPAN_S))
        self.days: Ring[Counter[str]] = Ring(Counter, Window((_DAYS + 1) * _DAY, _DAY))


class DailyUsage:
    """The counters of all users and projects that have had jobs since the daemon began."""

    def __init__(self, began: float, utc_offset_s: float, *, projects: bool = True) -> None:
        """
        :param began: when the daemon started, seconds since the epoch.
        :param utc_offset_s: how far local time is ahead of UTC.
        :param projects: whether projects are counted, too.
        """
        self._began = began
        self._offset_s = utc_offset_s
        self._projects = projects
        self._of: dict[tuple[RecordKind, str], _Usage] = {}

    def launched(self, cluster: Cluster, now: float) -> None:
        """Count the start of a run."""
        if not cluster.runs_here:
            self._add(cluster.user, cluster.project, now, {"Launched": 1})

    def ended(self, cluster: Cluster, counted: Iterable[str], now: float) -> None:
        """Count the end of a run; ``counted``: the statistics of the schedd that count it."""
        amounts = {_ENDS[name]: 1 for name in counted if name in _ENDS}
        if amounts and not cluster.runs_here:
            self._add(cluster.user, cluster.project, now, amounts)

    def passed(
        self, user: str, project: str, jobs: int, idle_cores: float | None, elapsed_s: float, now: float
    ) -> None:
        """Count the time that has passed for some jobs: running ones, or idle ones that ask for ``idle_cores`` each.

        :param project: its name in lower case, or "".
        """
        if idle_cores is None:
            self._add(user, project, now, {"SlotTime": jobs * elapsed_s})
        else:
            self._add(user, project, now, {"WeightedIdle": jobs * idle_cores * elapsed_s / SPAN_S})

    def _add(self, user: str, project: str, now: float, amounts: Mapping[str, float]) -> None:
        local = now + self._offset_s
        keys: list[tuple[RecordKind, str]] = [(RecordKind.USER, user)]
        if project and self._projects:
            keys.append((RecordKind.PROJECT, project))
        for key in keys:
            usage = self._of.get(key)
            if usage is None:
                usage = self._of[key] = _Usage()
            for counter in (usage.total, usage.spans.at(local), usage.days.at(local)):
                for name, amount in amounts.items():
                    counter[name] += amount  # type: ignore[assignment] # times are fractions

    def attributes(self, kind: RecordKind, name: str, now: float) -> dict[str, int | list[int | float]]:
        """The attributes of a record; a project by its name in lower case. Counters that are 0 are left out."""
        local, began = now + self._offset_s, self._began + self._offset_s
        found: dict[str, int | list[int | float]] = {
            "HourlyStatsStartTime": int(self._began),
            "HourlyStatsUnitSize": SPAN_S,
            "HourlyStatsUnitPhase": int(local % SPAN_S),
        }
        usage = self._of.get((kind, name))
        if usage is None:
            return found
        spans = max(1, min(_SPANS, int(local // SPAN_S) - int(began // SPAN_S) + 1))
        days = max(0, min(_DAYS, int(local // _DAY) - int(began // _DAY)))
        by_span, by_day = dict(usage.spans.aged(local)), dict(usage.days.aged(local))
        for counter in usage.total:
            found[f"HourlyJobs{counter}"] = list(_amounts(by_span, counter, range(spans)))
            found[f"DailyJobs{counter}"] = list(_amounts(by_day, counter, range(1, days + 1)))
        return found


def _amounts(by_age: Mapping[int, Counter[str]], name: str, ages: range) -> Iterator[int | float]:
    for age in ages:
        amount: float = by_age[age][name] if age in by_age else 0
        yield int(amount) if name in _INTEGERS else float(amount)
