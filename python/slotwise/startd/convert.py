"""The startd's messages on the wire: the values that the execution point decides with, to and from protobuf."""

from __future__ import annotations

from collections.abc import Callable

from slotwise.model.resources import Resources
from slotwise.model.slot import HOLD_BY_STARTD
from slotwise.startd.host.outbox import (
    ActivatedRun,
    Ended,
    EndNoted,
    Forget,
    Freeze,
    Granted,
    Kill,
    Measured,
    Noted,
    NowIn,
    Refused,
    RefusedRun,
    RepairNoted,
    ShadowMoved,
    Start,
    ToSchedd,
    ToStarter,
)
from slotwise.startd.host.run_reports import Leftover, ListedRun, RunGone
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.settings import Settings
from slotwise.startd.start_params import limits_of
from slotwise.table import pack_ads
from slotwise.wire.gen import common_pb2, startd_pb2, starter_pb2

# ---- the starter


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
        case ShadowMoved(run_ids, address):
            return starter_pb2.JobCommand(shadow_moved=starter_pb2.ShadowMoved(address=address, run_ids=run_ids))
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


# ---- schedds


def claim_event(message: ToSchedd, slot_pack: Callable[[str], bytes], starter_address: str) -> startd_pb2.ClaimEvent:
    """A message as it is sent.

    :param slot_pack: the packed ad of a slot, by name.
    :param starter_address: where the shadow of an activated run reaches the starter.
    """
    event = startd_pb2.ClaimEvent(serial=message.serial, claim_id=message.claim_id)
    match message.what:
        case Granted(slots, leftover, leftover_slot):
            for claim_id, name in slots:
                event.granted.slots.append(
                    startd_pb2.GrantedSlot(claim_id=claim_id, slot_name=name, slot_ad=slot_pack(name))
                )
            if leftover:
                event.granted.leftover_claim_id = leftover
                event.granted.leftover_slot_ad = slot_pack(leftover_slot)
        case Refused(code, reason):
            event.refused.code, event.refused.reason = code, reason
        case ActivatedRun(run_id):
            event.activated.run_id = run_id
            event.activated.starter_address = starter_address
        case RefusedRun(run_id, code, reason):
            event.activation_refused.run_id = run_id
            event.activation_refused.code, event.activation_refused.reason = code, reason
        case NowIn(state, activity, at, run_id):
            event.state.state, event.state.activity = state, activity
            event.state.at, event.state.run_id = at, run_id
        case Ended(cause):
            event.ended.reason, event.ended.reason_code = cause.reason, cause.code
            event.ended.reason_subcode, event.ended.hold = cause.subcode, cause.hold
    return event
