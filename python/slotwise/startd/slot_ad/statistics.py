"""Counts and durations since the startd began, and over the last twenty minutes (``Recent...``).

Source: manual, machine ad attributes JobStarts to RecentJobUserPrioPreemptions, JobBusyTime..., JobDuration...;
STATISTICS_WINDOW_SECONDS and STATISTICS_WINDOW_QUANTUM. As in HTCondor, counts are published whatever
STATISTICS_TO_PUBLISH says, and durations only when STATISTICS_TO_PUBLISH_LIST names them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct, field

from slotwise.classad.evaluate import Value
from slotwise.model.windows import Ring, Window
from slotwise.startd.slot.states import Counters

#: Attribute of each counter of a slot.
_COUNTED = {
    "job_starts": "JobStarts",
    "job_preemptions": "JobPreemptions",
    "rank_preemptions": "JobRankPreemptions",
    "priority_preemptions": "JobUserPrioPreemptions",
}


class Durations(Struct):
    """Count, average and extremes of some durations (seconds)."""

    count: int = 0
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.merge(Durations(1, seconds, seconds, seconds))

    def merge(self, other: Durations) -> None:
        """All of another."""
        if not other.count:
            return
        self.least = other.least if self.count == 0 else min(self.least, other.least)
        self.most = max(self.most, other.most)
        self.count += other.count
        self.total += other.total

    def attributes(self, name: str) -> dict[str, Value]:
        """``<name>Avg``, ``Count``, ``Min``, ``Max``; nothing before the first."""
        if not self.count:
            return {}
        return {
            f"{name}Avg": self.total / self.count,
            f"{name}Count": self.count,
            f"{name}Min": self.least,
            f"{name}Max": self.most,
        }


def _is_listed(name: str, listed: Collection[str]) -> bool:
    """A list may name the durations or any attribute of theirs."""
    return any(f"{name}{end}".lower() in listed for end in ("", "Avg", "Count", "Min", "Max"))


class _Quantum(Struct):
    """What happened within one quantum of time."""

    counts: dict[str, int] = field(default_factory=dict)
    durations: dict[str, Durations] = field(default_factory=dict)


class Statistics:
    """Totals over the jobs of this machine. Times in seconds, amounts of files in MB."""

    def __init__(self, window_s: float = 1200, quantum_s: float = 240) -> None:
        self.counts: dict[str, int] = dict.fromkeys(_COUNTED.values(), 0)
        self.durations: dict[str, Durations] = {}
        self.transfers = 0
        self.received_mb = 0.0
        self.sent_mb = 0.0
        self._quanta = Ring(_Quantum, Window(window_s, quantum_s))

    def counted(self, before: Counters, after: Counters, now: float) -> None:
        """A slot's counters have grown."""
        quantum = self._quanta.at(now)
        for name, attribute in _COUNTED.items():
            more = getattr(after, name) - getattr(before, name)
            if more > 0:
                self.counts[attribute] += more
                quantum.counts[attribute] = quantum.counts.get(attribute, 0) + more

    def ended(self, duration_s: float, busy_s: float, now: float) -> None:
        """A job has ended: from activation to the end, and how long of that it ran."""
        quantum = self._quanta.at(now)
        for name, seconds in (("JobBusyTime", busy_s), ("JobDuration", duration_s)):
            self.durations.setdefault(name, Durations()).add(seconds)
            quantum.durations.setdefault(name, Durations()).add(seconds)

    def transferred(self, received_bytes: float, sent_bytes: float) -> None:
        """The files of a job have come and gone."""
        self.transfers += 1
        self.received_mb += received_bytes / 2**20
        self.sent_mb += sent_bytes / 2**20

    def attributes(self, now: float, listed: Collection[str] = ()) -> Mapping[str, Value]:
        """Counts, and those durations that STATISTICS_TO_PUBLISH_LIST names (``listed``, in small letters)."""
        quanta = list(self._quanta.values(now))
        attributes: dict[str, Value] = dict(self.counts)
        for name in self.counts:
            attributes[f"Recent{name}"] = sum(quantum.counts.get(name, 0) for quantum in quanta)
        for name, durations in self.durations.items():
            if not _is_listed(name, listed):
                continue
            attributes.update(durations.attributes(name))
            recent = Durations()
            for quantum in quanta:
                recent.merge(quantum.durations.get(name, Durations()))
            attributes.update(recent.attributes(f"Recent{name}"))
        return attributes

    def transfer_attributes(self) -> dict[str, Value]:
        """Totals and averages per job, for the startd's own ad."""
        jobs = max(1, self.transfers)
        return {
            "TotalTransferInputMB": self.received_mb,
            "TotalTransferOutputMB": self.sent_mb,
            "AvgTransferInputMB": self.received_mb / jobs,
            "AvgTransferOutputMB": self.sent_mb / jobs,
        }
