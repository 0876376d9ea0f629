"""How a failed transfer is told, worded like HTCondor's hold reasons."""

from __future__ import annotations

from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.run_job import RunJob


def access_point(job: RunJob) -> str:
    """The access point in words, as the job's GlobalJobId names it."""
    value = job.value("GlobalJobId")
    name = value.partition("#")[0].rpartition("@")[2] if isinstance(value, str) else ""
    return f"access point {name}" if name else "the access point"


def failure(assignment: Assignment, job: RunJob, details: str, *, inputs: bool, protocol: str = "") -> str:
    """Why files do not come or go at this execution point. ``protocol``: of the URLs that they are at."""
    word, doing = ("input", "receiving files from") if inputs else ("output", "sending files to")
    how = f"using protocol {protocol}" if protocol else f"while {doing} {access_point(job)}"
    return f"Transfer {word} files failure at execution point {assignment.slot.name} {how}. Details: {details}"
