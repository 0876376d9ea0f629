"""The attributes that report a run: usage while it lasts, and its end. Pure; units as in HTCondor (KiB, s, MiB)."""

from __future__ import annotations

import signal

from msgspec import Struct

from slotwise.classad.values import Value
from slotwise.execution.exit_status import End, How
from slotwise.execution.keeper_spec import KeeperResult, Usage

#: Ticket of execution: how the job ended, by number.
_TOE = {0: "OF_ITS_OWN_ACCORD", 1: "DEACTIVATE_CLAIM", 2: "DEACTIVATE_CLAIM_FORCIBLY"}


class Disk(Struct, frozen=True):
    """What the scratch directory takes: KiB and files."""

    kib: int = 0
    files: int = 0


class Moment(Struct, frozen=True):
    """Where a run stands: times in seconds since the epoch (0: not yet)."""

    now: float
    started_at: float = 0.0
    pid: int = 0
    suspended: bool = False
    cgroup: bool = False
    bytes_received: int = 0
    bytes_sent: int = 0


def usage_attributes(usage: Usage, disk: Disk, moment: Moment) -> dict[str, Value]:
    """Attributes of a running job for the shadow and the startd. ``MemoryUsage`` (an expression) is the caller's."""
    wall_s = moment.now - moment.started_at if moment.started_at else 0.0
    cpu_s = usage.user_s + usage.system_s
    attributes: dict[str, Value] = {
        "RemoteUserCpu": round(usage.user_s, 6),
        "RemoteSysCpu": round(usage.system_s, 6),
        "ImageSize": usage.image_kib,
        "ResidentSetSize": usage.peak_kib,
        "DiskUsage": disk.kib,
        "ScratchDirFileCount": disk.files,
        "NumPids": usage.processes,
        "JobPid": moment.pid,
        "JobState": "Suspended" if moment.suspended else "Running",
        "CgroupEnforced": moment.cgroup,
        "CpusUsage": _cpus(cpu_s, wall_s) if wall_s > 0 else 0.0,
        "BytesRecvd": float(moment.bytes_received),
        "BytesSent": float(moment.bytes_sent),
    }
    if usage.proportional_kib:
        attributes["ProportionalSetSizeKb"] = usage.proportional_kib
    return attributes


def end_attributes(
    end: End, result: KeeperResult | None, disk: Disk, moment: Moment, memory_limit_mib: int
) -> dict[str, Value]:
    """Attributes of the end of a run."""
    usage = result.usage if result is not None else Usage()
    ad = usage_attributes(usage, disk, moment)
    ad["JobState"] = "Exited"
    if result is not None and result.started_at:
        ad["JobDuration"] = round(max(0.0, result.ended_at - result.started_at), 6)
        wall_s = result.ended_at - result.started_at
        if wall_s > 0:
            ad["CpusUsage"] = _cpus(usage.user_s + usage.system_s, wall_s)
    if end.at_memory_limit and memory_limit_mib > 0:
        ad["ResidentSetSize"] = memory_limit_mib * 1024
        ad["ImageSize"] = max(usage.image_kib, memory_limit_mib * 1024)
    if end.by_itself:
        ad |= _exit(end.how is How.SIGNALED, end.code)
        ad |= {"JobCoreDumped": end.core, "TerminationPending": True}
    else:
        ad["VacateReason"] = end.reason
        ad["VacateReasonCode"] = end.reason_code
        ad["VacateReasonSubCode"] = end.reason_subcode
    if result is not None and result.how in ("exited", "signaled"):
        ad["ToE"] = _ticket(result)
    return ad


def _cpus(cpu_s: float, wall_s: float) -> float:
    """Processors that a job keeps busy. Of a job of milliseconds most of the time is the kernel's, for its start."""
    return round(cpu_s / max(wall_s, 1.0), 6)


def exit_attributes(result: KeeperResult) -> dict[str, Value]:
    """How the job's first process ended, whatever becomes of the job; nothing where that is unknown."""
    return _exit(result.how == "signaled", result.code) if result.how in ("exited", "signaled") else {}


def _exit(by_signal: bool, code: int) -> dict[str, Value]:
    if not by_signal:
        return {"ExitBySignal": False, "ExitCode": code, "ExitReason": f"exited normally with status {code}"}
    name = signal.strsignal(code) if 0 < code < signal.NSIG else None
    return {
        "ExitBySignal": True,
        "ExitSignal": code,
        "ExitReason": f"died on signal {code} ({name or f'Unknown signal {code}'})",
    }


def _ticket(result: KeeperResult) -> dict[str, Value]:
    number = {"itself": 0, "soft": 1}.get(result.ended_by, 2)
    by_signal = result.how == "signaled"
    return {
        "Who": "itself" if number == 0 else "the startd",
        "How": _TOE[number],
        "HowCode": number,
        "When": int(result.ended_at),
        "ExitBySignal": by_signal,
        ("ExitSignal" if by_signal else "ExitCode"): result.code,
    }
