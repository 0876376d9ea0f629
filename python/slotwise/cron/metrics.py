"""STARTD_CRON_<name>_METRICS: resources whose samples are summed, or whose peak is kept."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct


class Metric(Struct, frozen=True):
    """One of STARTD_CRON_<name>_METRICS."""

    resource: str
    peak: bool

    @property
    def attribute(self) -> str:
        """Its name in samples."""
        return f"Uptime{self.resource}{'PeakUsage' if self.peak else 'Seconds'}"

    def joined(self, values: Iterable[float]) -> float:
        """Combine several values into one."""
        return max(values) if self.peak else math.fsum(values)


def parse_metrics(text: str) -> tuple[list[Metric], list[str]]:
    """The metrics of a METRICS knob, and the words in it that are not metrics."""
    found, wrong = [], []
    for word in text.replace(",", " ").split():
        kind, _, resource = word.partition(":")
        if kind.upper() in ("SUM", "PEAK") and resource.isidentifier():
            found.append(Metric(resource, kind.upper() == "PEAK"))
        else:
            wrong.append(word)
    return found, wrong
