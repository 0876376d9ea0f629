"""Waits of daemons: those whose length is a knob, of which a new one counts as soon as the configuration is read, and
those of threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from weakref import WeakSet

#: What wakes the waits that are under way.
_under_way: WeakSet[asyncio.Event] = WeakSet()


async def pause(length_s: Callable[[], float]) -> None:
    """Return when the length that holds now has passed since the wait began.

    :param length_s: the length in seconds; asked at the beginning and after each :func:`reconsider`.
    """
    loop = asyncio.get_running_loop()
    began, changed = loop.time(), asyncio.Event()
    _under_way.add(changed)
    await asyncio.sleep(0)  # others have their turn, however short the wait is
    while (left_s := began + length_s() - loop.time()) > 0:
        changed.clear()
        try:
            async with asyncio.timeout(left_s):
                await changed.wait()
        except TimeoutError:
            return


def pause_thread(seconds: float) -> None:
    """Have this thread wait. Where a library sets the clocks of processes, ``time.sleep`` may fail as they jump."""
    threading.Event().wait(seconds)


def reconsider() -> None:
    """Have all waits of this process ask for their length again."""
    for changed in list(_under_way):
        changed.set()
