"""Parallel jobs as the negotiator sees them: their dedicated scheduler asks for slots that name it. Pure."""

from __future__ import annotations

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import whole

#: JobUniverse of parallel jobs.
_PARALLEL = 11


def is_parallel(job: ClassAd) -> bool:
    """Whether the job's slots are gathered by a dedicated scheduler."""
    return job.get("JobUniverse") == _PARALLEL and isinstance(job.get("Scheduler"), str)


def as_request(job: ClassAd) -> ClassAd:
    """The job as what is asked for it: a parallel one takes the slots of its dedicated scheduler alone."""
    if not is_parallel(job):
        return job
    request = job.copy()
    former = job.lookup("Requirements") if "Requirements" in job else "true"
    # Within a comparison of texts, a name that was written by somebody stays a text.
    request["Requirements"] = ExprTree(f"({former}) && TARGET.DedicatedScheduler =?= {job.lookup('Scheduler')}")
    return request


def words(job: ClassAd, dedicated_slots: int) -> str:
    """What there is to say of a parallel job beside how slots match; ``dedicated_slots``: those of its scheduler."""
    nodes = max(1, whole(job.get("MaxHosts"), 1))
    told = [f"It is a parallel job of {nodes} node{'s' * (nodes != 1)}: it starts when slots for all are held."]
    reason = job.get("LastRejMatchReason")
    if not dedicated_slots:
        name = job.lookup("Scheduler")
        told.append(f"No slot has DedicatedScheduler = {name}: set it in the configuration of execution points.")
    elif isinstance(reason, str) and reason and job.get("JobStatus") == 1:
        told.append(f"Last said of it: {reason}.")
    return " ".join(told)
