"""After a break: which claims and runs still live, which are gone, which must be asked for again.

What is known comes from two sides. The startd answers ``hello`` with the claims that live and the runs on them. The
starter's first message on a stream is the list of its runs, among them ended ones whose end was not acknowledged. A run
is given up only when neither side has it, or when its lease has run out on both; then the job may start again.
"""

from __future__ import annotations

import logging
from functools import partial

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.reconnecting.starter_lists import StarterLists
from slotwise.schedd.claims.records import Claim, ClaimTable, Run
from slotwise.schedd.claims.startds.startd_links import StartdLinks
from slotwise.schedd.claims.startds.startd_messages import ClaimsKnown, KnownClaim
from slotwise.schedd.claims.transitions import ApplyToClaim, ApplyToRun
from slotwise.schedd.claims.turn import Turn, Turns
from slotwise.schedd.lifecycle import claim_events
from slotwise.schedd.lifecycle.claim import NO_JOB_LEFT
from slotwise.schedd.lifecycle.run_events import ClaimLost, SlotBusy, SlotIdle, StarterListed, StreamLost
from slotwise.schedd.lifecycle.run_states import AtStarter

_log = logging.getLogger(__name__)


class Reconnects:
    """Brings claims and runs back into step with startds and starters."""

    def __init__(
        self,
        clock: Clock,
        claim_table: ClaimTable,
        turns: Turns,
        *,
        apply: ApplyToClaim,
        apply_to_run: ApplyToRun,
        links: StartdLinks,
        starters: StarterLists,
        failures: Failures,
    ) -> None:
        self._clock = clock
        self._claim_table = claim_table
        self._turns = turns
        self._apply = apply
        self._apply_to_run = apply_to_run
        self._links = links
        self._starters = starters
        self._failures = failures

    # ---- the startd's side

    def known(self, startd: str, known: ClaimsKnown) -> None:
        """Compare the claims at a startd with those that it says it has."""
        turn = self._turns.begin()
        with self._turns.deciding(turn):
            for claim in self._claim_table.at(startd):
                with contained(_log, f"comparing the claim on {claim.slot_name}", self._failures.of_claim(claim)):
                    self._compare(claim, known.claims.get(claim.id), turn)
            for claim_id in known.claims:
                if claim_id not in self._claim_table.claims:  # given back between the hello and its answer
                    self._links.release(startd, claim_id, NO_JOB_LEFT)
            if turn.batch or turn.refused:
                self._turns.commit(turn)

    def _compare(self, claim: Claim, listed: KnownClaim | None, turn: Turn) -> None:
        """Bring one claim into step with what its startd listed of it; None: nothing."""
        if listed is None:
            self._apply(claim, claim_events.ClaimUnlisted(), turn)
            return
        if listed.slot_ad:
            claim.renew_slot(listed.slot_ad)
        self._apply(claim, claim_events.ClaimListed(listed.run_id, active=listed.activity != "Idle"), turn)

    def claim_lost(self, run: Run, judge: bool) -> None:
        """The run's claim has gone; ``judge``: it is given up if its starter does not have it either."""
        at_starter = self._starters.finds(run) if judge else AtStarter.UNKNOWN
        self._apply_to_run(run, ClaimLost(self._clock.monotonic(), at_starter, run.end_of_claim))

    def run_checked(self, run: Run, active: bool) -> None:
        """The startd told whether the run is on its slot."""
        if active:
            self._apply_to_run(run, SlotBusy())
        else:
            at_starter = self._starters.finds_at_startd(run)
            self._apply_to_run(run, SlotIdle(self._clock.monotonic(), at_starter, run.end_of_claim))

    # ---- the starter's side

    def starter_lists(self, starter: str, run_ids: list[str]) -> None:
        """A starter lists the runs that it has."""
        startds = self._starters.lists(starter, run_ids)
        for run in [run for run in self._claim_table.runs.values() if run.claim.startd in startds]:
            doing = doing_for_run(run.id, "looking for it at its starter")
            with contained(_log, doing, partial(self._failures.run, run)):
                self._apply_to_run(run, StarterListed(self._starters.finds(run), run.end_of_claim))

    def starter_left(self, starter: str) -> None:
        """The stream of the starter broke."""
        self._starters.discard(starter)

    def speaks(self, run: Run) -> None:
        """The run's starter said hello."""
        self._starters.has_run(run)

    def falls_silent(self, run: Run, reason: str) -> None:
        """The stream of the run's starter broke."""
        run.stream = None
        moment = self._clock.monotonic()
        self._apply_to_run(run, StreamLost(moment, run.lease_s, run.claim.gone, run.goes_on, reason))
