"""Which jobs of the scheduler and local universes may start now. Pure.

START_SCHEDULER_UNIVERSE and START_LOCAL_UNIVERSE see the schedd's ad as MY and the job's as TARGET, the job's
Requirements the other way round; what is not true keeps the job waiting (manual, "Job Start Control").
"""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.classad import ClassAd, ExprTree, SpecialValue
from slotwise.schedd.jobs.codes import Universe


@dataclass(frozen=True)
class StartRules:
    """The two expressions, None for no condition.

    ``scheduler_most``: MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER; negative for any number.
    """

    local: ExprTree | None = None
    scheduler: ExprTree | None = None
    scheduler_most: int = 200

    def expression(self, universe: int) -> ExprTree | None:
        """The condition of jobs of a universe."""
        return self.scheduler if universe == Universe.SCHEDULER else self.local

    def may_start(self, job: ClassAd, universe: int, schedd: ClassAd, own_running: int) -> bool:
        """Whether a job may start.

        :param schedd: the schedd's ad as it is now.
        :param own_running: scheduler jobs of its owner that run.
        """
        if universe == Universe.SCHEDULER and 0 <= self.scheduler_most <= own_running:
            return False
        condition = self.expression(universe)
        if condition is not None and not _true(condition.eval(schedd, job)):
            return False
        return "Requirements" not in job or _true(job.eval("Requirements", schedd))


def _true(value: object) -> bool:
    return isinstance(value, (bool, int, float)) and not isinstance(value, SpecialValue) and bool(value)
