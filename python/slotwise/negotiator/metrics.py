"""What the negotiator measures of its cycles for Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from slotwise.matchmaking.reports import CycleReport
from slotwise.matchmaking.rows import Refusal
from slotwise.metrics import OTHER, REGISTRY

_CYCLE_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_CYCLES = Histogram(
    "slotwise_negotiation_cycle_duration_seconds", "Length of a cycle.", buckets=_CYCLE_S, registry=REGISTRY
)
_PHASES = Histogram(
    "slotwise_negotiation_phase_duration_seconds",
    "Length of the parts of a cycle: requests gathered, slots matched, matches dispatched.",
    ["phase"],
    buckets=_CYCLE_S,
    registry=REGISTRY,
)
_MATCHES = Counter("slotwise_matches", "Matches that schedds were given.", registry=REGISTRY)
_PREEMPTIONS = Counter("slotwise_preemptions", "Matches that end the claim of somebody else.", registry=REGISTRY)
_REJECTED = Counter(
    "slotwise_rejected_jobs", "Jobs that were considered in a cycle and got nothing, by reason.", ["reason"],
    registry=REGISTRY,
)  # fmt: skip
_FAILED = Counter(
    "slotwise_unreachable_schedds", "Schedds that did not answer in a cycle, counted in each.", registry=REGISTRY
)
#: Labels of reasons, by how the negotiator's words for them begin.
_REASONS = {
    "no match found": "no_match",
    "concurrency limit": "concurrency_limit",
    "PREEMPTION_REQUIREMENTS": "preemption_requirements",
    "submitter limit": "submitter_limit",
    "submitter ceiling": "submitter_ceiling",
    "group quota": "group_quota",
    "a machine is reserved": "reserved",
    "its expressions take too long": "too_much_work",
    "its submitter's expressions": "too_much_work",
    "negotiation out of time": "out_of_time",
}


def reason_label(reason: str) -> str:
    """The label for a reason in words."""
    return next((label for begin, label in _REASONS.items() if reason.startswith(begin)), OTHER)


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
