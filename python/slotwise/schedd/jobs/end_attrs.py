"""The attributes of jobs that holds, evictions and the ends of runs change. Pure."""

from __future__ import annotations

import itertools

from slotwise.model.reason_codes import HOLD_NAMES, VACATE_NAMES, Hold
from slotwise.schedd.jobs.decision import RunEnd, RunOutcome
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.values import Changes, Expr

VACATE_ATTRIBUTES = ("VacateReason", "VacateReasonCode", "VacateReasonSubCode")
HOLD_ATTRIBUTES = ("HoldReason", "HoldReasonCode", "HoldReasonSubCode")
#: Counts have at most so many digits; a longer one was written by a user.
_COUNT_DIGITS = 18


def hold_attributes(job: Job, reason: str, code: int, subcode: int) -> Changes:
    """The attributes that a hold changes."""
    changes: Changes = {
        "HoldReason": reason,
        "HoldReasonCode": code,
        "HoldReasonSubCode": subcode,
        "NumHolds": int(job.number("NumHolds")) + 1,
        "NumHoldsByReason": counted(job, "NumHoldsByReason", HOLD_NAMES.get(code, f"Code{code}")),
    }
    if code != Hold.USER_REQUEST:
        changes["NumSystemHolds"] = int(job.number("NumSystemHolds")) + 1
    return changes


def hold_of(job: Job, which: str = "") -> tuple[str, int, int]:
    """Why the job is held, or was (``which`` is "Last"): reason, code, subcode."""
    reason, code, subcode = (f"{which}{name}" for name in HOLD_ATTRIBUTES)
    return str((job.changes or {}).get(reason) or ""), int(job.number(code)), int(job.number(subcode))


def vacate_attributes(job: Job, reason: str, code: int, subcode: int, now: float) -> Changes:
    """The attributes that an eviction changes. Holds of running jobs count as evictions, with their own codes."""
    name = VACATE_NAMES.get(code) or HOLD_NAMES.get(code, f"Code{code}")
    changes: Changes = {
        "LastVacateTime": int(now),
        "VacateReason": reason,
        "VacateReasonCode": code,
        "VacateReasonSubCode": subcode,
    }
    began = job.number("JobCurrentStartExecutingDate")
    # One that is older than the run is left from another.
    before_it_ran = not began or job.number("JobCurrentStartDate") > began
    for kind in ("", "PreExecution") if before_it_ran else ("",):
        changes[f"NumVacates{kind}"] = int(job.number(f"NumVacates{kind}")) + 1
        changes[f"NumVacatesByReason{kind}"] = counted(job, f"NumVacatesByReason{kind}", name)
    return changes


def closing_attributes(job: Job, end: RunEnd, now: float) -> Changes:
    """The attributes that the end of any run changes."""
    former = job.changes or {}
    weight = job.number("MachineAttrSlotWeight0", 1)
    changes: Changes = dict(end.attributes)
    changes.update(
        RemoteWallClockTime=float(job.number("RemoteWallClockTime")) + max(0.0, end.wall_s),
        LastRemoteHost=former.get("RemoteHost"),
        LastRemoteWallClockTime=max(0.0, end.wall_s),
        CurrentHosts=0,
        BytesSent=float(job.number("BytesSent")) + end.usage.sent - end.counted[0],
        BytesRecvd=float(job.number("BytesRecvd")) + end.usage.received - end.counted[1],
        CumulativeRemoteUserCpu=float(job.number("CumulativeRemoteUserCpu")) + end.usage.user_s,
        CumulativeRemoteSysCpu=float(job.number("CumulativeRemoteSysCpu")) + end.usage.system_s,
        CumulativeSlotTime=float(job.number("CumulativeSlotTime")) + max(0.0, end.wall_s) * weight,
        RemoteHost=None,
        RemoteSlotID=None,
        StartdIpAddr=None,
        ShadowBday=None,
        PublicClaimId=None,
        LastPublicClaimId=former.get("PublicClaimId"),
    )
    if end.how.by_itself:
        signaled = end.how == RunOutcome.SIGNALED
        changes["ExitBySignal"] = signaled
        changes["ExitSignal" if signaled else "ExitCode"] = end.code
        changes["ExitCode" if signaled else "ExitSignal"] = None
        changes["ExitStatus"] = end.code
        changes["JobCoreDumped"] = bool(end.core)
        changes["CommittedTime"] = int(job.number("CommittedTime") + end.wall_s)
        changes["CommittedSlotTime"] = float(job.number("CommittedSlotTime")) + max(0.0, end.wall_s) * weight
        changes["LastExitTime"] = int(end.at or now)
    return changes


def activation_attributes(started_at: float, executing_at: float, exited_at: float, over_at: float) -> Changes:
    """How long each part of a run lasted, whole seconds: until the job executed, its execution, what came after it."""
    moments = [int(started_at), int(executing_at), int(exited_at), int(over_at)]
    setup, execution, teardown = (max(0, end - begin) for begin, end in itertools.pairwise(moments))
    return {
        "ActivationDuration": setup + execution + teardown,
        "ActivationSetupDuration": setup,
        "ActivationExecutionDuration": execution,
        "ActivationTeardownDuration": teardown,
    }


def counted(job: Job, name: str, reason: str) -> Expr:
    """The ad of counts by reason, with ``reason`` counted once more."""
    text = str((job.changes or {}).get(name) or "[ ]")
    counts: dict[str, int] = {}
    for field in text.strip("[] ").split(";"):
        key, _, value = field.partition("=")
        digits = value.strip()  # users may have written it: "²" is a digit too, and a long number no count
        if key.strip() and digits.isascii() and digits.isdigit() and len(digits) <= _COUNT_DIGITS:
            counts[key.strip()] = int(digits)
    counts[reason] = counts.get(reason, 0) + 1
    return Expr("[ " + "; ".join(f"{key} = {counts[key]}" for key in counts) + " ]")
