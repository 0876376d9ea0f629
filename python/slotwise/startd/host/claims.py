"""What schedds ask for, decided: claims, activations, releases, keep-alives. Answers go to the outbox."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from slotwise.classad.evaluate import attribute, truth
from slotwise.classad.values import number
from slotwise.model.claim import Run
from slotwise.model.slot import BrokenCode, SlotKind, State, VacateCode
from slotwise.startd.host.breakages import Breakages
from slotwise.startd.host.claim_ids import ClaimIds
from slotwise.startd.host.claim_request import ClaimRequest, new_claim, refuse, why_no_match
from slotwise.startd.host.drain import Drain
from slotwise.startd.host.dynamic_slots import DynamicSlots, has_claim
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.offline_devices import OfflineDevices
from slotwise.startd.host.outbox import RefusedRun, ToSchedd
from slotwise.startd.host.schedd_addresses import ScheddAddresses
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.host.transitions import ApplyEvent
from slotwise.startd.policy.consumption import as_consumed
from slotwise.startd.records.slot_record import (
    Activation,
    Job,
    JobUsage,
    QueuedActivation,
    ScheddId,
    SlotRecord,
    Terms,
    WaitingClient,
)
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Backfill, Busy, Claimed, Cleaning, Idle, Matched, Suspended

#: How long an activation may wait for the end of the previous run (seconds).
QUEUED_ACTIVATION_S = 20.0

_NOBODY = Terms()


class Claims:
    """The claims on the slots of a host, as schedds ask for them and use them."""

    def __init__(
        self,
        host: HostState,
        claim_ids: ClaimIds,
        ads: SlotAds,
        dynamic_slots: DynamicSlots,
        breakages: Breakages,
        offline_devices: OfflineDevices,
        drain: Drain,
        addresses: ScheddAddresses,
        apply: ApplyEvent,
    ) -> None:
        self._host, self._claim_ids, self._ads, self._dynamic_slots = host, claim_ids, ads, dynamic_slots
        self._breakages, self._offline_devices, self._drain, self._apply = breakages, offline_devices, drain, apply
        self._addresses = addresses

    def request(self, request: ClaimRequest, now: float) -> None:
        """Decide on a request for a slot, or for up to ``count`` like dynamic slots of a partitionable one."""
        if request.coalesce:
            self._coalesce(request, now)
            return
        record = self._claim_ids.slot_of(request.claim_id)
        outbox, settings = self._host.outbox, self._host.settings
        if record is None:
            refuse(outbox, request, VacateCode.CLAIM_NOT_FOUND, "no slot has this claim id (any more)")
            return
        valid = self._claim_ids.is_valid(record, request.claim_id, now)
        if not valid and not has_claim(record, request.claim_id):
            refuse(outbox, request, VacateCode.OLD_CLAIM, "the claim id is in use already")
        elif record.kind is SlotKind.PARTITIONABLE and request.pslot_itself and settings.pslot_claim_s > 0:
            self._dynamic_slots.request_pslot(record, request, now)
        elif record.kind is SlotKind.PARTITIONABLE:
            self._dynamic_slots.request(record, request, now)
        else:
            self._request_single(record, request, now)

    def _coalesce(self, request: ClaimRequest, now: float) -> None:
        """Make one dynamic slot of several that the schedd has claimed of one partitionable slot."""
        records = [self._claimed_with(claim_id) for claim_id in dict.fromkeys(request.coalesce)]
        parents = {record.parent if record is not None else None for record in records}
        parent = self._host.slots.get(parents.pop()) if len(parents) == 1 else None
        own = all(record is not None and record.terms.schedd == request.terms.schedd for record in records)
        if parent is None or not own:
            reason = "the claims are not all of this access point and of one partitionable slot"
            refuse(self._host.outbox, request, VacateCode.CLAIM_NOT_FOUND, reason)
            return
        self._dynamic_slots.coalesce(parent, [record for record in records if record is not None], request, now)

    def _request_single(self, record: SlotRecord, request: ClaimRequest, now: float) -> None:
        self._ads.show(record, now)
        outbox, state = self._host.outbox, record.slot.state
        matched = isinstance(state, Matched)
        my = self._ads.open_to_its_match(record) if matched else record.ad
        mismatch = why_no_match(my, request.job.ad, now)
        if mismatch is not None:
            refuse(outbox, request, VacateCode.NO_MATCH, mismatch)
            if matched:
                self._apply(record, ev.MatchFailed(), now)
            return
        claim = new_claim(self._host.settings, record, request, request.claim_id, now)
        record.serials[request.claim_id] = request.serial
        record.requesters[request.claim_id] = request.terms.schedd
        if isinstance(state, Claimed):
            before = record.waiting
            if before is not None and state.waiting is not None:  # it is told when this request overtakes it
                record.requesters.setdefault(state.waiting.claim.claim_id, before.terms.schedd)
            record.waiting = WaitingClient(request.job, request.terms)  # START is asked for its job
            outcome = self._apply(record, ev.ClaimRequested(claim), now)
            if any(isinstance(action, ev.ClaimQueued) for action in outcome.actions):
                self._ads.show(record, now)  # policies may refer to PreemptingRank
                self._apply(record, ev.Evaluate(), now)
            else:
                record.waiting = before
            return
        if isinstance(state, Backfill) and state.claim is not None:
            del record.serials[request.claim_id], record.requesters[request.claim_id]
            refuse(outbox, request, VacateCode.NO_MATCH, "another claim waits for the end of the filler work")
            return
        record.request, record.terms = request.job, request.terms
        self._apply(record, ev.ClaimRequested(claim), now)
        waits = isinstance(record.slot.state, Backfill) and record.slot.state.claim is not None
        if record.slot.claim is None and not waits:
            record.request = None

    # ---------------------------------------------------------------------------------------------------- activation

    def activate(self, claim_id: str, activation: Activation, now: float, *, schedd: Terms = _NOBODY) -> None:
        """Start a job under a claim, at once or as soon as the previous run has ended; ``schedd`` asks for it."""
        record = self._claim_ids.slot_of(claim_id)
        if record is None:
            refused = RefusedRun(activation.run_id, VacateCode.CLAIM_NOT_FOUND, "no such claim")
            self._host.outbox.schedds.append(ToSchedd(schedd.schedd, activation.serial, claim_id, refused))
            return
        state = record.slot.state
        if record.slot.run is not None and record.slot.run.run_id == activation.run_id:
            self._addresses.activated_again(record, activation, schedd)
            return  # repeated after a break of the stream
        if record.queued is not None and record.queued.activation.run_id == activation.run_id:
            self._addresses.activated_again(record, activation, schedd)
            return
        if isinstance(state, Claimed) and isinstance(state.doing, Busy | Suspended | Cleaning) and not record.queued:
            record.queued = QueuedActivation(activation, now)
            return
        record.serials[claim_id] = activation.serial
        refusal = self._unfit(record, activation.job, now)
        if refusal is not None:
            self._host.notify_schedd(record, claim_id, RefusedRun(activation.run_id, *refusal))
            return
        before = record.activation
        record.activation = activation
        run = run_of(activation, now)
        self._apply(record, ev.Activated(run), now)
        if record.slot.run is None or record.slot.run.run_id != activation.run_id:
            record.activation = before

    def _unfit(self, record: SlotRecord, job: Job, now: float) -> tuple[int, str] | None:
        if "JobUniverse" not in job.values:
            return VacateCode.BAD_REQUEST, "the job has no JobUniverse"
        if record.slot.state.state is not State.CLAIMED:
            return None  # the state machine says why
        knobs = self._host.settings.slot_knobs(record.slot_id, record.type_number)
        if knobs.health and not truth(attribute(record.ad, "Healthy", None, now=now)):
            return VacateCode.UNHEALTHY, "the slot is not healthy"
        how = self._host.settings.requesting(record.slot_id, record.type_number)
        consumption = how.consumption if record.kind is SlotKind.DYNAMIC else {}
        asking = as_consumed(consumption, record.ad, job.ad, now)
        if isinstance(asking, str):
            return VacateCode.NO_MATCH, asking
        mismatch = why_no_match(record.ad, asking, now)
        return None if mismatch is None else (VacateCode.NO_MATCH, mismatch)

    def run_gone(
        self,
        run_id: str,
        now: float,
        *,
        broken: str | None = None,
        code: int = BrokenCode.UNCLEAN,
        finished: bool = False,
        reason: str = "",
    ) -> bool:
        """The starter has cleaned up after a run: the slot is free for the next one. False when no slot has this run.

        :param broken: why the slot must not be used any more; ``code`` is its SlotBrokenCode.
        :param finished: whether fetched work has completed; ``reason``: why it has not.
        """
        slots = self._host.slots
        record = slots.get(slots.by_run.pop(run_id, None))
        if record is None or record.slot.run is None or record.slot.run.run_id != run_id:
            return False
        if broken is not None:
            self._breakages.mark(record, broken, code, now, run_id)
        run, fetched = record.slot.run, _is_fetched(record)
        record.last_run = run_id
        if not fetched:
            record.terms = replace(record.terms, ended_run=run_id)
        self._ads.statistics.ended(now - run.activated_at, run.ran(now), now)
        record.usage = JobUsage()
        record.fetch.finished = finished
        unfinished = "" if finished else reason or "The starter has lost the run"
        if fetched and not finished:
            record.fetch.attempts = record.fetch.attempts.work_failed()
        self._apply(record, ev.RunGone(broken, code, unfinished if fetched else ""), now)
        record.activation = None if record.slot.run is None else record.activation
        if record.parent is None and record.slot.run is None:
            self._offline_devices.withdraw(record)
        if not any(other.slot.run is not None for other in slots):
            self._drain.idle_since = now
        queued, claim = record.queued, record.slot.claim
        if queued is not None and claim is not None and _is_idle(record):
            record.queued = None
            self.activate(claim.claim_id, queued.activation, now)
        return True

    def checkpointing(self, record: SlotRecord, now: float) -> None:
        """The job of a slot has written a checkpoint: it may be the moment for it to leave."""
        self._apply(record, ev.Checkpointing(), now)

    def refuse_stale_activations(self, now: float) -> None:
        """Refuse activations that have waited too long for the end of the previous run."""
        for record in self._host.slots:
            queued, claim = record.queued, record.slot.claim
            if queued is not None and now - queued.since >= QUEUED_ACTIVATION_S and claim is not None:
                reason = "the previous job is still being cleaned up"
                refusal = RefusedRun(queued.activation.run_id, VacateCode.STILL_CLEANING, reason)
                message = ToSchedd(record.terms.schedd, queued.activation.serial, claim.claim_id, refusal)
                self._host.outbox.schedds.append(message)
                record.queued = None

    # ----------------------------------------------------------------------------------------------- the claim's life

    def _claimed_with(self, claim_id: str) -> SlotRecord | None:
        record = self._claim_ids.slot_of(claim_id)
        claim = record.slot.claim if record is not None else None
        return record if claim is not None and claim.claim_id == claim_id else None

    def keep_alive(self, claim_ids: Iterable[str], now: float) -> list[str]:
        """Renew leases; returns the claims that are unknown."""
        unknown = []
        for claim_id in claim_ids:
            record = self._claimed_with(claim_id)
            if record is None:
                unknown.append(claim_id)
            else:
                self._apply(record, ev.KeptAlive(), now)
        return unknown

    def apply(self, claim_id: str, serial: int, event: ev.SlotEvent, now: float) -> bool:
        """Apply an event to a claim; False when there is no such claim. ``serial`` is answered at the claim's end."""
        record = self._claimed_with(claim_id)
        if record is None:
            return False
        if serial:
            record.serials[claim_id] = serial
        self._apply(record, event, now)
        return True

    def greeted(self, claim_ids: Iterable[str], schedd: Terms) -> None:
        """A schedd has said hello with these claims: its address may be another one than before."""
        records = [self._claimed_with(claim_id) for claim_id in claim_ids]
        self._addresses.greeted([record for record in records if record is not None], schedd)

    def schedd_lost(self, schedd: ScheddId, now: float) -> None:
        """A schedd's stream broke: claims persist, but requests that wait are withdrawn."""
        for record in self._host.slots:
            if record.waiting is not None and record.waiting.terms.schedd == schedd:
                record.waiting = None
                self._apply(record, ev.PreempterWithdrawn(), now)


def run_of(activation: Activation, now: float) -> Run:
    """The run that an activation begins, with what the job says of its end."""
    values = activation.job.values
    vacate = values.get("JobMaxVacateTime", values.get("KillSigTimeout"))
    return Run(
        activation.run_id,
        now,
        vacate_s=_seconds(vacate),
        retirement_s=_seconds(values.get("MaxJobRetirementTime")),
        nice_user=truth(values.get("NiceUser")),
    )


def _seconds(value: object) -> float | None:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_fetched(record: SlotRecord) -> bool:
    return record.slot.claim is not None and record.slot.claim.fetched


def _is_idle(record: SlotRecord) -> bool:
    return isinstance(record.slot.state, Claimed) and isinstance(record.slot.state.doing, Idle)
