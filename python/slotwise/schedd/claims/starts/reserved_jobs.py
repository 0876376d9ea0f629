"""Jobs that are reserved for slots: idle, and off the list of runnable jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue

#: How soon the negotiator is asked again after matches from which no run came, seconds.
_AGAIN_S = 1.0


class ReservedJobs:
    """Tells which reserved jobs may still start, and makes the others runnable again."""

    def __init__(self, queue: Queue, tell_new_work: Callable[[], None]) -> None:
        """
        :param tell_new_work: asks the negotiator for a cycle.
        """
        self._queue = queue
        self._tell_new_work = tell_new_work
        self._again: asyncio.TimerHandle | None = None

    def still_idle(self, waiting: list[Job]) -> Job | None:
        """The first of reserved jobs that may still start; it and those before it leave the list."""
        while waiting:
            job = waiting.pop(0)
            if self._may_start(job):
                self._queue.runnable.discard(job)
                return job
        return None

    def give_back(self, jobs: Iterable[Job]) -> None:
        """Make jobs that were reserved for a slot runnable again, those that are still idle."""
        returned = False
        for job in jobs:
            if self._may_start(job):
                self._queue.runnable.add(job)
                returned = True
        if returned:
            self.ask_soon()

    def ask_soon(self) -> None:
        """Slots looked better than they were: ask again when the pool has heard how they are."""
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(_AGAIN_S, self._ask_again)

    def _may_start(self, job: Job) -> bool:
        return job.status == Status.IDLE and not job.run and not job.awaits and self._queue.has(job)

    def _ask_again(self) -> None:
        self._again = None
        self._tell_new_work()
