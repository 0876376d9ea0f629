"""Which jobs of the scheduler and local universes may start now. Pure.

In START_SCHEDULER_UNIVERSE and START_LOCAL_UNIVERSE, MY is the schedd's ad and TARGET the job's; in the job's
Requirements it is the other way round. The job starts when all are true (manual, "Job Start Control").
"""

from __future__ import annotations

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree, SpecialValue
from slotwise.schedd.jobs.codes import Universe


class StartRules(Struct, frozen=True):
    """The two expressions, None for no condition.

    ``scheduler_most``: MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER; negative for any number.
    """

    local: ExprTree | None = None
    scheduler: ExprTree | None = None
    scheduler_most: int = 200

    def expression(self, universe: int) -> ExprTree | None:
        """The start expression of a universe."""
        return self.scheduler if universe == Universe.SCHEDULER else self.local

    def may_start(self, job: ClassAd, universe: int, schedd: ClassAd, own_running: int) -> bool:
        """Whether a job may start.

        :param schedd: the schedd's ad as it is now.
        :param own_running: running scheduler universe jobs of its owner.
        """
        if universe == Universe.SCHEDULER and 0 <= self.scheduler_most <= own_running:
            return False
        condition = self.expression(universe)
        if condition is not None and not _true(condition.eval(schedd, job)):
            return False
        return "Requirements" not in job or _true(job.eval("Requirements", schedd))


def _true(value: object) -> bool:
    return isinstance(value, (bool, int, float)) and not isinstance(value, SpecialValue) and bool(value)
