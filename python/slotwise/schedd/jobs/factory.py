"""Late materialization: a cluster whose jobs enter the queue as there is room for them. Pure.

Manual, "Submitting Lots of Jobs": ``max_materialize`` bounds the jobs that are in the queue at any one time,
``max_idle`` those of them that do not run. A factory is paused by holding its cluster and ends by removing it.
"""

from __future__ import annotations

from msgspec import Struct

from slotwise.classad import ClassAd

#: JobMaterializePaused.
RUNNING, HELD, DONE, REMOVED = 0, 1, 2, 3


class Factory(Struct):
    """The state of a factory: how many of a cluster's jobs it has materialized."""

    total: int
    next_proc: int = 0
    #: JobMaterializeLimit and JobMaterializeMaxIdle; less than 0: no bound.
    limit: int = -1
    max_idle: int = -1
    paused: int = RUNNING
    #: Jobs are being materialized right now.
    busy: bool = False

    @property
    def over(self) -> bool:
        """Whether it materializes no more jobs."""
        return not self.busy and (self.paused in (DONE, REMOVED) or self.next_proc >= self.total)

    def wanted(self, present: int, not_running: int, room: int) -> int:
        """How many jobs to materialize now.

        ``present``: jobs of the cluster in the queue; ``not_running``: those idle or held; ``room``: how many more
        their owner may have.
        """
        if self.paused or self.busy:
            return 0
        count = min(self.total - self.next_proc, room)
        if self.limit >= 0:
            count = min(count, self.limit - present)
        if self.max_idle >= 0:
            count = min(count, self.max_idle - not_running)
        return max(0, count)


def asked_for(submitted: ClassAd, total: int) -> Factory | None:
    """The factory that a cluster's ad requests; None when all jobs are to be materialized at once."""
    limit, max_idle = (_count(submitted.eval(name)) for name in ("JobMaterializeLimit", "JobMaterializeMaxIdle"))
    if limit < 0 and max_idle < 0:
        return None
    return Factory(total, limit=limit, max_idle=max_idle)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else -1
