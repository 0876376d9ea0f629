"""How many jobs run and wait on the access point, as attributes of ads."""

from __future__ import annotations

from slotwise.schedd.jobs.codes import Universe
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.local.run import RunTable

_UNIVERSES = ((Universe.LOCAL, "Local"), (Universe.SCHEDULER, "Scheduler"))


class LocalCounts:
    """Counts runs and waiting jobs of the scheduler and local universes."""

    def __init__(self, queue: Queue, table: RunTable) -> None:
        self._queue = queue
        self._table = table

    def total(self) -> Changes:
        """The numbers of running and waiting jobs, as attributes of the schedd's ad."""
        found: Changes = {}
        waiting = [*self._queue.runnable.here, *self._queue.cooling]
        for universe, word in _UNIVERSES:
            found[f"Total{word}JobsRunning"] = sum(run.job.cluster.universe == universe for run in self._table)
            found[f"Total{word}JobsIdle"] = sum(job.cluster.universe == universe for job in waiting)
        return found

    def of(self, submitter: str) -> Changes:
        """The numbers of a submitter's jobs, as attributes of its ad."""
        found: Changes = {}
        running = [run.job for run in self._table if run.job.submitter == submitter]
        waiting = [job for job in self._queue.runnable.here if job.submitter == submitter]
        for universe, word in _UNIVERSES:
            found[f"{word}JobsRunning"] = sum(job.cluster.universe == universe for job in running)
            found[f"{word}JobsIdle"] = sum(job.cluster.universe == universe for job in waiting)
        return found
