"""What a schedd asks for when it requests a claim, whether the machine accepts the job, and the claim that it would be.

Whether the job accepts the machine is the negotiator's question, and that of the schedd before it reuses a claim: an
execution point asks only the machine's side, as HTCondor's does. A slot that was carved for a job, claimed, and about
to run it need not satisfy what the job said of the free one.
"""

from __future__ import annotations

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import attribute, truth
from slotwise.model.claim import Claim, lease_length
from slotwise.startd.host.outbox import Outbox, Refused, ToSchedd
from slotwise.startd.records.slot_record import Job, SlotRecord, Terms
from slotwise.startd.settings import Settings


class ClaimRequest(Struct, frozen=True):
    """A request for a claim."""

    serial: int
    claim_id: str
    terms: Terms
    job: Job
    lease_s: float | None = None
    count: int = 1
    want_leftovers: bool = False
    preempt: tuple[str, ...] = ()
    #: Claims of the schedd on dynamic slots of one partitionable slot, which become one.
    coalesce: tuple[str, ...] = ()
    #: Whether the partitionable slot itself is requested, besides ``count`` dynamic ones; and for how long (seconds,
    #: 0: as long as it may be had).
    pslot_itself: bool = False
    pslot_claim_s: float = 0


def refuse(outbox: Outbox, request: ClaimRequest, code: int, reason: str) -> None:
    """Queue a refusal of the request."""
    what = Refused(code, reason)
    outbox.schedds.append(ToSchedd(request.terms.schedd, request.serial, request.claim_id, what))


def new_claim(settings: Settings, record: SlotRecord, request: ClaimRequest, claim_id: str, now: float) -> Claim:
    """The claim that the request would get on the slot."""
    job, terms = request.job, request.terms
    job_lease = request.lease_s if request.lease_s else job.lease_s
    lease = lease_length(job_lease, terms.alive_interval_s, settings.alives_per_lease)
    rank = settings.policy(record.slot_id, record.type_number).rank(record.ad, job.ad, now)
    return Claim(claim_id, terms.schedd_name, now, lease, now, rank, terms.submitter)


def why_no_match(slot_ad: ClassAd, job_ad: ClassAd, now: float) -> str | None:
    """Why the machine does not accept the job; None when it does."""
    if truth(attribute(slot_ad, "Requirements", job_ad, now=now)):
        return None
    return "the machine's Requirements do not accept the job"
