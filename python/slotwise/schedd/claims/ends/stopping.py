"""Stops the runs of jobs that were removed, held or vacated, no faster than JOB_STOP_COUNT and JOB_STOP_DELAY allow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.schedd.claims.ends.stop_throttle import StopRate
from slotwise.schedd.claims.records import ClaimTable, Run
from slotwise.schedd.jobs.decision import Kill

_log = logging.getLogger(__name__)


class Stopping:
    """Hands kills on to the shadows when they are due."""

    def __init__(
        self,
        claim_table: ClaimTable,
        clock: Clock,
        stop: Callable[[Run, Kill], None],
        on_failure: Callable[[Run, Exception], None],
    ) -> None:
        """
        :param stop: has the shadow of a run end it.
        :param on_failure: ends a run that could not be stopped because of a fault of the schedd.
        """
        self._claim_table = claim_table
        self._clock = clock
        self._stop = stop
        self._on_failure = on_failure
        self._rate = StopRate()
        self._timer: asyncio.TimerHandle | None = None

    def configure(self, count: int, delay_s: float) -> None:
        """Stop ``count`` jobs in every ``delay_s`` seconds; also those that wait already."""
        self._rate.count, self._rate.delay_s = count, delay_s
        if self._rate:
            self.release()

    def ask(self, kills: Iterable[Kill]) -> None:
        """Stop these runs. Those that do not execute yet, and jobs removed by force, do not wait."""
        waited = len(self._rate) > 0
        for kill in kills:
            runs = self._claim_table.runs_of_job(kill.run_id)
            if not runs:
                continue
            if self._rate.delay_s <= 0 or kill.forced or not any(run.executing_at for run in runs):
                self._rate.discard(kill.run_id)
                self._now(runs, kill)
            else:
                self._rate.add(kill, self._clock.monotonic())
        if self._rate and not waited:
            self.release()
            text = "%d running jobs wait to be stopped: JOB_STOP_COUNT = %d in every JOB_STOP_DELAY = %g s"
            _log.info(text, len(self._rate), self._rate.count, self._rate.delay_s)

    def release(self) -> None:
        """Stop what is due, and come back when more is."""
        for kill in self._rate.due(self._clock.monotonic(), self._claim_table.has_run):
            self._now(self._claim_table.runs_of_job(kill.run_id), kill)
        self.close()
        wait_s = self._rate.wait_s(self._clock.monotonic())
        if wait_s is not None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self.release)

    def close(self) -> None:
        """Stop no more runs; the next process finds them in the queue."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self, runs: Iterable[Run], kill: Kill) -> None:
        for run in runs:
            with contained(_log, doing_for_run(run.id, "ending it"), partial(self._on_failure, run)):
                self._stop(run, kill)
