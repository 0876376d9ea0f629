"""How often this process did something and how long that took, in all: pairs ``X`` and ``XRuntime`` of daemon ads.

Names are HTCondor's where the thing is the same (``DCCommand_ACT_ON_JOBS``). Times are those of the clock on the wall:
calls are answered side by side, so that together they may take longer than the daemon has run.
"""

from __future__ import annotations

import math

from msgspec import Struct, field

from slotwise.model.publication import Publication


class RunTime(Struct):
    """What is known of one thing that is done again and again; times in seconds."""

    count: int = 0
    total: float = 0.0
    least: float = math.inf
    most: float = 0.0
    #: Sum of the squares.
    squares: float = 0.0

    def add(self, seconds: float) -> None:
        """It was done once more."""
        self.count += 1
        self.total += seconds
        self.squares += seconds * seconds
        self.least = min(self.least, seconds)
        self.most = max(self.most, seconds)

    def summary(self) -> dict[str, float]:
        """Avg, Max, Min and Std of the times, as HTCondor publishes them: nothing before the first."""
        if not self.count:
            return {}
        mean = self.total / self.count
        return {"Avg": mean, "Max": self.most, "Min": self.least, "Std": self._deviation(mean)}

    def _deviation(self, mean: float) -> float:
        if self.count == 1:
            return mean
        return math.sqrt(max(0.0, self.squares - self.total * mean) / (self.count - 1))


class RunTimes(Struct):
    """What a process does, by name, and how many calls it has had."""

    kept: dict[str, RunTime] = field(default_factory=dict)
    calls: int = 0

    def of(self, name: str) -> RunTime:
        """That of ``name``, made when it is new: names have bounded values."""
        return self.kept.setdefault(name, RunTime())

    def attributes(self, publication: Publication) -> dict[str, float]:
        """The attributes that ``publication`` shows of the category DC."""
        found: dict[str, float] = {"DCCommands": self.calls} if publication.shows("DCCommands") else {}
        for name, spent in list(self.kept.items()):  # other threads add to it
            if publication.shows(name) and (spent.count or not publication.nonzero):
                found[name] = spent.count
                found[f"{name}Runtime"] = spent.total
                if publication.level > 1:
                    found |= {f"{name}Runtime{kind}": value for kind, value in spent.summary().items()}
        return found


#: Calls under the names of HTCondor's commands, where these do the same.
_COMMANDS = {
    "Collector/Invalidate": "INVALIDATE_ADS_GENERIC",
    "Collector/Query": "QUERY_ANY_ADS",
    "Daemon/ConfigValues": "CONFIG_VAL",
    "Daemon/FetchLog": "DC_FETCH_LOG",
    "Daemon/Ping": "DC_NOP",
    "Daemon/Reconfig": "DC_RECONFIG",
    "Negotiator/Reschedule": "RESCHEDULE",
    "Schedd/Act": "ACT_ON_JOBS",
    "Schedd/EditUsers": "EDIT_USERREC",
    "Schedd/History": "QUERY_SCHEDD_HISTORY",
    "Schedd/OfferMatches": "GIVE_MATCHES",
    "Schedd/Query": "QUERY_JOB_ADS",
    "Schedd/ResourceRequests": "NEGOTIATE",
    "Schedd/Users": "QUERY_USERREC_ADS",
    "Startd/CancelDrain": "CANCEL_DRAIN_JOBS",
    "Startd/Drain": "DRAIN_JOBS",
    "Startd/Query": "QUERY_STARTD_ADS",
}


def answers_once(method: str) -> bool:
    """Whether the replies of ``method`` are one answer, which comes to its end, and no stream of news."""
    return method in _COMMANDS


def command(method: str) -> str:
    """The name of the statistic of calls of ``method`` (``Schedd/Act``)."""
    return f"DCCommand_{_COMMANDS.get(method) or method.replace('/', '_')}"


#: Of this process.
spent = RunTimes()
