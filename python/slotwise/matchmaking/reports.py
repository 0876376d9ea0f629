"""What the negotiator publishes: statistics of its last cycles, and accounting ads. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PREFIX = "LastNegotiationCycle"
#: The reason of jobs that their submitter's share keeps waiting while slots are free.
_SHARE_USED_UP = "submitter limit exceeded"


@dataclass(frozen=True)
class CycleReport:
    """One cycle, as statistics, ``slotwise negotiator`` and the log tell it. Times in seconds."""

    number: int
    why: str
    started_at: float
    ended_at: float
    gather_s: float
    dispatch_s: float
    timings: Mapping[str, float]
    statistics: Mapping[str, Any]
    submitters: list[dict[str, Any]]
    rejections: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    schedds: int
    failed_schedds: list[str]
    matches: int
    #: Matches that end a claim.
    preemptions: int = 0
    reservations: list[dict[str, Any]] = field(default_factory=list)
    #: Requests that a limit held back before they were considered to their end.
    waiting: list[dict[str, Any]] = field(default_factory=list)

    @property
    def duration_s(self) -> float:
        """Length of the cycle."""
        return self.ended_at - self.started_at

    @property
    def limits_left_slots(self) -> bool:
        """Whether slots stayed free that the next cycle may give away, as no share had room for a whole one."""
        if not self.matches:
            return False
        return any(row["reason"] == _SHARE_USED_UP for row in (*self.waiting, *self.rejections))

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which knows no infinity: a limit that is none becomes null."""
        told: dict[str, Any] = finite(self._as_dict())
        return told

    def _as_dict(self) -> dict[str, Any]:
        return {
            "cycle": self.number,
            "why": self.why,
            "started_at": self.started_at,
            "duration_s": self.duration_s,
            "gather_s": self.gather_s,
            "dispatch_s": self.dispatch_s,
            "timings": dict(self.timings),
            "statistics": dict(self.statistics),
            "matches": self.matches,
            "preemptions": self.preemptions,
            "schedds": self.schedds,
            "failed_schedds": self.failed_schedds,
            "submitters": self.submitters,
            "rejections": self.rejections,
            "groups": self.groups,
            "reservations": self.reservations,
            "waiting": self.waiting,
        }


def finite(value: Any) -> Any:
    """For JSON, which knows no infinity: a limit that is none becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return value


@dataclass
class History:
    """The last cycles, newest first; NEGOTIATION_CYCLE_STATS_LENGTH of them go into the ad."""

    length: int = 3
    cycles: deque[CycleReport] = field(default_factory=lambda: deque(maxlen=101))

    def attributes(self) -> dict[str, Any]:
        """Statistics for the negotiator ad: suffix 0 is the newest cycle."""
        attributes: dict[str, Any] = {}
        kept = list(self.cycles)
        for index, cycle in enumerate(kept[: self.length]):
            former = kept[index + 1] if index + 1 < len(kept) else None
            attributes |= {f"{PREFIX}{name}{index}": value for name, value in _one(cycle, former).items()}
        return attributes


def _one(cycle: CycleReport, former: CycleReport | None) -> dict[str, Any]:
    stats, timings = cycle.statistics, cycle.timings
    match_s = float(timings.get("match_s", 0.0))
    period_s = cycle.started_at - former.started_at if former else 0.0
    return {
        "Time": int(cycle.started_at),
        "End": int(cycle.ended_at),
        "Period": int(period_s),
        "Duration": round(cycle.duration_s, 6),
        "Phase1Duration": round(cycle.gather_s, 6),
        "Phase2Duration": round(float(timings.get("prepare_s", 0.0)), 6),
        "Phase3Duration": round(float(timings.get("sort_s", 0.0)), 6),
        "Phase4Duration": round(match_s + cycle.dispatch_s, 6),
        "PrefetchDuration": round(cycle.gather_s, 6),
        "TotalSlots": stats.get("total_slots", 0),
        "TrimmedSlots": stats.get("trimmed_slots", 0),
        "CandidateSlots": stats.get("candidate_slots", 0),
        "SlotShareIter": stats.get("rounds", 0),
        "Pies": stats.get("pies", 0),
        "PieSpins": stats.get("spins", 0),
        "NumSchedulers": cycle.schedds,
        "ActiveSubmitterCount": stats.get("active_submitters", 0),
        "NumIdleJobs": stats.get("idle_jobs", 0),
        "NumJobsConsidered": stats.get("jobs_considered", 0),
        "Matches": cycle.matches,
        "Rejections": stats.get("rejections", 0),
        "MatchRate": round(cycle.matches / match_s, 3) if match_s > 0 else 0.0,
        "MatchRateSustained": round(cycle.matches / period_s, 3) if period_s > 0 else 0.0,
        "ScheddsOutOfTime": ",".join([*stats.get("schedds_out_of_time", []), *cycle.failed_schedds]),
        "SubmittersOutOfTime": ",".join(stats.get("submitters_out_of_time", [])),
        "SubmittersFailed": "",
        "SubmittersShareLimit": ",".join(stats.get("submitters_share_limit", [])),
    }


def accounting_ads(
    records: Mapping[str, Mapping[str, Any]],
    leases: Mapping[tuple[str, str], tuple[Any, float]],
    last: CycleReport | None,
    negotiator_name: str,
    now: float,
    default_factor: float = 1000.0,
) -> dict[str, dict[str, Any]]:
    """Accounting ads by name, of submitters and groups, with attributes as HTCondor names them."""
    shares = {row["name"]: row for row in last.submitters} if last else {}
    groups = {row["name"]: row for row in last.groups} if last else {}
    known = {name.lower(): name for name in groups} if last else None
    ads: dict[str, dict[str, Any]] = {}
    for name, record in sorted(records.items()):
        ads[name] = _submitter_ad(name, record, shares.get(name, {}), negotiator_name, now, default_factor)
        ads[name]["AccountingGroup"] = _group_of(name, known)
        for setting in ("factor", "ceiling", "floor"):
            lease = leases.get((name, setting))
            if lease is not None:
                attribute = {"factor": "PriorityFactor", "ceiling": "Ceiling", "floor": "Floor"}[setting]
                ads[name][f"{attribute}LeaseExpires"] = int(lease[1])
        if name in groups:
            ads[name] |= _group(groups[name])
    for name, group in groups.items():
        if name not in ads:
            ads[name] = _submitter_ad(name, {}, {}, negotiator_name, now, default_factor) | _group(group)
    return ads


def _submitter_ad(
    name: str,
    record: Mapping[str, Any],
    share: Mapping[str, Any],
    negotiator_name: str,
    now: float,
    default_factor: float,
) -> dict[str, Any]:
    factor = float(record.get("factor") or default_factor)
    return {
        "MyType": "Accounting",
        "Name": name,
        "NegotiatorName": negotiator_name,
        "Priority": float(record.get("priority", 0.5)) * factor,
        "RealPriority": float(record.get("priority", 0.5)),
        "PriorityFactor": factor,
        "Ceiling": int(record.get("ceiling", -1)),
        "Floor": int(record.get("floor", 0)),
        "ResourcesUsed": int(record.get("resources_used", 0)),
        "WeightedResourcesUsed": float(record.get("weighted_resources_used", 0.0)),
        "AccumulatedUsage": float(record.get("accumulated_usage", 0.0)),
        "WeightedAccumulatedUsage": float(record.get("weighted_accumulated_usage", 0.0)),
        "BeginUsageTime": int(record.get("begin_usage_time", 0)),
        "LastUsageTime": int(record.get("last_usage_time", 0)),
        "LastUpdate": int(record.get("last_update", now)),
        "SubmitterShare": float(share.get("share") or 0.0),
        "SubmitterLimit": float(share.get("limit") or 0.0),
        "IsAccountingGroup": False,
    }


def _group_of(name: str, known: Mapping[str, str] | None) -> str:
    """The group that a submitter belongs to: the innermost configured one that its name begins with.

    A dot in a name is no group: ``john.doe@d`` belongs to the root where there is no group ``john``. Before the first
    cycle it is not known which groups there are (``known`` is None), and the name is believed.
    """
    group = name.rpartition("@")[0].rpartition(".")[0]
    if known is None:
        return group or "<none>"
    group = group.lower()
    while group and group not in known:
        group = group.rpartition(".")[0]
    return known.get(group, "<none>")


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "IsAccountingGroup": True,
        "AccountingGroup": group["name"],
        "EffectiveQuota": float(group.get("quota", 0.0)),
        "ConfigQuota": float(group.get("config_quota", 0.0)),
        "SubtreeQuota": float(group.get("subtree_quota", 0.0)),
        "GroupSortKey": float(group.get("sort_key", 0.0)),
        "SurplusPolicy": group.get("surplus", "no"),
        "Requested": float(group.get("requested", 0.0)),
        "WeightedResourcesUsed": float(group.get("usage", 0.0)),
    }
