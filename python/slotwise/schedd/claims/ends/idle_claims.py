"""Claims without a run: given to new jobs, given back to others who wait, or when they have waited for long enough."""

from __future__ import annotations

import logging

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.schedd.claims.ends.excess import Excess
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.records import ClaimTable
from slotwise.schedd.claims.starts.starting import Starting
from slotwise.schedd.claims.transitions import ClaimTransitions
from slotwise.schedd.claims.turn import Turns
from slotwise.schedd.lifecycle import claim_events
from slotwise.schedd.lifecycle.claim import SHARE_USED_UP

_log = logging.getLogger(__name__)


class IdleClaims:
    """Sees to claims that serve no run."""

    def __init__(
        self,
        clock: Clock,
        turns: Turns,
        claim_table: ClaimTable,
        *,
        claims: ClaimTransitions,
        starting: Starting,
        failures: Failures,
    ) -> None:
        self._clock = clock
        self._turns = turns
        self._claim_table = claim_table
        self._claims = claims
        self._starting = starting
        self._failures = failures

    def note_excess(self, excess: list[Excess], lasts_s: float) -> None:
        """Claims beyond their submitters' shares: idle ones are given back now, others when their jobs end.

        :param lasts_s: after so many seconds that does not hold any more.
        """
        moment = self._clock.monotonic()
        held = (
            (claim.slot_name, claim.submitter) for claim in self._claim_table.claims.values() if not claim.dedicated
        )
        self._claim_table.excess.replace(excess, held, moment + lasts_s)
        if not excess:
            return
        turn = self._turns.begin()
        for claim in self._claim_table.idle():
            beyond = self._claim_table.excess.why(claim.slot_name, claim.submitter, moment)
            if beyond is not None:
                self._claims.release(claim, turn, beyond.reason or SHARE_USED_UP)
        if turn.batch:
            self._turns.commit(turn)

    def use(self) -> None:
        """Start new jobs on claims that are kept idle for their submitters."""
        turn = self._turns.begin()
        for claim in self._claim_table.idle():
            with contained(_log, f"the next job for {claim.slot_name}", self._failures.of_claim(claim)):
                self._starting.start_if_any(claim, turn)
        if turn.started or turn.decision.changed:
            self._turns.commit(turn)

    def release_expired(self, moment: float) -> None:
        """Release claims whose KeepClaimIdle, or lease, has run out at ``moment`` on the monotonic clock."""
        turn = self._turns.begin()
        for claim in self._claim_table.waiting():
            with contained(_log, f"releasing the claim on {claim.slot_name}", self._failures.of_claim(claim)):
                self._claims.apply(claim, claim_events.KeepCheck(moment), turn)
        if turn.batch:
            self._turns.commit(turn)
