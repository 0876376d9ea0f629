"""Tasks of runs that wait for something before their starters are given the job: a hook, or tokens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial

from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.records import Run

_log = logging.getLogger(__name__)


class RunTasks:
    """At most one task for each run. One that fails ends its run; the end of a run ends its task."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, run: Run, doing: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Begin the work, unless the run has a task.

        :param doing: what is being done, for the log.
        """
        if run.id not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._contained(run, doing, work))
            self._tasks[run.id] = task
            task.add_done_callback(lambda _: self._tasks.pop(run.id, None))

    def has(self, run: Run) -> bool:
        """Whether the run has a task."""
        return run.id in self._tasks

    def over(self, run: Run) -> None:
        """The run is over; its task may be what ended it."""
        if (task := self._tasks.get(run.id)) is not None and task is not asyncio.current_task():
            task.cancel()

    async def close(self) -> None:
        """End all."""
        for task in (tasks := list(self._tasks.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _contained(self, run: Run, doing: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        with contained(_log, doing_for_run(run.id, doing), partial(self._failures.run, run)):
            await work()
