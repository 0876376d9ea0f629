"""Jobs that start at once in the place of others (``condor_now``): which claim waits for which job.

A plan lives in memory, as in HTCondor: should the schedd restart before the runs are over, their claims go the usual
way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from slotwise.schedd.claims.records import Claim, Run
from slotwise.schedd.jobs.job import Job

_log = logging.getLogger(__name__)


class ClaimUse(Struct, frozen=True):
    """What a claim whose run has ended is for: ``job`` starts on it, or it is kept for ``pledge_s`` seconds to become
    part of a larger slot; neither: nobody planned anything."""

    job: Job | None = None
    pledge_s: int = 0


class _Plan(Struct, eq=False):
    job: Job
    #: Runs that have not ended, by id.
    awaited: set[str]
    #: When they have to be over, on the monotonic clock.
    until: float
    claims: list[Claim] = field(default_factory=list)
    #: How many claims become one slot.
    size: int = 1


class NowJobs:
    """The jobs for which others were vacated."""

    def __init__(self, coalesce: Callable[[Job, Sequence[Claim]], None]) -> None:
        """
        :param coalesce: requests one slot for a job of what several claims hold.
        """
        self._coalesce = coalesce
        self._plans: dict[Job, _Plan] = {}
        self._of_run: dict[str, _Plan] = {}

    def has(self, job: Job, moment: float) -> bool:
        """Whether others are making room for the job, at ``moment`` on the monotonic clock."""
        plan = self._plans.get(job)
        if plan is not None and moment > plan.until:
            self._drop(plan)
        return job in self._plans

    def is_awaited(self, run_id: str, moment: float) -> bool:
        """Whether the run makes room for a job already."""
        plan = self._of_run.get(run_id)
        return plan is not None and self.has(plan.job, moment)

    def add(self, job: Job, runs: Sequence[Run], until: float) -> None:
        """Start ``job`` when the runs are over, if that is by ``until`` on the monotonic clock."""
        plan = _Plan(job, {run.id for run in runs}, until, size=len(runs))
        self._plans[job] = plan
        self._of_run.update(dict.fromkeys(plan.awaited, plan))

    def use_after(self, run: Run, moment: float) -> ClaimUse:
        """What the claim of a run that has ended is for."""
        plan = self._of_run.get(run.id)
        if plan is None:
            return ClaimUse()
        if moment > plan.until:
            _log.warning("%s: not started at once: the jobs that were to make room did not end in time", plan.job.key)
            self._drop(plan)
            return ClaimUse()
        if plan.size == 1:
            self._drop(plan)
            return ClaimUse(plan.job)
        return ClaimUse(pledge_s=max(1, int(plan.until - moment)))

    def noted(self, run: Run) -> None:
        """The claim knows that its run is over, and what it is for."""
        plan = self._of_run.pop(run.id, None)
        if plan is None:
            return
        if run.claim.gone:
            _log.warning("%s: not started at once: %s was given back", plan.job.key, run.claim.slot_name)
            self._drop(plan)
            return
        plan.awaited.discard(run.id)
        plan.claims.append(run.claim)
        if not plan.awaited:
            self._drop(plan)
            self._coalesce(plan.job, plan.claims)

    def failed(self, run_id: str) -> None:
        """The run is given up, and its claim with it: there will not be room enough."""
        plan = self._of_run.get(run_id)
        if plan is not None:
            _log.warning("%s: not started at once: the run %s was lost", plan.job.key, run_id)
            self._drop(plan)

    def _drop(self, plan: _Plan) -> None:
        self._plans.pop(plan.job, None)
        for run_id in plan.awaited:
            self._of_run.pop(run_id, None)
