"""The end of a run as its starter told it: what it means for the job and its claim, made durable, then acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec.structs import replace

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.model.reason_codes import Hold, Vacate
from slotwise.schedd.claims.ends.run_ends import RunEnds
from slotwise.schedd.claims.records import Run
from slotwise.schedd.claims.turn import Turn, Turns
from slotwise.schedd.history.epochs import RunHistory, RunRecord, record_of
from slotwise.schedd.jobs.ads import JobAds, native
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import PolicyAction, RunEnd, RunOutcome, Verdict
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.lifecycle.run_events import EndReport
from slotwise.schedd.parallel.nodes import Nodes
from slotwise.schedd.policy.at_exit import exit_verdict
from slotwise.schedd.policy.evict_transforms import transformed
from slotwise.schedd.shadow.usage_reports import closing_report, host_of
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.transfer.files import TransferError
from slotwise.schedd.transfer.transfers import Transfers

_log = logging.getLogger(__name__)
#: Codes of evictions by the starter itself: what went wrong is its error, as in holds by it.
_STARTER_FAILED = frozenset({Vacate.STARTER_ERROR, Vacate.SCRATCH_DIR_ERROR})
_TRANSFER_ERRORS = frozenset({Hold.TRANSFER_INPUT_ERROR, Hold.TRANSFER_OUTPUT_ERROR})


class JobExits:
    """Takes over the ends of runs."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        turns: Turns,
        run_ends: RunEnds,
        transfers: Transfers,
        clock: Clock,
        history: RunHistory,
        nodes: Nodes,
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._turns = turns
        self._run_ends = run_ends
        self._transfers = transfers
        self._clock = clock
        self._history = history
        self._nodes = nodes
        #: Told of a run whose end is durable, and of what follows on its claim.
        self.on_durable: Callable[[Run, list[Run]], None] = lambda run, following: None
        #: Told of the same when ``on_durable`` failed: nothing else releases the run at its starter.
        self.on_unacknowledged: Callable[[Run, list[Run], Exception], None] = lambda run, following, error: None

    def finish(self, run: Run, ended: EndReport, failure: TransferError | None) -> None:
        """Take the end over: what becomes of the job, and of the claim. ``failure``: results that have no place."""
        turn = self._turns.begin()
        with self._turns.deciding(turn):
            self._finish(run, ended, failure, turn)

    def _finish(
        self,
        run: Run,
        ended: EndReport,
        failure: TransferError | None,
        turn: Turn,
    ) -> None:
        decision = turn.decision
        now = decision.now
        if not self._ads.has(run.job):  # removed by force: only the claim is left to see to
            if run.node is not None:
                self._nodes.ended(run, RunEnd(ended.how, at=now), turn)
            self._hand_claim_on(run, None, turn)
            return
        how = ended.how
        # The starter tells whole seconds; when it was just now, our own clock is finer.
        exited_at = ended.at if ended.at and now - ended.at >= 2 else now
        # Results that came late are part of the run; what lies between them and an end that was told late is not.
        over_at = max(exited_at, self._transfers.placed_at(run))
        report = closing_report(self._ads, run, ended, over_at, exited_at)
        if run.node is None and run.job.status in (Status.RUNNING, Status.SUSPENDED):
            self._queue.grown(run.job, report.attributes, decision)
        self._transfers.log_notes(run, decision)
        back_s = run.set_back_s(now, self._clock.monotonic())
        wall_s = max(0.0, over_at - run.born_at + back_s)
        end = RunEnd(
            how,
            code=ended.code,
            reason=_reason(run, ended),
            reason_code=ended.reason_code,
            reason_subcode=ended.reason_subcode,
            error=ended.reason if _is_starters(run, ended) else "",
            at=ended.at or now,
            attributes=report.attributes,
            usage=report.usage,
            wall_s=wall_s,
            executed_s=min(wall_s, max(0.0, exited_at - run.executing_at + back_s)) if run.executing_at else 0.0,
            over_at=over_at,
            counted=run.counted,
            core="core" if ended.core_dumped else "",
            verdict=self._verdict(run, ended, report.attributes),
        )
        if failure is not None and how.by_itself:
            end = RunEnd(
                RunOutcome.HELD,
                reason=failure.message,
                reason_code=failure.hold_code,
                reason_subcode=failure.subcode,
                at=end.at,
                attributes=end.attributes,
                usage=end.usage,
                wall_s=end.wall_s,
                executed_s=end.executed_s,
                counted=end.counted,
            )
        if how in (RunOutcome.HELD, RunOutcome.EVICTED) and (larger := self._transformed(run, end)) is not None:
            end = replace(end, how=RunOutcome.EVICTED, attributes={**end.attributes, **larger})
        if how in (RunOutcome.HELD, RunOutcome.EVICTED) or (end.verdict and end.verdict.act is PolicyAction.REQUEUE):
            end = replace(end, cool_down_s=self._run_ends.cool_down.seconds(self._ads.ad(run.job), run.job, end, now))
        if run.node is not None:
            self._nodes.ended(run, replace(end, verdict=None), turn)
            if end.failed or how == RunOutcome.LOST:
                self._run_ends.failed_there(run, end)
            self._hand_claim_on(run, self.record(run), turn)
            return
        if not run.executing_at and how.by_itself:
            self._queue.executing(run.job, host_of(self._ads, run), run.claim.slot_name, {}, decision)
        self._queue.end_run(run.job, end, decision)
        if run.job.status == Status.COMPLETED and not self._ads.stays(run.job, decision.now):
            self._queue.leave(run.job, decision)
        if end.failed or how == RunOutcome.LOST:
            self._run_ends.failed_there(run, end)
        self._hand_claim_on(run, self.record(run), turn)

    def _hand_claim_on(self, run: Run, record: RunRecord | None, turn: Turn) -> None:
        self._run_ends.take_over(run, turn)
        self._committer.commit(
            turn.decision, turn.batch, on_committed=lambda _: self._durable(run, turn.started, record)
        )

    def _durable(self, run: Run, following: list[Run], record: RunRecord | None) -> None:
        if record is not None:
            self._history.add(record)

        def failed(error: Exception) -> None:
            self.on_unacknowledged(run, following, error)

        with contained(_log, doing_for_run(run.id, "acknowledging its end"), failed):
            self.on_durable(run, following)

    def record(self, run: Run) -> RunRecord | None:
        """What the history of runs keeps of a run that ends now; None without such a history or without a job.

        The nodes of a parallel job are one run there, which ends with the last of them.
        """
        if not self._history.is_kept or not self._ads.has(run.job):
            return None
        if run.node is not None and not run.node.gang.over:
            return None
        job = run.job if run.node is None else run.node.gang.first
        return record_of(run.run_of_job, job, self._ads, self._clock.now())

    def _transformed(self, run: Run, end: RunEnd) -> Changes | None:
        """What the job's transforms at eviction change, if one applies."""
        if run.job.status != Status.RUNNING or not self._ads.text(run.job, "TransformOnEvict"):
            return None
        ad = self._ads.ad(run.job)
        ad.update(native(end.attributes))
        return transformed(ad, end.reason_code, end.reason_subcode, end.reason, int(self._clock.now()))

    def _verdict(self, run: Run, ended: EndReport, attributes: Changes) -> Verdict | None:
        if not ended.how.by_itself:
            return None
        return exit_verdict(
            run.job, ended.how == RunOutcome.SIGNALED, ended.code, attributes, self._ads, self._clock.now()
        )


def _is_starters(run: Run, ended: EndReport) -> bool:
    """Whether the run ended with an error of its starter, and not with one that the access point told it of."""
    told = Transfers.told_failure(run)
    if told and told == ended.reason:
        return False
    return ended.how == RunOutcome.HELD or (ended.how == RunOutcome.EVICTED and ended.reason_code in _STARTER_FAILED)


def _reason(run: Run, ended: EndReport) -> str:
    """Why the run ended; an error of the starter with the slot where that was, as HTCondor words it.

    Faults of transfers name both ends themselves.
    """
    if not ended.reason or ended.reason_code in _TRANSFER_ERRORS or not _is_starters(run, ended):
        return ended.reason
    return f"Error from {run.claim.slot_name}: {ended.reason}"
