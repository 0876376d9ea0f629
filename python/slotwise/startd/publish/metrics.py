"""What the startd measures for Prometheus: its slots by state, jobs started and preempted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from slotwise.metrics import FromAttribute, families_of
from slotwise.startd.host.execution_point import ExecutionPoint

_DOCUMENTS = {
    "slotwise_startd_job_starts": "Jobs that were started on this machine.",
    "slotwise_startd_preemptions": "Jobs that were preempted on this machine, by cause.",
}
_ROWS = (
    FromAttribute("slotwise_startd_job_starts", "JobStarts", counts=True),
    FromAttribute("slotwise_startd_preemptions", "JobPreemptions", {"cause": "all"}, counts=True),
    FromAttribute("slotwise_startd_preemptions", "JobRankPreemptions", {"cause": "rank"}, counts=True),
    FromAttribute("slotwise_startd_preemptions", "JobUserPrioPreemptions", {"cause": "priority"}, counts=True),
)


class StartdMetrics:
    """Reads the families of one execution point."""

    def __init__(self, point: ExecutionPoint, now: Callable[[], float]) -> None:
        self._point = point
        self._now = now

    def __call__(self) -> Iterator[Metric]:
        """All families."""
        yield from families_of(_ROWS, self._point.ads.statistics.attributes(self._now()), _DOCUMENTS)
        slots = GaugeMetricFamily(
            "slotwise_startd_slots", "Slots of this machine by kind, state and activity.",
            labels=["kind", "state", "activity"],
        )  # fmt: skip
        counts = Counter((str(record.slot.kind), *map(str, record.slot.state_activity)) for record in self._point.slots)
        for labels, count in sorted(counts.items()):
            slots.add_metric(list(labels), count)
        yield slots
