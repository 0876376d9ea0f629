"""Looks, before a job with ``skip_if_dataflow`` starts, whether its results are newer than what they are made of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.model import job_events
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.records import Run
from slotwise.schedd.claims.turn import Turns
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import RunOutcome
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.lifecycle.run_instructions import GiveUp
from slotwise.schedd.transfer.dataflow import DataflowFiles, dataflow_files, is_up_to_date

_log = logging.getLogger(__name__)


class DataflowSkips:
    """Ends the runs of jobs that need not run, as if these had run and ended with status 0."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        turns: Turns,
        fallback_account: str,
        *,
        give_up: Callable[[Run, GiveUp], None],
        failures: Failures,
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._turns = turns
        self._fallback = fallback_account
        self._give_up = give_up
        self._failures = failures
        self._looks: dict[str, asyncio.Task[None]] = {}

    def is_looking(self, run: Run) -> bool:
        """Whether it is not known yet if the job of this run need run."""
        return run.id in self._looks

    def look(self, run: Run, then: Callable[[Run], None]) -> bool:
        """Look in the background, for a job that asks for it; ``then`` is called with its run unless it is skipped.

        :returns: whether the job asks for it.
        """
        if run.node is not None or self._ads.value(run.job, "SkipIfDataflow") is not True:
            return False
        files = dataflow_files(self._ads.ad(run.job), run.job.account, self._fallback)
        self._looks[run.id] = asyncio.get_running_loop().create_task(self._look(run, files, then))
        return True

    async def _look(self, run: Run, files: DataflowFiles, then: Callable[[Run], None]) -> None:
        doing = doing_for_run(run.id, "comparing its files for skip_if_dataflow")
        with contained(_log, doing, partial(self._failures.run, run)):
            try:
                skips = await asyncio.to_thread(is_up_to_date, files)
            finally:
                self._looks.pop(run.id, None)
            if run.over:
                return
            if run.goes_on:
                self._record(run, skips=skips)
            if run.goes_on and skips:
                self._give_up(run, GiveUp(RunOutcome.EXITED, "", 0))
            else:
                then(run)

    def _record(self, run: Run, *, skips: bool) -> None:
        turn = self._turns.begin()
        with self._turns.deciding(turn):
            turn.decision.set(run.job, {"DataflowJobSkipped": skips})
            if skips:
                turn.decision.log(run.job, job_events.dataflow_skipped(self._queue.frame(run.job, turn.decision.now)))
                turn.decision.note("%s: its results are up to date, skipped (run %s)", run.key, run.id)
            self._turns.commit(turn)
