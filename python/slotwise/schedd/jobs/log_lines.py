"""Lines of the schedd's log about jobs and runs: formats with their arguments. Each begins with a job's id. Pure.

The lines are explained in the guide "Reading the logs".
"""

from __future__ import annotations

from slotwise.model.reason_codes import CLAIM_WAS_OVER
from slotwise.schedd.jobs.decision import LogLine, RunEnd, RunOutcome
from slotwise.schedd.jobs.job import Cluster, Job


def slot_of(job: Job) -> str:
    """The slot of the job's run, or of its last one."""
    if job.cluster.runs_here:
        return "the access point"
    changes = job.changes or {}
    return str(changes.get("RemoteHost") or changes.get("LastRemoteHost") or "an unknown slot")


def run_ended(job: Job, run: str, slot: str, end: RunEnd) -> LogLine:
    """The end of a run, whatever follows for the job."""
    seconds = int(max(end.wall_s, end.executed_s))
    why = (end.reason or "no reason given", end.reason_code, end.reason_subcode)
    if end.how == RunOutcome.EXITED:
        return ("%s: exited with status %d on %s after %d s (run %s)", job.key, end.code, slot, seconds, run)
    if end.how == RunOutcome.SIGNALED:
        return ("%s: died on signal %d on %s after %d s (run %s)", job.key, end.code, slot, seconds, run)
    if end.how == RunOutcome.UNFIT or (end.how == RunOutcome.NOT_STARTED and end.reason_code not in CLAIM_WAS_OVER):
        return ("%s: could not be started on %s (run %s): %s (code %d, subcode %d)", job.key, slot, run, *why)
    if end.how == RunOutcome.NOT_STARTED:
        return (
            "%s: not started on %s, whose claim had ended (run %s): %s (code %d, subcode %d)",
            job.key,
            slot,
            run,
            *why,
        )
    if end.how == RunOutcome.LOST:
        return (
            "%s: lost contact with %s after %d s (run %s): %s (code %d, subcode %d)",
            job.key,
            slot,
            seconds,
            run,
            *why,
        )
    verb = "evicted from" if end.is_vacate else "stopped on"
    return (f"%s: {verb} %s after %d s (run %s): %s (code %d, subcode %d)", job.key, slot, seconds, run, *why)


def jobs_of(cluster: Cluster) -> str:
    """The jobs of a new cluster: the ids of the first and the last, and how many they are."""
    number, count = cluster.number, cluster.next_proc
    if cluster.factory is not None:
        return f"cluster {number} ({count} jobs, materialized late)"
    return f"{ids_of(number, count)} (cluster {number}, {count} job{'s' * (count != 1)})"


def ids_of(number: int, count: int) -> str:
    """The ids of the first and the last of the first ``count`` jobs of a cluster: ``12.0-12.9``."""
    return f"{number}.0" if count == 1 else f"{number}.0-{number}.{count - 1}"
