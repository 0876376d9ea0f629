"""Waits whose length is a knob, for the loops of daemons: a new length counts as soon as the configuration is read."""

from __future__ import annotations

import asyncio
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


def reconsider() -> None:
    """Have all waits of this process ask for their length again."""
    for changed in list(_under_way):
        changed.set()
