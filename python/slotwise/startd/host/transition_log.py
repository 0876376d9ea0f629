"""The lines of the startd's log about its slots: every transition, with the job and the cause.

Benchmarks and the steps without a number in the manual are for D_FULLDEBUG only; claims, activations, suspensions,
retirement, evictions, drains and the owner's activity are logged always.
"""

from __future__ import annotations

from msgspec import Struct

from slotwise.model.slot import HOLD_BY_STARTD
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.fsm import Step
from slotwise.startd.slot.states import Cause, Claimed, Preempting, Retiring, Slot, Suspended

#: Numbers of ordinary transitions: benchmarks.
_ROUTINE = frozenset({3, 4})


class LoggedTransition(Struct, frozen=True):
    """A step with transitions; ``cause`` is why the claim ends, if it does."""

    name: str
    job_id: str
    before: Slot
    outcome: Step
    cause: Cause | None
    submitter: str

    @property
    def routine(self) -> bool:
        """Whether it is for D_FULLDEBUG only. Rows without a number lead to Cleaning and Delete."""
        rows = self.outcome.trace
        return self.cause is None and all(row.number in _ROUTINE or row.number is None for row in rows)

    def __str__(self) -> str:
        job = f" (job {self.job_id})" if self.job_id else ""
        places = ("/".join(self.before.state_activity), "/".join(self.outcome.slot.state_activity))
        return f"{self.name}{job}: {places[0]} -> {places[1]}: {self._why()}"

    def _why(self) -> str:
        if self.cause is not None and self.cause.hold:
            return f"WANT_HOLD: {self.cause.reason} (code {HOLD_BY_STARTD}, subcode {self.cause.subcode})"
        if self.cause is not None:
            return f"{self.cause.reason} (code {self.cause.code})" if self.cause.code else self.cause.reason
        state, run = self.outcome.slot.state, self.outcome.slot.run
        claim = self.outcome.slot.claim
        former = self.before.run.run_id if self.before.run is not None else ""
        if run is not None and claim is not None and claim.fetched and run.run_id != former:
            who = claim.submitter or self.submitter or "nobody known"
            return f"fetched work starts for {who} (run {run.run_id})"
        if run is not None and self.before.run is None:
            return f"activated for {self.submitter or 'nobody known'} (run {run.run_id})"
        if run is None and self.before.run is not None:
            return f"{self.outcome.trace[0].when} (run {self.before.run.run_id})"
        granted = next((action.claim for action in self.outcome.actions if isinstance(action, ev.ClaimGranted)), None)
        if granted is not None:
            return f"claimed by {granted.submitter or self.submitter or 'nobody known'} from {granted.schedd_name}"
        if isinstance(state, Claimed) and isinstance(state.doing, Suspended):
            return "suspended by command" if state.doing.by_command else "WANT_SUSPEND and SUSPEND are true"
        return self.outcome.trace[0].when


def entry(record: SlotRecord, outcome: Step) -> LoggedTransition | None:
    """The line about a step, from the record as it was before; None when there is no transition."""
    if not outcome.trace:
        return None
    job = (
        record.job_of(outcome.slot)
        if outcome.slot.run is not None
        else record.job
        if record.slot.run is not None
        else None
    )
    return LoggedTransition(
        record.name, job.job_id if job else "", record.slot, outcome, _cause(outcome), record.terms.submitter
    )


def _cause(outcome: Step) -> Cause | None:
    for action in outcome.actions:
        if isinstance(action, ev.ClaimEnded):
            return action.cause
    state = outcome.slot.state
    if isinstance(state, Preempting):
        return state.cause
    return state.pending_cause if isinstance(state, Claimed) and isinstance(state.doing, Retiring) else None
