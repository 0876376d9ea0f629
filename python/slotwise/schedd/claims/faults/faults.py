"""What follows when the schedd itself fails at a message: the run is ended, its claim released, its job runs again.

An exception may come at any point, also between two changes that belong together, so nothing here relies on how far
the failed code got. The claim is released at once, and the run ends as soon as its starter says so; a sweep over queue
and claims (:mod:`slotwise.schedd.claims.faults.sweep`) then puts right whatever else was left half done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from slotwise.clock import Clock
from slotwise.daemon.containment import cause, contained
from slotwise.ids import doing_for_run
from slotwise.model.reason_codes import Vacate
from slotwise.schedd.claims.records import Claim, ClaimRequestPending, ClaimTable, Run
from slotwise.schedd.claims.startds.startd_links import StartdLinks
from slotwise.schedd.claims.startds.startd_messages import ClaimsGranted
from slotwise.schedd.claims.transitions import ApplyToRun, ClaimTransitions
from slotwise.schedd.claims.turn import Turns
from slotwise.schedd.jobs.decision import Decision, Kill, RunEnd, RunOutcome
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.lifecycle.run_events import AccessPointFailed
from slotwise.schedd.parallel.gang_ends import NodeEnded
from slotwise.schedd.storage.batch import Batch
from slotwise.schedd.storage.committer import Committer

_log = logging.getLogger(__name__)


class Faults:
    """Ends what an exception has hit."""

    def __init__(
        self,
        queue: Queue,
        committer: Committer,
        clock: Clock,
        turns: Turns,
        claim_table: ClaimTable,
        *,
        claims: ClaimTransitions,
        apply_to_run: ApplyToRun,
        links: StartdLinks,
        forget_run: Callable[[Run], None],
        node_ended: NodeEnded,
        on_given_up: Callable[[Run], None],
        sweep_soon: Callable[[], None],
    ) -> None:
        """
        :param node_ended: takes over the end of a parallel job's node.
        :param forget_run: removes a run that is over from memory.
        :param on_given_up: called with a run that is over without a word of its starter.
        :param sweep_soon: has a sweep find what was left half done.
        """
        self._queue = queue
        self._committer = committer
        self._clock = clock
        self._turns = turns
        self._claim_table = claim_table
        self._claims = claims
        self._apply_to_run = apply_to_run
        self._links = links
        self._forget_run = forget_run
        self._node_ended = node_ended
        self._on_given_up = on_given_up
        self.sweep_soon = sweep_soon

    def run(self, run: Run, error: Exception, *, ended: bool = False) -> None:
        """End the run, release its claim and make the job runnable again; HTCondor calls that a shadow exception.

        The job may execute until its starter says otherwise, so it is not started elsewhere before that.

        :param ended: its starter has reported that the run is over.
        """
        self.sweep_soon()
        reason = f"The access point failed to process a message of the run: {cause(error)}"
        kill = Kill(run.id, True, reason, int(Vacate.SHADOW_EXCEPTION))
        with contained(_log, doing_for_run(run.id, "stopping it")):
            self._apply_to_run(run, AccessPointFailed(self._clock.monotonic(), kill, ended))
        self.claim(run.claim, error)

    def task(self, run: Run, error: Exception) -> None:
        """End a run beside whose messages work has failed, if it has not ended already.

        By then its claim may serve the next run, which such work has nothing to do with.
        """
        if not run.over:
            self.run(run, error)

    def end(self, run: Run, reason: str) -> None:
        """End a run that failed, and that is over at its starter or never began there."""
        decision, batch = Decision(self._clock.now()), Batch()
        with contained(_log, doing_for_run(run.id, "ending it")):
            if run.node is not None:
                failed = RunEnd(RunOutcome.FAILED, reason=reason, reason_code=int(Vacate.SHADOW_EXCEPTION))
                self._node_ended(run, failed, decision, batch)
            else:
                self._queue.abandon_run(run.job, run.id, reason, decision)
        with contained(_log, doing_for_run(run.id, "forgetting it")):
            self._forget_run(run)
        with contained(_log, doing_for_run(run.id, "telling its starter")):
            self._on_given_up(run)
        with contained(_log, doing_for_run(run.id, "committing its end")):
            self._committer.commit(decision, batch)

    def claim(self, claim: Claim, error: Exception) -> None:
        """Release the claim; a run on it ends, and a job that waits for it is runnable again."""
        self.sweep_soon()
        turn = self._turns.begin()
        doing = doing_for_run(claim.run, f"releasing the claim on {claim.slot_name}")
        with contained(_log, doing):
            reason = f"The access point failed to process a message: {cause(error)}"
            self._claims.release(claim, turn, reason, fast=True)
        with contained(_log, doing):
            self._turns.commit(turn)
        run = self._claim_table.runs.get(claim.run)
        if run is not None and not run.failed:
            self.run(run, error)

    def of_claim(self, claim: Claim) -> Callable[[Exception], None]:
        """What ends a claim after an exception, and its run as it is now: by then the claim may have forgotten it."""
        run = self._claim_table.runs.get(claim.run)

        def fail(error: Exception) -> None:
            if run is not None:
                self.run(run, error)
            self.claim(claim, error)

        return fail

    def request(self, pending: ClaimRequestPending, granted: ClaimsGranted | None, error: Exception) -> None:
        """End a request for claims that was processed in part, or whose answer was: nothing of it stays."""
        self.sweep_soon()
        for slot in granted.slots if granted is not None else ():
            if (claim := self._claim_table.claims.get(slot.claim_id)) is not None:
                self.claim(claim, error)
            else:
                self._links.release(pending.startd, slot.claim_id)
        if granted is not None and granted.leftover_claim_id:
            self._links.release(pending.startd, granted.leftover_claim_id)
        self._claims.withdraw(pending)
