"""Ends nodes that outlive their parallel job and whose starters cannot be reached: the job is not kept waiting.

A job that may start again waits for them, as any job does: until their ends are known, or their leases have run out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.model.reason_codes import Vacate
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.records import ClaimTable, Run
from slotwise.schedd.jobs.decision import RunOutcome
from slotwise.schedd.lifecycle.run_instructions import GiveUp
from slotwise.schedd.parallel.gang_ends import JOB_IS_OVER

_log = logging.getLogger(__name__)


class LeftoverNodes:
    """Gives such nodes up: their claims are given back, and their startds end what runs there."""

    def __init__(self, claim_table: ClaimTable, give_up: Callable[[Run, GiveUp], None], failures: Failures) -> None:
        self._claim_table = claim_table
        self._give_up = give_up
        self._failures = failures

    def look(self) -> None:
        """Give up those that there are."""
        for gang in list(self._claim_table.gangs.values()):
            for run in self._claim_table.runs_of_job(gang.id) if gang.is_final else ():
                if run.state.silence is not None and not run.over:
                    doing = doing_for_run(run.id, "giving it up")
                    with contained(_log, doing, partial(self._failures.run, run)):
                        self._give_up(run, GiveUp(RunOutcome.EVICTED, JOB_IS_OVER, int(Vacate.SCHEDD_VACATE)))
