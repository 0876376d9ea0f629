"""Carries out the instructions that the life cycle of a run gives."""

from __future__ import annotations

from collections.abc import Callable

from slotwise.schedd.claims.ends.run_ends import RunEnds
from slotwise.schedd.claims.matching.refusals import Refusals
from slotwise.schedd.claims.reconnecting.reconnect_events import ReconnectEvents
from slotwise.schedd.claims.records import Run
from slotwise.schedd.claims.startds.startd_links import StartdLinks
from slotwise.schedd.claims.starts.activation import Activation
from slotwise.schedd.claims.transitions import ClaimTransitions
from slotwise.schedd.claims.turn import Turns
from slotwise.schedd.lifecycle import run_instructions as do
from slotwise.schedd.lifecycle.run_instructions import RunInstruction, ShadowInstruction


class RunEffects:
    """Carries out the instructions for runs."""

    def __init__(
        self,
        turns: Turns,
        *,
        activation: Activation,
        links: StartdLinks,
        reconnect_events: ReconnectEvents,
        ends: RunEnds,
        claims: ClaimTransitions,
        abandon: Callable[[Run, str], None],
        shadow: Callable[[Run, ShadowInstruction], None],
        refusals: Refusals,
    ) -> None:
        """
        :param abandon: ends a run that the access point failed at, for a reason; its job runs again.
        :param shadow: carries out what the shadow is to do about a run.
        """
        self._turns = turns
        self._activation = activation
        self._links = links
        self._events = reconnect_events
        self._ends = ends
        self._claims = claims
        self._abandon = abandon
        self._shadow = shadow
        self._refusals = refusals

    def carry_out(self, run: Run, instruction: RunInstruction) -> None:
        """Carry out one instruction."""
        match instruction:
            case do.Activate():
                self._activation.activate(run)
            case do.SendActivation():
                self._activation.send(run)
            case do.Deactivate(kill):
                self._links.deactivate(run.claim, kill)
            case do.LogDisconnected(reason):
                turn = self._turns.begin()
                self._events.disconnected(run, reason, turn)
                self._turns.commit(turn)
            case do.LogReconnected():
                turn = self._turns.begin()
                self._events.reconnected(run, turn)
                self._turns.commit(turn)
            case do.GiveUp():
                self._ends.give_up(run, instruction)
            case do.Abandon(reason):
                self._abandon(run, reason)
            case do.ReleaseClaim(reason):
                turn = self._turns.begin()
                self._claims.release(run.claim, turn, reason)
                self._turns.commit(turn)
            case do.LogExecuting():
                self._refusals.accepted(run.kinds, run.claim.matched_name)
                self._shadow(run, instruction)
            case _:
                self._shadow(run, instruction)
