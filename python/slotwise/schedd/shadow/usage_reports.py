"""What starters report of runs, as attributes of the job and as figures for its event log."""

from __future__ import annotations

from msgspec import Struct

from slotwise.model.job_events import Usage
from slotwise.model.ownership import OWNER_ATTRIBUTES
from slotwise.schedd.claims.records import Run
from slotwise.schedd.claims.startds.whereabouts import is_nowhere
from slotwise.schedd.jobs.ads import JobAds, kept
from slotwise.schedd.jobs.end_attrs import activation_attributes
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.round_attrs import with_rounded
from slotwise.schedd.jobs.values import Changes, Expr, literal
from slotwise.schedd.lifecycle.run_events import EndReport
from slotwise.wire.gen import schedd_pb2

#: Attributes of a report that the schedd does not take from an execution point.
_PROTECTED = OWNER_ATTRIBUTES | frozenset(
    name.lower()
    for name in (
        "ClusterId", "ProcId", "GlobalJobId", "JobStatus", "QDate", "Cmd", "Iwd", "UserLog",
        "AccountingGroup", "AcctGroup", "AcctGroupUser", "Requirements", "HoldReason", "HoldReasonCode",
        "HoldReasonSubCode", "MyType", "TargetType", "NumJobStarts", "NumShadowStarts", "NumJobCompletions",
        "OnExitHold", "OnExitRemove", "NumHolds", "CompletionDate", "EnteredCurrentStatus",
        "LastJobStatus", "BytesSent", "BytesRecvd", "JobUniverse", "LeaveJobInQueue",
        "In", "Out", "Err", "Args", "Arguments", "Env", "Environment", "TransferInput", "TransferOutputRemaps",
        "OutputDestination", "PeriodicHold", "PeriodicRelease", "PeriodicRemove", "PeriodicVacate", "Rank", "NiceUser",
        "InputPluginResultList", "OutputPluginResultList",
        "JobPrio", "PreJobPrio1", "PreJobPrio2", "PostJobPrio1", "PostJobPrio2", "ConcurrencyLimits",
    )
)  # fmt: skip
#: What a job used most of, over all of its runs, or what it was submitted with: HTCondor's shadow lets none of these
#: fall, so that a request which has grown with them stays when the next run has used little as yet.
_MOST = ("ImageSize", "ResidentSetSize", "ProportionalSetSizeKb", "MemoryUsage")
_MEMORY_USAGE = Expr("( ( ResidentSetSize + 1023 ) / 1024 )")


def usage_attributes(ads: JobAds, job: Job, pack: bytes) -> Changes:
    """Attributes of a usage report, growing values rounded."""
    found = {name: value for name, value in ads.changes_of(pack).items() if name.lower() not in _PROTECTED}
    for name in _MOST:
        value = found.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            found[name] = max(value, int(ads.number(job, f"{name}_RAW", ads.number(job, name))))
    changes = with_rounded(found, ads.rounding)
    if "ResidentSetSize" in changes and "MemoryUsage" not in changes:
        changes["MemoryUsage"] = _MEMORY_USAGE
    return changes


def slot_properties(ads: JobAds, started: schedd_pb2.RunStarted) -> dict[str, str]:
    """The slot's properties in the execute event, as attribute texts."""
    properties = {}
    ad = ads.parse(started.slot_properties)
    for name, value in kept(ad).items():
        whole = isinstance(value, float) and value == int(value)
        shown = ad.lookup(name).print_old() if isinstance(value, Expr) else literal(value)
        properties[name] = str(int(value)) if whole else shown  # type: ignore[arg-type]
    if started.scratch_dir and "CondorScratchDir" not in properties:
        properties["CondorScratchDir"] = literal(started.scratch_dir)
    return properties


def host_of(ads: JobAds, run: Run) -> str:
    """How the log names the execution point: its address, or its name when that is a local socket or not known."""
    if not run.claim.startd.startswith("unix:") and not is_nowhere(run.claim.startd):
        return run.claim.startd
    name = ads.value_of(run.claim.slot, "Machine")
    return name if isinstance(name, str) else run.claim.slot_name


class ClosingReport(Struct, frozen=True):
    """The end of a run: attributes for the ad, figures for the log."""

    attributes: Changes
    usage: Usage


def bytes_so_far(run: Run) -> Changes:
    """BytesSent and BytesRecvd of a job that runs, over all of its runs; the run's own count from now on."""
    sent, received = run.counted
    run.counted = (run.received_bytes, run.sent_bytes)
    return {
        "BytesSent": float(run.job.number("BytesSent")) + run.received_bytes - sent,
        "BytesRecvd": float(run.job.number("BytesRecvd")) + run.sent_bytes - received,
    }


def closing_report(ads: JobAds, run: Run, ended: EndReport, now: float, exited_at: float) -> ClosingReport:
    """What the end of a run reports, for the job's ad and its event log.

    :param exited_at: when the job ended, before its results moved.
    """
    attributes = usage_attributes(ads, run.job, ended.ad)
    if run.executing_at:
        attributes.update(activation_attributes(run.born_at, run.executing_at, exited_at, now))
    job = run.job

    def figure(name: str) -> float:
        value = attributes.get(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0

    user, system = figure("RemoteUserCpu"), figure("RemoteSysCpu")
    sent, received = float(run.received_bytes), float(run.sent_bytes)
    usage = Usage(
        user_s=user,
        system_s=system,
        total_user_s=user + float(job.number("CumulativeRemoteUserCpu")),
        total_system_s=system + float(job.number("CumulativeRemoteSysCpu")),
        sent=sent,
        received=received,
        total_sent=sent + float(job.number("BytesSent")) - run.counted[0],
        total_received=received + float(job.number("BytesRecvd")) - run.counted[1],
        resources=_resources(ads, run, attributes, now, exited_at),
    )
    return ClosingReport(attributes, usage)


_Row = tuple[float | int | None, float | int | None, float | int | None, str]


def _resources(ads: JobAds, run: Run, attributes: Changes, now: float, exited_at: float) -> dict[str, _Row]:
    """Usage, request, allocation and assigned devices of each resource."""
    slot = run.claim.slot
    rows: dict[str, _Row] = {}
    requested = ads.requested(run.job)
    amounts = {name.lower(): amount for name, amount in requested.items()}
    listed = ads.value_of(slot, "MachineResources")
    provided = listed.split() if isinstance(listed, str) else []
    # Spelt as the slot does. GPUs are reported where there are none, too, as in HTCondor.
    names = {name.lower(): name for name in (*requested, *provided, "GPUs") if name != "Swap"}
    for key, name in names.items():
        allocated = ads.value_of(slot, name)
        assigned = ads.value_of(slot, f"Assigned{name}")
        rows[name] = (
            _usage(name, attributes),
            amounts.get(key),
            allocated if isinstance(allocated, (int, float)) else 0 if name == "GPUs" else None,
            assigned if isinstance(assigned, str) else "",
        )
        memory = attributes.get(f"{name}MemoryUsage")
        if isinstance(memory, (int, float)):  # HTCondor writes its own spelling of the resource: GpusMemory
            rows[f"{name.capitalize()}Memory"] = (memory, None, None, "")
    if rows and run.executing_at:
        rows["TimeExecute"] = (int(max(0, exited_at - run.executing_at)), None, None, "")
        rows["TimeSlotBusy"] = (int(max(0, now - run.born_at)), None, None, "")
    return rows


def _usage(name: str, attributes: Changes) -> float | int | None:
    value = attributes.get(f"{name}Usage", attributes.get(f"{name}AverageUsage"))
    if name == "Memory" and not isinstance(value, (int, float)):
        resident = attributes.get("ResidentSetSize")
        return (int(resident) + 1023) // 1024 if isinstance(resident, (int, float)) else None
    if name == "Disk":
        value = attributes.get("DiskUsage_RAW", value)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
