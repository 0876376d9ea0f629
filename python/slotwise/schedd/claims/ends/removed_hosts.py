"""Ends what this access point holds at hosts that were removed from the pool (``slotwise node remove``).

The list of what is revoked, which each host of the pool has, names removed hosts with the time of that. What was
claimed there before is given back at once: the run is over, whatever its starter says later, and its job is idle again
and runs elsewhere. A host that comes back, under the same name and with another key, is claimed as any other; for
that, what was seen to once is kept in the queue's database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.model.reason_codes import Vacate
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.records import Claim, ClaimTable, Run
from slotwise.schedd.claims.transitions import ClaimTransitions
from slotwise.schedd.claims.turn import Turns
from slotwise.schedd.jobs.decision import Decision, RunOutcome
from slotwise.schedd.lifecycle.run_instructions import GiveUp
from slotwise.schedd.storage.batch import Batch
from slotwise.schedd.storage.committer import Committer

_log = logging.getLogger(__name__)


class GivesUp(Protocol):
    """Ends runs without a word of their starters."""

    def give_up(self, run: Run, what: GiveUp) -> None:
        """End a run; its claim is given back."""
        ...


class RemovedHosts:
    """Ends claims, runs and requests at hosts that are not part of the pool any more."""

    def __init__(
        self,
        committer: Committer,
        clock: Clock,
        turns: Turns,
        claim_table: ClaimTable,
        *,
        claims: ClaimTransitions,
        ends: GivesUp,
        failures: Failures,
        removed: Callable[[], Mapping[str, int]],
    ) -> None:
        """
        :param removed: hosts with the time at which each was removed last, epoch seconds; the same object while nothing
            has changed.
        """
        self._removed = removed
        self._looked_at: Mapping[str, int] = {}
        self._committer = committer
        self._clock = clock
        self._turns = turns
        self._claim_table = claim_table
        self._claims = claims
        self._ends = ends
        self._failures = failures
        #: When each host was removed that has been seen to, epoch seconds.
        self._seen: dict[str, int] = {}

    def restore(self, seen: Mapping[str, int]) -> None:
        """Take over what a former process has seen to."""
        self._seen.update(seen)

    def look(self) -> None:
        """See to hosts that were removed since the last look."""
        if (removed := self._removed()) is self._looked_at:
            return
        self._looked_at = removed
        fresh = {host: at for host, at in removed.items() if self._seen.get(host, 0) < at}
        if not fresh:
            return
        table = self._claim_table
        for pending in [each for each in table.pending.values() if _host(each.slot_name) in fresh]:
            with contained(_log, f"withdrawing the request for {pending.slot_name}"):
                self._claims.withdraw(pending)
        for claim in [each for each in table.claims.values() if _host(each.slot_name) in fresh]:
            with contained(_log, f"releasing the claim on {claim.slot_name}", self._failures.of_claim(claim)):
                self._end(claim)
        # Runs whose claim has gone already, and that wait for a word of their starters.
        for run in [each for each in table.runs.values() if _host(each.claim.slot_name) in fresh]:
            with contained(_log, doing_for_run(run.id, "giving it up"), partial(self._failures.run, run)):
                self._give_up(run)
        batch = Batch()
        for host, at in fresh.items():
            self._seen[host] = at
            batch.put_removed_host(host, at)
        self._committer.commit(Decision(self._clock.now()), batch)

    def _end(self, claim: Claim) -> None:
        run = self._claim_table.runs.get(claim.run)
        turn = self._turns.begin()
        # The host may still listen: what it runs for us is to end there, too.
        self._claims.release(claim, turn, _why(claim.slot_name), fast=True)
        self._turns.commit(turn)
        if run is not None:
            self._give_up(run)

    def _give_up(self, run: Run) -> None:
        how = RunOutcome.LOST if run.executing_at else RunOutcome.NOT_STARTED
        self._ends.give_up(run, GiveUp(how, _why(run.claim.slot_name), int(Vacate.RECONNECT_FAILED)))


def _host(slot_name: str) -> str:
    return slot_name.rpartition("@")[2].lower()


def _why(slot_name: str) -> str:
    return f"The host {_host(slot_name)} was removed from the pool"
