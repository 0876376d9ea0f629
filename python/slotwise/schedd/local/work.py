"""Work that is done for runs beside the schedd's loop: tasks, and blocking calls in threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import TypeVar

from slotwise.daemon.containment import contained
from slotwise.daemon.privileges import root_files

T = TypeVar("T")
_log = logging.getLogger(__name__)


class RunWork:
    """Tasks until they are done or the schedd stops, and threads that have root's rights on files."""

    def __init__(self, threads: Executor) -> None:
        self.threads = threads
        self._tasks: set[asyncio.Task[None]] = set()
        #: The schedd stops: keepers are not followed any more.
        self.closing = False

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Let work go on by itself."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def begin_contained(
        self, doing: str, work: Callable[[], Coroutine[None, None, None]], failed: Callable[[Exception], object]
    ) -> None:
        """Let work go on by itself; ``failed`` is called when it raises."""

        async def contain() -> None:
            with contained(_log, doing, failed):
                await work()

        self.begin(contain())

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do blocking work with root's rights on files."""

        def as_root() -> T:
            with root_files():
                return work()

        return await asyncio.get_running_loop().run_in_executor(self.threads, as_root)

    async def close(self) -> None:
        """Cancel what still goes on."""
        self.closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
