"""What a schedd says when it asks for a claim, whether slot and job suit each other, and the claim that it would be."""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.classad.evaluate import attribute, truth, write
from slotwise.model.claim import Claim, lease_length
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.host.outbox import Refused, ToSchedd
from slotwise.startd.records.slot_record import Holding, Job, Terms
from slotwise.startd.slot_ad.attributes import requirements


@dataclass(frozen=True)
class Ask:
    """A request for a claim."""

    serial: int
    claim_id: str
    terms: Terms
    job: Job
    lease_s: float | None = None
    count: int = 1
    want_leftovers: bool = False
    preempt: tuple[str, ...] = ()
    #: The partitionable slot itself is wanted, for so long (0: as long as may be), besides ``count`` dynamic ones.
    whole: bool = False
    whole_s: float = 0


def refuse(point: ExecutionPoint, ask: Ask, code: int, reason: str) -> None:
    """Answer a request with no."""
    point.outbox.schedds.append(ToSchedd(ask.terms.schedd_name, ask.serial, ask.claim_id, Refused(code, reason)))


def new_claim(h: Holding, point: ExecutionPoint, ask: Ask, claim_id: str, now: float) -> Claim:
    job_lease = ask.lease_s if ask.lease_s else ask.job.values.get("JobLeaseDuration")
    lease = lease_length(job_lease, ask.terms.alive_interval_s, point.settings.alives_per_lease)
    rank = point.settings.policy(h.slot_id, h.type_number).rank(h.ad, ask.job.ad, now)
    return Claim(claim_id, ask.terms.schedd_name, now, lease, now, rank, ask.terms.submitter)


def why_not_to_its_match(point: ExecutionPoint, h: Holding, job: Job, now: float) -> str | None:
    """As :func:`why_no_match`, for a slot in Matched: all others are told False, its match is judged as ever."""
    knobs = point.settings.slot_knobs(h.slot_id, h.type_number)
    start = point.order.start if point.order is not None else None
    write(h.ad, {"Requirements": requirements(h, knobs, draining_start=start, to_claim=True)})
    try:
        return why_no_match(h, job, now)
    finally:
        write(h.ad, {"Requirements": h.shown.get("Requirements")})


def why_no_match(h: Holding, job: Job, now: float, *, amounts_checked: bool = False) -> str | None:
    """Why slot and job do not suit each other; None when they do."""
    if not truth(attribute(h.ad, "Requirements", job.ad, now=now)):
        return "the machine's Requirements do not accept the job"
    if "Requirements" in job.ad and not truth(attribute(job.ad, "Requirements", h.ad, now=now)):
        return "the job's Requirements do not accept the machine"
    return None
