"""Classifies the ends of runs on the access point, from what their keepers report. Pure but for :func:`is_root`.

The classification is the starter's; here it becomes the :class:`RunEnd` that the queue takes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from slotwise.execution import exit_status
from slotwise.execution.exit_status import How, MemoryRule
from slotwise.execution.job_view import JobView, KillSignals
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.execution.keeper_spec import Usage as KeeperUsage
from slotwise.model.job_events import Usage
from slotwise.model.reason_codes import Hold, Vacate
from slotwise.schedd.jobs.codes import Status, Universe
from slotwise.schedd.jobs.decision import Kill, RunEnd, RunOutcome
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.round_attrs import with_rounded
from slotwise.schedd.jobs.values import Changes, Expr
from slotwise.schedd.local.keeper_spec import MemoryLimit

_OUTCOMES = {
    How.EXITED: RunOutcome.EXITED,
    How.SIGNALED: RunOutcome.SIGNALED,
    How.EVICTED: RunOutcome.EVICTED,
    How.HELD: RunOutcome.HELD,
}
_MEMORY_USAGE = Expr("( ( ResidentSetSize + 1023 ) / 1024 )")


def is_root() -> bool:
    """Whether the schedd can start processes of other users."""
    return os.geteuid() == 0


def lost(job: Job, reason: str) -> RunEnd:
    """The end of a run of which no trace is left."""
    return RunEnd(RunOutcome.EVICTED, reason=reason, reason_code=int(Vacate.STARTER_ERROR))


def unfit(reason: str, code: Hold) -> RunEnd:
    """The end of a run that cannot start: its job is held."""
    return RunEnd(RunOutcome.UNFIT, reason=reason, reason_code=int(code))


def soft_kill(job: JobView | None, status: int, *, default_s: int) -> tuple[int, int]:
    """The signal that asks a job to exit, and the seconds until it is killed, by the job's present JobStatus."""
    signals = job.kill if job is not None else KillSignals()
    number = signals.soft
    if status == Status.REMOVED and signals.remove is not None:
        number = signals.remove
    elif status == Status.HELD and signals.hold is not None:
        number = signals.hold
    return number, signals.vacate_s if signals.vacate_s is not None else default_s


def usage_attributes(usage: KeeperUsage, rounding: Mapping[str, str]) -> Changes:
    """What a job uses, as attributes of its ad, those that grow rounded."""
    found: Changes = {
        "RemoteUserCpu": round(usage.user_s, 6),
        "RemoteSysCpu": round(usage.system_s, 6),
        "ImageSize": usage.image_kib,
        "ResidentSetSize": usage.peak_kib,
        "NumPids": usage.processes,
    }
    return {**with_rounded(found, rounding), "MemoryUsage": _MEMORY_USAGE}


def judge_end(
    view: JobView,
    job: Job,
    result: KeeperResult,
    kill: Kill | None,
    memory: MemoryLimit,
    *,
    rounding: Mapping[str, str],
    born_at: float,
    now: float,
) -> RunEnd:
    """The end of a run whose keeper left ``result``.

    ``kill``: what the keeper was told. ``rounding``: of usage, see ``round_attrs``.
    """
    told = exit_status.Kill(kill.fast, kill.reason, kill.code) if kill is not None else None
    if told is None and result.ended_by in ("soft", "hard"):
        told = exit_status.Kill(False, "The access point was shut down", int(Vacate.SCHEDD_VACATE))
    if told is not None and result.how == "failed":
        told = None if job.status in (Status.RUNNING, Status.SUSPENDED) else told
    end = exit_status.classify(result, told, view, MemoryRule(memory.mib or -1))
    reason, how = end.reason, _OUTCOMES.get(end.how, RunOutcome.NOT_STARTED)
    if result.how == "failed" and result.stage == "exec" and job.cluster.universe == Universe.SCHEDULER:
        path = os.path.join(view.iwd, view.cmd)
        reason = f"File '{path}' is missing or not executable"
    if end.reason_code == exit_status.OUT_OF_RESOURCES and not memory.is_request:
        # A larger request would not help such a job.
        reason = f"Job has gone over the limit of {memory.mib or -1} megabytes of jobs on the access point"
    used = result.usage
    return RunEnd(
        how,
        code=end.code,
        reason=reason,
        reason_code=end.reason_code,
        reason_subcode=end.reason_subcode,
        error=reason if how == RunOutcome.HELD else "",
        at=result.ended_at or now,
        core="core" if end.core else "",
        attributes=usage_attributes(used, rounding) if result.started_at else {},
        usage=Usage(
            user_s=used.user_s,
            system_s=used.system_s,
            total_user_s=used.user_s + float(job.number("CumulativeRemoteUserCpu")),
            total_system_s=used.system_s + float(job.number("CumulativeRemoteSysCpu")),
        ),
        wall_s=max(0.0, (result.ended_at or now) - born_at),
        executed_s=max(0.0, result.ended_at - result.started_at) if result.started_at else 0.0,
    )
