"""The startd's messages to and from the starter, to and from the values that the execution point decides with."""

from __future__ import annotations

from slotwise.model.resources import Resources
from slotwise.model.slot import HOLD_BY_STARTD
from slotwise.startd.host.outbox import EndNoted, Forget, Freeze, Kill, Measured, Noted, RepairNoted, Start, ToStarter
from slotwise.startd.host.run_reports import Leftover, ListedRun, RunGone
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.settings import Settings
from slotwise.startd.start_params import limits_of
from slotwise.table import pack_ads
from slotwise.wire.gen import common_pb2, starter_pb2


def command(what: ToStarter) -> starter_pb2.JobCommand:
    """A command about a run. A start is made by :func:`start`, of its slot."""
    match what:
        case Kill(run_id, fast, cause, vacate_s):
            kill = starter_pb2.KillJob(
                fast=fast, reason=cause.reason, reason_code=HOLD_BY_STARTD if cause.hold else cause.code,
                reason_subcode=cause.subcode, vacate_s=int(min(vacate_s, 2**31 - 1)), hold=cause.hold,
            )  # fmt: skip
            return starter_pb2.JobCommand(run_id=run_id, kill=kill)
        case Freeze(run_id, resume):
            return starter_pb2.JobCommand(run_id=run_id, suspend=starter_pb2.SuspendJob(resume=resume))
        case Forget(run_id):
            return starter_pb2.JobCommand(run_id=run_id, forget=starter_pb2.ForgetJob())
        case Measured(run_id, attributes):
            batch = common_pb2.AdBatch(pack=pack_ads([attributes]))
            return starter_pb2.JobCommand(run_id=run_id, slot_usage=batch)
        case EndNoted(run_id):
            return starter_pb2.JobCommand(run_id=run_id, end_noted=starter_pb2.EndNoted())
        case Noted(run_id):
            return starter_pb2.JobCommand(run_id=run_id, left_noted=starter_pb2.LeftNoted())
        case RepairNoted(run_id):
            return starter_pb2.JobCommand(run_id=run_id, repair_noted=starter_pb2.RepairNoted())
        case Start():
            raise TypeError("a start is made of its slot")


def start(record: SlotRecord, settings: Settings) -> starter_pb2.JobCommand | None:
    """The command that starts the job which was activated on a slot; None where there is none."""
    activation, claim = record.activation, record.slot.claim
    if activation is None:
        return None
    return starter_pb2.JobCommand(
        run_id=activation.run_id,
        start=starter_pb2.StartJob(
            job_ad=activation.job.pack,
            slot_ad=pack_ads([record.ad]),
            slot_name=record.name,
            run_token=activation.run_token,
            shadow_address=activation.shadow_address,
            limits=pack_ads([limits_of(record, settings.config, settings.limits)]),
            lease_s=int(claim.lease_s) if claim else 0,
            fetched_for=str(activation.job.values.get("User", "")) if activation.fetched else "",
        ),
    )


def list_runs() -> starter_pb2.JobCommand:
    """Asks which runs the starter has."""
    return starter_pb2.JobCommand(list=starter_pb2.ListJobs())


def run_gone(run_id: str, report: starter_pb2.JobGone) -> RunGone:
    """The report of a run's end."""
    left = None
    if report.broken:
        left = leftover(report.left) if report.HasField("left") else Leftover(run_id)
    return RunGone(
        run_id,
        report.how,
        report.reason,
        finished=report.finished,
        fetched=report.fetched,
        bytes_received=report.bytes_received,
        bytes_sent=report.bytes_sent,
        leftover=left,
    )


def leftover(left: starter_pb2.JobLeft) -> Leftover:
    """The report of what a run left behind."""
    devices = {tag: tuple(names.split(",")) for tag, names in left.assigned.items() if names}
    amounts = Resources(left.cpus, left.memory_mib, left.disk_kib, devices=devices)
    return Leftover(left.run_id, left.slot_name, left.reason, left.code, amounts)


def listed_run(job: starter_pb2.JobListed) -> ListedRun:
    """A run of the starter's list."""
    return ListedRun(job.run_id, job.slot_name, job.suspended)
