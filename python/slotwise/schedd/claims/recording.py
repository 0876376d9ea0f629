"""Has the steps of claims and runs written down, for replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from slotwise.clock import Clock
from slotwise.errors import InvariantError
from slotwise.model.stored_form import Json
from slotwise.schedd.claims.records import Claim, ClaimRequestPending, Run
from slotwise.schedd.claims.transitions import ClaimTransitions, RunTransitions, claim_step, run_step
from slotwise.schedd.lifecycle.claim_events import ClaimEvent
from slotwise.schedd.lifecycle.claim_instructions import ClaimInstruction
from slotwise.schedd.lifecycle.claim_states import ClaimState
from slotwise.schedd.lifecycle.replay import CLAIMS, RUNS, claim_names, run_names
from slotwise.schedd.lifecycle.run_events import RunEvent
from slotwise.schedd.lifecycle.run_instructions import RunInstruction
from slotwise.schedd.lifecycle.run_states import RunState


class Recorder:
    """Takes steps, and records those that change something, ask for something to be done, or are illegal."""

    def __init__(self, clock: Clock, append: Callable[[Mapping[str, Json]], None]) -> None:
        self._clock = clock
        self._append = append

    def claim_step(
        self, claim: Claim | ClaimRequestPending, event: ClaimEvent
    ) -> tuple[ClaimState, Sequence[ClaimInstruction]]:
        """A step of a claim that is recorded."""
        names = claim_names(claim.slot_name, claim.id if isinstance(claim, Claim) else claim.claim_id)
        try:
            state, instructions = claim_step(claim, event)
        except InvariantError:
            self._append(CLAIMS.record(self._clock.now(), names, claim.state, event, None))
            raise
        if state is not claim.state or instructions:
            self._append(CLAIMS.record(self._clock.now(), names, claim.state, event, (state, instructions)))
        return state, instructions

    def run_step(self, run: Run, event: RunEvent) -> tuple[RunState, Sequence[RunInstruction]]:
        """A step of a run that is recorded."""
        names = run_names(run.id)
        try:
            state, instructions = run_step(run, event)
        except InvariantError:
            self._append(RUNS.record(self._clock.now(), names, run.state, event, None))
            raise
        if state is not run.state or instructions:
            self._append(RUNS.record(self._clock.now(), names, run.state, event, (state, instructions)))
        return state, instructions


def record(claims: ClaimTransitions, runs: RunTransitions, recorder: Recorder | None) -> None:
    """Have all steps recorded from now on; without a recorder: none."""
    claims.step = claim_step if recorder is None else recorder.claim_step
    runs.step = run_step if recorder is None else recorder.run_step
