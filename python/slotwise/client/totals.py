"""Numbers of jobs by state: of a query, of the caller, of everybody."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class JobCounts:
    """Jobs by state."""

    jobs: int = 0
    completed: int = 0
    removed: int = 0
    idle: int = 0
    running: int = 0
    held: int = 0
    suspended: int = 0

    @classmethod
    def of(cls, row: Mapping[str, int]) -> JobCounts:
        """The counts of a row with HTCondor's names of the states."""
        return cls(
            row["Jobs"],
            row["Completed"],
            row["Removed"],
            row["Idle"],
            row["Running"],
            row["Held"],
            row["Suspended"],
        )


@dataclass(frozen=True)
class QueueTotals:
    """What a schedd says of itself and its queue.

    :param now: its time, seconds since the epoch.
    :param superuser: the caller is a queue superuser there.
    :param query: the jobs that the query selects.
    :param unlogged: jobs of the caller, of everyone for a superuser, whose event logs cannot be written for now, and
        why that of the first cannot be.
    """

    schedd: str
    address: str
    now: float
    user: str
    superuser: bool
    query: JobCounts
    mine: JobCounts
    everyone: JobCounts
    unlogged: tuple[int, str] = (0, "")

    @classmethod
    def parse(cls, text: bytes) -> QueueTotals:
        """The totals of a reply."""
        said = json.loads(text)
        query, mine, everyone = (JobCounts.of(said[which]) for which in ("Query", "Mine", "All"))
        waiting = said.get("Unlogged") or {"Jobs": 0, "Reason": ""}
        return cls(
            said["Schedd"],
            said["Address"],
            said["Now"],
            said["User"],
            bool(said.get("SuperUser")),
            query=query,
            mine=mine,
            everyone=everyone,
            unlogged=(waiting["Jobs"], waiting["Reason"]),
        )
