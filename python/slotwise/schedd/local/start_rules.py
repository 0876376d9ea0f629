"""Which jobs of the scheduler and local universes may start now. Pure.

In START_SCHEDULER_UNIVERSE and START_LOCAL_UNIVERSE, MY is the schedd's ad and TARGET the job's; in the job's
Requirements it is the other way round. The job starts when all are true (manual, "Job Start Control").
"""

from __future__ import annotations

import math

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree, SpecialValue
from slotwise.schedd.jobs.codes import Universe

#: The shortest time between two starts of one job, in seconds. HTCondor starts a job that ends at once and is to run
#: again about three times a second.
REST_S = 1 / 3


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


class StartPace:
    """Keeps jobs that end at once, and are to run again, from starting more often than every :data:`REST_S`."""

    def __init__(self) -> None:
        #: When each job was started last, the longest ago first.
        self._started: dict[str, float] = {}

    def started(self, job: str, moment: float) -> None:
        """A job starts at a moment of the monotonic clock, in seconds."""
        self._started.pop(job, None)
        while self._started and next(iter(self._started.values())) <= moment - REST_S:
            del self._started[next(iter(self._started))]
        self._started[job] = moment

    def rest_s(self, job: str, moment: float) -> float:
        """For how many seconds the job may not yet start; 0: it may."""
        return max(0.0, self._started.get(job, -math.inf) + REST_S - moment)


def _true(value: object) -> bool:
    return isinstance(value, (bool, int, float)) and not isinstance(value, SpecialValue) and bool(value)
