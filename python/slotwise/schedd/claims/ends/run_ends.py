"""The ends of runs, for their claims and the queue: reported by the starter, or given up without a word of it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from slotwise.clock import Clock
from slotwise.schedd.claims.matching.refusals import Refusals
from slotwise.schedd.claims.records import ClaimTable, Run
from slotwise.schedd.claims.starts.now_jobs import NowJobs
from slotwise.schedd.claims.transitions import ApplyToRun, ClaimTransitions
from slotwise.schedd.claims.turn import Turn, Turns
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import RunEnd, RunOutcome
from slotwise.schedd.jobs.durations import Durations
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.lifecycle import claim_events, run_events
from slotwise.schedd.lifecycle.run_instructions import GiveUp
from slotwise.schedd.parallel.gang_ends import NodeEnded
from slotwise.schedd.policy.cool_down import CoolDown


class RunEnds:
    """Ends runs, and passes their claims on."""

    #: SYSTEM_ON_VACATE_COOL_DOWN.
    cool_down = CoolDown()

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        clock: Clock,
        turns: Turns,
        claim_table: ClaimTable,
        durations: Durations,
        *,
        claims: ClaimTransitions,
        now_jobs: NowJobs,
        apply: ApplyToRun,
        node_ended: NodeEnded,
        on_given_up: Callable[[Run], None],
        on_over: Callable[[Run], None],
        refusals: Refusals,
    ) -> None:
        """
        :param node_ended: takes over the end of a parallel job's node.
        :param on_given_up: called with a run that is over without a word of its starter.
        :param on_over: called with every run that is over.
        """
        self._queue = queue
        self._ads = ads
        self._clock = clock
        self._turns = turns
        self._claim_table = claim_table
        self._durations = durations
        self._claims = claims
        self._now_jobs = now_jobs
        self._apply = apply
        self._node_ended = node_ended
        self._on_given_up = on_given_up
        self._on_over = on_over
        self._refusals = refusals

    def give_up(self, run: Run, what: GiveUp) -> None:
        """End a run without a word of its starter; its claim is given back."""
        if run.over:
            return
        self._now_jobs.failed(run.id)
        turn = self._turns.begin()
        now = turn.decision.now
        back_s = run.set_back_s(now, self._clock.monotonic())
        end = RunEnd(
            what.how,
            reason=what.reason,
            reason_code=what.code,
            reason_subcode=what.subcode,
            at=now,
            wall_s=max(0.0, now - run.born_at + back_s),
            executed_s=max(0.0, now - run.executing_at + back_s) if run.executing_at else 0.0,
        )
        if self._ads.has(run.job):
            end = replace(end, cool_down_s=self.cool_down.seconds(self._ads.ad(run.job), run.job, end, now))
        with self._turns.deciding(turn):
            if run.node is not None:
                self._node_ended(run, end, turn.decision, turn.batch)
            else:
                self._queue.end_run(run.job, end, turn.decision)
            self.forget(run)
            self._claims.release(run.claim, turn, what.reason)
            self._on_given_up(run)
            self._turns.commit(turn)

    def failed_there(self, run: Run, end: RunEnd) -> None:
        """A run failed through no fault of the job: its claim serves few more, and its slot is asked less and less."""
        run.claim.failures += 1
        if end.how is not RunOutcome.FAILED and end.how is not RunOutcome.LOST:
            why = f"the execution point could not run it (code {end.reason_code}, subcode {end.reason_subcode})"
            self._refusals.note(run.kinds, run.claim.matched_name, why, end.reason_code, self._clock.monotonic())

    def forget(self, run: Run) -> None:
        """Remove the run from memory; its claim has yet to hear that it is over."""
        self._apply(run, run_events.EndRecorded())
        self._claim_table.runs.pop(run.id, None)
        self._on_over(run)

    def take_over(self, run: Run, turn: Turn) -> None:
        """Pass the claim on after a run whose end was taken over: to its next job, or to wait, or back."""
        claim, now, moment = run.claim, turn.decision.now, self._clock.monotonic()
        self.forget(run)
        if run.executing_at:
            self._durations.note(run.job.cluster.number, run.job.submitter, now - run.executing_at)
        excess = self._claim_table.excess.why(claim.slot_name, claim.submitter, moment)
        beyond = claim_events.BeyondShare(excess.until, excess.reason) if excess is not None else None
        keep_s = 0  # how long the claims of parallel jobs are kept, their own scheduler decides
        if run.node is None and self._ads.has(run.job):
            keep_s = int(self._ads.number(run.job, "KeepClaimIdle", 0))
        use = self._now_jobs.use_after(run, moment)
        ended = claim_events.RunEnded(run.id, moment, claim.failures, keep_s, beyond, use.job, use.pledge_s)
        self._claims.apply(claim, ended, turn)
        self._now_jobs.noted(run)
