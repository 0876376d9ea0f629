"""Applies events to claims and runs: takes the step of the life cycle, adopts the state, carries out what follows.

An instruction may bring the next event of the same claim or run: by then the state before it is adopted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slotwise.schedd.claims.records import Claim, ClaimRequestPending, ClaimTable, Run
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.lifecycle import claim as claim_lifecycle
from slotwise.schedd.lifecycle import claim_events
from slotwise.schedd.lifecycle import run as run_lifecycle
from slotwise.schedd.lifecycle.claim_events import ClaimEvent
from slotwise.schedd.lifecycle.claim_instructions import ClaimInstruction
from slotwise.schedd.lifecycle.run_events import RunEvent
from slotwise.schedd.lifecycle.run_instructions import RunInstruction

#: Takes a step of a claim's life cycle, or of a request's for one.
TakeClaimStep = Callable[[Claim | ClaimRequestPending, ClaimEvent], claim_lifecycle.Step]
#: Takes a step of a run's life cycle.
TakeRunStep = Callable[[Run, RunEvent], run_lifecycle.Step]


class ApplyToClaim(Protocol):
    """Applies an event to a claim; the port of those with whom events of claims begin."""

    def __call__(self, claim: Claim, event: ClaimEvent, turn: Turn) -> None:
        """See :meth:`ClaimTransitions.apply`."""
        ...


class ApplyToRun(Protocol):
    """Applies an event to a run; the port of those with whom events of runs begin."""

    def __call__(self, run: Run, event: RunEvent) -> None:
        """See :meth:`RunTransitions.apply`."""
        ...


class FollowsClaims(Protocol):
    """Carries out the instructions for claims."""

    def carry_out(self, claim: Claim, instruction: ClaimInstruction, turn: Turn) -> None:
        """Carry out one instruction."""
        ...

    def return_jobs(self, pending: ClaimRequestPending) -> None:
        """Make the jobs of a request runnable again."""
        ...


def claim_step(claim: Claim | ClaimRequestPending, event: ClaimEvent) -> claim_lifecycle.Step:
    """A step of a claim's life cycle."""
    return claim_lifecycle.step(claim.state, event)


def run_step(run: Run, event: RunEvent) -> run_lifecycle.Step:
    """A step of a run's life cycle."""
    return run_lifecycle.step(run.state, event)


class ClaimTransitions:
    """The one way in which the state of a claim changes while the schedd runs."""

    def __init__(self, claim_table: ClaimTable, effects: Callable[[], FollowsClaims]) -> None:
        self._claim_table = claim_table
        self._effects = effects
        #: Takes a step; one that also records it may be put here.
        self.step: TakeClaimStep = claim_step

    def apply(self, claim: Claim, event: ClaimEvent, turn: Turn) -> None:
        """Apply an event to a claim, and carry out the instructions that follow.

        :raises InvariantError: when it cannot happen to a claim in this state.
        """
        state, instructions = self.step(claim, event)
        self._claim_table.adopt(claim, state)
        for instruction in instructions:
            self._effects().carry_out(claim, instruction, turn)

    def release(self, claim: Claim, turn: Turn, reason: str, *, fast: bool = False) -> None:
        """Give the claim back; ``fast``: a run on it gets no time to end."""
        if claim.id in self._claim_table.claims:
            self.apply(claim, claim_events.Released(reason, fast), turn)

    def withdraw(self, pending: ClaimRequestPending) -> None:
        """End a request from which no claim comes."""
        pending.state, instructions = self.step(pending, claim_events.Withdrawn())
        self._claim_table.pending.pop(pending.serial, None)
        if instructions:
            self._effects().return_jobs(pending)


class RunTransitions:
    """The one way in which the state of a run changes while the schedd runs."""

    def __init__(self, carry_out: Callable[[Run, RunInstruction], None]) -> None:
        self._carry_out = carry_out
        #: Takes a step; one that also records it may be put here.
        self.step: TakeRunStep = run_step

    def apply(self, run: Run, event: RunEvent) -> None:
        """Apply an event to a run, and carry out the instructions that follow.

        :raises InvariantError: when it cannot happen to a run in this state.
        """
        run.state, instructions = self.step(run, event)
        for instruction in instructions:
            self._carry_out(run, instruction)
