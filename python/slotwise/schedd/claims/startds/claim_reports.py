"""What startds report of claims that the schedd holds: activated or not, suspended, retiring, ended."""

from __future__ import annotations

import logging
from collections.abc import Callable

from slotwise.clock import Clock
from slotwise.schedd.claims.matching.refusals import Refusals
from slotwise.schedd.claims.records import Claim, ClaimTable
from slotwise.schedd.claims.startds.startd_messages import ActivationRefused, ClaimTaken, RunActivated, SlotChanged
from slotwise.schedd.claims.transitions import ApplyToClaim, ApplyToRun
from slotwise.schedd.claims.turn import Turns
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.lifecycle import claim_events, run_events
from slotwise.schedd.lifecycle.claim_states import EndedByStartd
from slotwise.schedd.storage.committer import Committer

_log = logging.getLogger(__name__)


class ClaimReports:
    """Takes reports on single claims."""

    def __init__(
        self,
        queue: Queue,
        committer: Committer,
        clock: Clock,
        turns: Turns,
        claim_table: ClaimTable,
        *,
        apply: ApplyToClaim,
        apply_to_run: ApplyToRun,
        on_starter: Callable[[str, str], None],
        refusals: Refusals,
    ) -> None:
        """
        :param on_starter: called with the addresses of a startd and of the starter that it uses.
        """
        self._queue = queue
        self._committer = committer
        self._clock = clock
        self._turns = turns
        self._claim_table = claim_table
        self._apply = apply
        self._apply_to_run = apply_to_run
        self._on_starter = on_starter
        self._refusals = refusals

    def take(self, claim: Claim, report: RunActivated | SlotChanged | ClaimTaken) -> None:
        """Take a report on a claim that the schedd holds."""
        match report:
            case RunActivated():
                self._activated(claim, report)
            case SlotChanged():
                self._slot_changed(claim, report)
            case ClaimTaken(cause=cause):
                self.claim_ended(claim, cause)

    def _activated(self, claim: Claim, report: RunActivated) -> None:
        run = self._claim_table.runs.get(report.run_id)
        if run is not None:
            run.starter = report.starter
            self._apply_to_run(run, run_events.Activated())
            self._on_starter(claim.startd, report.starter)

    def activation_refused(self, report: ActivationRefused) -> None:
        """A run does not begin. Its claim may be gone already: the report of its end can come first."""
        run = self._claim_table.runs.get(report.run_id)
        if run is not None:
            run.claim.failures += 1
            _log.info("%s: %s refused to activate run %s: %s", run.key, run.claim.slot_name, run.id, report.reason)
            self._refusals.note(run.kinds, run.claim.matched_name, report.reason, report.code, self._clock.monotonic())
            refused = run_events.ActivationRefused(self._clock.monotonic(), report.reason, report.code)
            self._apply_to_run(run, refused)

    def claim_ended(self, claim: Claim, cause: EndedByStartd | None) -> None:
        """The startd ended the claim, or does not know it (None)."""
        run = self._claim_table.runs.get(claim.run)
        job = run.key if run is not None else "no job"
        reason = cause.reason if cause is not None else "the startd does not know the claim any more"
        _log.info("%s: claim of %s for %s ended by the startd: %s", job, claim.slot_name, claim.submitter, reason)
        turn = self._turns.begin()
        self._apply(claim, claim_events.ClaimEnded(cause), turn)
        self._turns.commit(turn)

    def _slot_changed(self, claim: Claim, report: SlotChanged) -> None:
        run = self._claim_table.runs.get(claim.run)
        if report.retires:
            turn = self._turns.begin()
            self._apply(claim, claim_events.SlotRetires(), turn)
            if turn.batch:
                self._turns.commit(turn)
        if run is None or run.over or (report.run_id and report.run_id != run.id):
            return
        decision = Decision(self._clock.now())
        if report.activity in ("Suspended", "Busy", "Retiring"):
            with self._committer.deciding(decision):
                if report.activity == "Suspended":
                    self._queue.suspended(run.job, max(1, int(run.job.number("NumPids"))), decision)
                else:
                    self._queue.continued(run.job, decision)
        elif report.activity == "Idle" and report.run_id == run.id:
            self._apply_to_run(run, run_events.SlotFreed(self._clock.monotonic()))
        if decision.changed:
            self._committer.commit(decision)
