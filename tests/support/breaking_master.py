"""A master, the background work of whose daemons, and of its own, fails once: run by tests in its place."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine

from slotwise.daemon import tasks
from slotwise.daemon.runtime import main

_keep = tasks.keep


def keep_broken(doing: str, loop: Callable[[], Coroutine[object, object, None]]) -> object:
    """As :func:`slotwise.daemon.tasks.keep`, with an error at the first time."""
    left = [RuntimeError("broken by a test")]

    async def broken() -> None:
        if left:
            raise left.pop()
        await loop()

    return _keep(doing, broken)


if __name__ == "__main__":
    tasks.keep = keep_broken  # type: ignore[assignment]
    sys.exit(main("master", os.environ))
