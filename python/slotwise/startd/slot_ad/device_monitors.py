"""What cron jobs with METRICS measure of devices: totals since the startd began, and what the job on them has used.

``SUM:GPUs`` adds up ``UptimeGPUsSeconds`` of all samples, ``PEAK:GPUsMemory`` keeps the greatest
``UptimeGPUsMemoryPeakUsage``. Each ad of such a job is about one device; a slot with several has the sum, or the
greatest, of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from slotwise.classad.evaluate import Value
from slotwise.cron.metrics import Metric


class Monitor(Struct):
    """The samples of one device so far. Times in seconds since the epoch."""

    totals: dict[Metric, float] = field(default_factory=dict)
    updated_at: float = 0.0
    #: Totals when the present job began, and when it was measured first; None without a job.
    began_with: dict[Metric, float] | None = None
    measured_from: float | None = None
    #: Peaks since then, or since the last job has ended.
    peaks: dict[Metric, float] = field(default_factory=dict)

    def take(self, sample: Mapping[Metric, float], now: float) -> None:
        """A new sample. Averages of a job go over whole samples, from the last one before it began."""
        if self.began_with is not None and self.measured_from is None:
            self.began_with = dict(self.totals)
            self.measured_from = self.updated_at
        for metric, value in sample.items():
            former = [self.totals[metric]] if metric in self.totals else []
            self.totals[metric] = metric.joined([*former, value])
            if metric.peak:
                self.peaks[metric] = max(value, self.peaks.get(metric, value))
        self.updated_at = now

    def job_begins(self) -> None:
        """A job starts on the device."""
        self.began_with, self.measured_from, self.peaks = dict(self.totals), None, {}

    def job_ends(self) -> None:
        """The claim of the job has ended."""
        self.began_with, self.measured_from, self.peaks = None, None, {}

    def used(self, metric: Metric) -> float:
        """By how much a total has grown since the job began."""
        return self.totals.get(metric, 0.0) - (self.began_with or {}).get(metric, 0.0)


def of_device(monitors: Iterable[Monitor], uptime_s: float, *, totals: bool) -> dict[str, Value]:
    """What a slot's ad says of all its devices since the startd began, ``uptime_s`` ago. ``totals``: sums as they are,
    too (ADVERTISE_CMR_UPTIME_SECONDS)."""
    attributes: dict[str, Value] = {}
    for metric, values in _values(monitors, lambda m: m.totals).items():
        whole = metric.joined(values)
        if metric.peak:
            attributes[f"Device{metric.resource}PeakUsage"] = whole
            continue
        if uptime_s > 0:
            attributes[f"Device{metric.resource}AverageUsage"] = whole / uptime_s
        if totals:
            attributes[metric.attribute] = whole
    return attributes


def of_job(monitors: Iterable[Monitor]) -> dict[str, Value]:
    """What the job on these devices has used: the average over whole samples, and the peak."""
    monitors = list(monitors)
    attributes: dict[str, Value] = {
        f"{metric.resource}Usage": metric.joined(values)
        for metric, values in _values(monitors, lambda m: m.peaks).items()
    }
    measured = [m for m in monitors if m.measured_from is not None]
    spans = [m.updated_at - m.measured_from for m in measured if m.measured_from is not None]
    if spans and max(spans) > 0:
        for metric in _values(measured, lambda m: m.totals):
            if not metric.peak:
                used = math.fsum(m.used(metric) for m in measured)
                attributes[f"{metric.resource}AverageUsage"] = used / max(spans)
    return attributes


def _values(
    monitors: Iterable[Monitor], part: Callable[[Monitor], Mapping[Metric, float]]
) -> dict[Metric, list[float]]:
    found: dict[Metric, list[float]] = {}
    for monitor in monitors:
        for metric, value in part(monitor).items():
            found.setdefault(metric, []).append(value)
    return found
