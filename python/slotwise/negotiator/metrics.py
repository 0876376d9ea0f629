"""What the negotiator measures of its cycles for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from slotwise.matchmaking.demand import UnmetDemand
from slotwise.matchmaking.reasons import reason_label
from slotwise.matchmaking.reports import CycleReport
from slotwise.matchmaking.rows import Refusal

_CYCLE_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
# Without a registry: every daemon's process loads this module, and only the negotiator is to report it.
_CYCLES = Histogram(
    "slotwise_negotiation_cycle_duration_seconds", "Length of a cycle.", buckets=_CYCLE_S, registry=None
)
_PHASES = Histogram(
    "slotwise_negotiation_phase_duration_seconds",
    "Length of the parts of a cycle: requests gathered, slots matched, matches dispatched.",
    ["phase"],
    buckets=_CYCLE_S,
    registry=None,
)
_MATCHES = Counter("slotwise_matches", "Matches that schedds were given.", registry=None)
_PREEMPTIONS = Counter("slotwise_preemptions", "Matches that end the claim of somebody else.", registry=None)
_REJECTED = Counter(
    "slotwise_rejected_jobs", "Jobs that were considered in a cycle and got nothing, by reason.", ["reason"],
    registry=None,
)  # fmt: skip
_FAILED = Counter(
    "slotwise_unreachable_schedds", "Schedds that did not answer in a cycle, counted in each.", registry=None
)
_COUNTED = (_CYCLES, _PHASES, _MATCHES, _PREEMPTIONS, _REJECTED, _FAILED)


def counted() -> Iterator[Metric]:
    """The families of all cycles so far."""
    for metric in _COUNTED:
        yield from metric.collect()


def observe(report: CycleReport) -> None:
    """Count a cycle that has ended."""
    _CYCLES.observe(report.duration_s)
    _PHASES.labels("gather").observe(report.gather_s)
    _PHASES.labels("match").observe(float(report.timings.get("total_s", 0.0)))
    _PHASES.labels("dispatch").observe(report.dispatch_s)
    _MATCHES.inc(report.matches)
    _PREEMPTIONS.inc(report.preemptions)
    _FAILED.inc(len(report.failed_schedds))
    refusals: list[Refusal] = [*report.rejections, *report.waiting]
    for row in refusals:
        _REJECTED.labels(reason_label(row.reason)).inc(row.count)


class DemandMetrics:
    """Reads what the last cycle has left unmet. ``demand``: None before the first one.

    Two labels of two values each: whether the jobs ask for GPUs, and whether more slots would help them.
    """

    def __init__(self, demand: Callable[[], UnmetDemand | None]) -> None:
        self._demand = demand

    def __call__(self) -> Iterator[Metric]:
        """All families."""
        labels = ["gpus", "held_back_by"]
        jobs = GaugeMetricFamily("slotwise_demand_jobs", "Jobs that the last cycle gave nothing.", labels=labels)
        cpus = GaugeMetricFamily("slotwise_demand_cpus", "Cores that these jobs ask for.", labels=labels)
        memory = GaugeMetricFamily("slotwise_demand_memory_bytes", "Memory that they ask for.", labels=labels)
        oldest = GaugeMetricFamily("slotwise_demand_oldest_wait_seconds", "Wait of the oldest of them.")
        found = self._demand() or UnmetDemand()
        sums = {(gpus, by): [0.0, 0.0, 0.0] for gpus in ("no", "yes") for by in ("slots", "limits")}
        waits = [0.0]
        for row in found.shapes:
            waits.append(max(0.0, found.at - row.idle_since))
            for by, count in (("slots", row.jobs - row.limited), ("limits", row.limited)):
                sums_of = sums["yes" if row.shape.gpus else "no", by]
                sums_of[0] += count
                sums_of[1] += count * row.shape.cpus
                sums_of[2] += count * row.shape.memory_mib * 2**20
        for values, amounts in sums.items():
            for family, amount in zip((jobs, cpus, memory), amounts, strict=True):
                family.add_metric(list(values), amount)
        oldest.add_metric([], max(waits))
        yield from (jobs, cpus, memory, oldest)
