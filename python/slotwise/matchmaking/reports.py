"""What the negotiator publishes: statistics of its last cycles, and accounting ads. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from msgspec import Struct, field

from slotwise.classad.values import Value
from slotwise.matchmaking.demand import UnmetDemand
from slotwise.matchmaking.rows import (
    CycleStatistics,
    Group,
    KeptMachine,
    Record,
    Refusal,
    Rejection,
    Submitter,
    Waiting,
    json_value,
)

PREFIX = "LastNegotiationCycle"
#: The reason of jobs that their submitter's share keeps waiting while slots are free.
_SHARE_USED_UP = "submitter limit exceeded"


class CycleReport(Struct, frozen=True):
    """One cycle, for statistics, ``slotwise negotiator`` and the log. Times in seconds."""

    number: int
    why: str
    started_at: float
    ended_at: float
    gather_s: float
    dispatch_s: float
    timings: Mapping[str, float]
    statistics: CycleStatistics
    submitters: list[Submitter]
    rejections: list[Rejection]
    groups: list[Group]
    schedds: int
    failed_schedds: list[str]
    matches: int
    #: Matches that end a claim.
    preemptions: int = 0
    reservations: list[KeptMachine] = field(default_factory=list)
    #: Requests that a limit held back before they were considered to their end.
    waiting: list[Waiting] = field(default_factory=list)
    #: What idle jobs ask for that it did not give them.
    demand: UnmetDemand = field(default_factory=UnmetDemand)

    @property
    def duration_s(self) -> float:
        """Length of the cycle."""
        return self.ended_at - self.started_at

    @property
    def limits_left_slots(self) -> bool:
        """Whether slots stayed free that the next cycle may give away, as no share had room for a whole one."""
        if not self.matches:
            return False
        refused: tuple[Refusal, ...] = (*self.waiting, *self.rejections)
        return any(row.reason == _SHARE_USED_UP for row in refused)

    def as_json(self) -> object:
        """The cycle as a JSON object; an infinite limit becomes null."""
        return json_value(
            {
                "cycle": self.number,
                "why": self.why,
                "started_at": self.started_at,
                "duration_s": self.duration_s,
                "gather_s": self.gather_s,
                "dispatch_s": self.dispatch_s,
                "timings": self.timings,
                "statistics": self.statistics,
                "matches": self.matches,
                "preemptions": self.preemptions,
                "schedds": self.schedds,
                "failed_schedds": self.failed_schedds,
                "submitters": self.submitters,
                "rejections": self.rejections,
                "groups": self.groups,
                "reservations": self.reservations,
                "waiting": self.waiting,
                "demand": self.demand.as_json(),
            }
        )


class History(Struct):
    """The last cycles, newest first; NEGOTIATION_CYCLE_STATS_LENGTH of them go into the ad."""

    length: int = 3
    cycles: deque[CycleReport] = field(default_factory=lambda: deque(maxlen=101))

    def attributes(self) -> dict[str, Value]:
        """Statistics for the negotiator ad: suffix 0 is the newest cycle."""
        attributes: dict[str, Value] = {}
        kept = list(self.cycles)
        for index, cycle in enumerate(kept[: self.length]):
            former = kept[index + 1] if index + 1 < len(kept) else None
            attributes |= {f"{PREFIX}{name}{index}": value for name, value in _one(cycle, former).items()}
        return attributes


def _one(cycle: CycleReport, former: CycleReport | None) -> dict[str, Value]:
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
        "TotalSlots": stats.total_slots,
        "TrimmedSlots": stats.trimmed_slots,
        "CandidateSlots": stats.candidate_slots,
        "SlotShareIter": stats.rounds,
        "Pies": stats.pies,
        "PieSpins": stats.spins,
        "NumSchedulers": cycle.schedds,
        "ActiveSubmitterCount": stats.active_submitters,
        "NumIdleJobs": stats.idle_jobs,
        "NumJobsConsidered": stats.jobs_considered,
        "Matches": cycle.matches,
        "Rejections": stats.rejections,
        "MatchRate": round(cycle.matches / match_s, 3) if match_s > 0 else 0.0,
        "MatchRateSustained": round(cycle.matches / period_s, 3) if period_s > 0 else 0.0,
        "ScheddsOutOfTime": ",".join([*stats.schedds_out_of_time, *cycle.failed_schedds]),
        "SubmittersOutOfTime": ",".join(stats.submitters_out_of_time),
        "SubmittersFailed": "",
        "SubmittersShareLimit": ",".join(stats.submitters_share_limit),
    }


def accounting_ads(
    records: Mapping[str, Record],
    leases: Mapping[tuple[str, str], tuple[float | None, float]],
    last: CycleReport | None,
    negotiator_name: str,
    now: float,
    default_factor: float = 1000.0,
) -> dict[str, dict[str, Value]]:
    """Accounting ads by name, of submitters and groups, with attributes as HTCondor names them."""
    shares = {row.name: row for row in last.submitters} if last else {}
    groups = {row.name: row for row in last.groups} if last else {}
    known = {name.lower(): name for name in groups} if last else None
    ads: dict[str, dict[str, Value]] = {}
    for name, record in sorted(records.items()):
        ads[name] = _submitter_ad(name, record, shares.get(name), negotiator_name, now, default_factor)
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
            ads[name] = _submitter_ad(name, {}, None, negotiator_name, now, default_factor) | _group(group)
    return ads


def _submitter_ad(
    name: str, record: Record, share: Submitter | None, negotiator_name: str, now: float, default_factor: float
) -> dict[str, Value]:
    def held(field_name: str, otherwise: float = 0.0) -> float:
        found = record.get(field_name, otherwise)
        return otherwise if found is None else found

    factor = float(record.get("factor") or default_factor)
    return {
        "MyType": "Accounting",
        "Name": name,
        "NegotiatorName": negotiator_name,
        "Priority": float(held("priority", 0.5)) * factor,
        "RealPriority": float(held("priority", 0.5)),
        "PriorityFactor": factor,
        "Ceiling": int(held("ceiling", -1)),
        "Floor": int(held("floor")),
        "ResourcesUsed": int(held("resources_used")),
        "WeightedResourcesUsed": float(held("weighted_resources_used")),
        "AccumulatedUsage": float(held("accumulated_usage")),
        "WeightedAccumulatedUsage": float(held("weighted_accumulated_usage")),
        "BeginUsageTime": int(held("begin_usage_time")),
        "LastUsageTime": int(held("last_usage_time")),
        "LastUpdate": int(held("last_update", now)),
        "SubmitterShare": share.share or 0.0 if share else 0.0,
        "SubmitterLimit": share.limit or 0.0 if share else 0.0,
        "IsAccountingGroup": False,
    }


def _group_of(name: str, known: Mapping[str, str] | None) -> str:
    """The group that a submitter belongs to: the innermost configured one that its name begins with.

    A dot in a name is not a group: ``john.doe@d`` belongs to the root where there is no group ``john``. Before the
    first cycle the groups are not known (``known`` is None), and the name is believed.
    """
    group = name.rpartition("@")[0].rpartition(".")[0]
    if known is None:
        return group or "<none>"
    group = group.lower()
    while group and group not in known:
        group = group.rpartition(".")[0]
    return known.get(group, "<none>")


def _group(group: Group) -> dict[str, Value]:
    return {
        "IsAccountingGroup": True,
        "AccountingGroup": group.name,
        "EffectiveQuota": group.quota,
        "ConfigQuota": group.config_quota,
        "SubtreeQuota": group.subtree_quota,
        "GroupSortKey": group.sort_key,
        "SurplusPolicy": group.surplus,
        "Requested": group.requested,
        "WeightedResourcesUsed": group.usage,
    }
