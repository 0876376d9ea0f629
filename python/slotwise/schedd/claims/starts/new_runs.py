"""Begins runs: the record of a run, its job in the queue, its claim, and its row in the store."""

from __future__ import annotations

from collections.abc import Callable

from slotwise import ids
from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.schedd.claims.records import Claim, ClaimTable, Run
from slotwise.schedd.claims.transitions import ApplyToClaim
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.durations import Durations
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.match_substitution import MATCH_EXPR, by_negotiator, machine_attributes, provisioned
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes, Expr, Value
from slotwise.schedd.lifecycle import claim_events
from slotwise.schedd.lifecycle import run as run_lifecycle
from slotwise.schedd.transfer.files import input_counts


class NewRuns:
    """Begins runs on claims."""

    #: SYSTEM_JOB_MACHINE_ATTRS and SYSTEM_JOB_MACHINE_ATTRS_HISTORY_LENGTH.
    machine_attrs: tuple[str, ...] = ("Cpus", "SlotWeight")
    machine_attrs_length = 1

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        clock: Clock,
        claim_table: ClaimTable,
        durations: Durations,
        *,
        apply: ApplyToClaim,
        run_token: Callable[[], str],
    ) -> None:
        """
        :param run_token: makes the secret by which a starter proves that a run is its own.
        """
        self._queue = queue
        self._ads = ads
        self._clock = clock
        self._claim_table = claim_table
        self._durations = durations
        self._apply = apply
        self._run_token = run_token

    def begin(self, job: Job, claim: Claim, turn: Turn) -> None:
        """Decide that ``job`` starts on ``claim``; the claim is activated once that is durable."""
        number, decision = int(job.number("NumShadowStarts")) + 1, turn.decision
        state = run_lifecycle.begun(self._clock.monotonic(), claim.lease_s)
        run = Run(f"{job.key}#{number}", job, self._run_token(), claim, decision.now, claim.lease_s, state)
        run.born = self._clock.monotonic()
        self._queue.begin_run(job, run.id, self.attributes(job, claim), decision)
        self._apply(claim, claim_events.RunBegun(run.id), turn)
        self._claim_table.runs[run.id] = run
        turn.batch.put_run(run.row())
        turn.started.append(run)

    def attributes(self, job: Job, claim: Claim) -> Changes:
        """The attributes of the job that follow from the slot on which it starts; None: it has them no more."""
        slot, former = claim.slot, job.changes or {}
        address = self._ads.value_of(slot, "StartdIpAddr")
        found: Changes = {
            "RemoteHost": claim.slot_name,
            "RemoteSlotID": self._ads.value_of(slot, "SlotID"),
            "StartdAddr": claim.startd,
            "StartdIpAddr": address if isinstance(address, str) else claim.startd,
            "PublicClaimId": ids.public_claim_id(claim.id),
            "EstimatedRuntime": self._durations.expected(job.cluster.number, job.submitter),
            **self._machine_attributes(job, slot),
            **provisioned(slot),
            **(by_negotiator(slot) if MATCH_EXPR.encode() in claim.slot_ad else {}),
            **self._ads.taken_from(job, slot),
            "TransferInputFileCounts": _input_counts(self._ads.ad(job)),
        }
        return {name: value for name, value in found.items() if value is not None or name in former}

    def _machine_attributes(self, job: Job, slot: ClassAd) -> Changes:
        names = list(self.machine_attrs)
        length = self.machine_attrs_length
        own = self._ads.text(job, "JobMachineAttrs")
        if own:
            names += [name for name in own.replace(",", " ").split() if name not in names]
            length = max(length, int(self._ads.number(job, "JobMachineAttrsHistoryLength", length)))

        def former(name: str) -> Value:
            return (job.changes or {}).get(name)

        return machine_attributes(names, length, former, lambda name: self._ads.value_of(slot, name))


def _input_counts(ad: ClassAd) -> Expr | None:
    counts = input_counts(ad)
    return Expr(" ".join(str(ClassAd(counts)).split())) if counts else None
