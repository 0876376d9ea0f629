"""Pulls that are shared: one for all jobs that wait for the same thing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable


class SharedPulls:
    """What is being fetched now. For the event loop's thread."""

    def __init__(self) -> None:
        self._running: dict[Hashable, tuple[asyncio.Task[None], list[int]]] = {}

    async def once(self, key: Hashable, pull: Callable[[], Awaitable[None]]) -> None:
        """Wait for the pull of ``key``, begun now unless it runs already. It goes on while anybody waits for it.

        :raises Exception: what the pull raises.
        """
        found = self._running.get(key)
        if found is None:
            task = asyncio.ensure_future(_awaited(pull))
            found = self._running[key] = (task, [0])
            task.add_done_callback(lambda _: self._running.pop(key, None))
        task, waiting = found
        waiting[0] += 1
        try:
            await asyncio.shield(task)
        finally:
            waiting[0] -= 1
            if not waiting[0] and not task.done():
                self._running.pop(key, None)
                task.cancel()


async def _awaited(pull: Callable[[], Awaitable[None]]) -> None:
    await pull()
