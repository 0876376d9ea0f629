"""The endless work of a daemon beside its services: loops that go on after an error.

An exception in one of them costs a round of it and no more: it is logged with its traceback, counted for Prometheus and
told in the daemon's ad (``BackgroundFailures``, ``LastBackgroundFailure``), and the loop begins anew after a pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from msgspec import Struct

from slotwise.backoff import Backoff
from slotwise.daemon.containment import cause
from slotwise.metrics import BACKGROUND_FAILURES

_log = logging.getLogger(__name__)
#: Pauses after failures one after the other; a loop that has run for the longest of them begins with the shortest.
PAUSES = Backoff(first_s=1.0, factor=2.0, most_s=60.0)


class Failures(Struct):
    """What has failed in the background of this process."""

    count: int = 0
    #: The latest, in one line.
    latest: str = ""

    def attributes(self) -> dict[str, int | str]:
        """As a daemon's ad tells it; nothing if nothing has failed."""
        return {"BackgroundFailures": self.count, "LastBackgroundFailure": self.latest} if self.count else {}


failures = Failures()


def keep(doing: str, loop: Callable[[], Coroutine[object, object, None]]) -> asyncio.Task[None]:
    """Run ``loop()`` until it returns or the task is cancelled; each time that it raises, once more.

    :param doing: what it does, for the log and the counts, from a fixed set: ``"expiring ads"``.
    """
    return asyncio.get_running_loop().create_task(_keep(doing, loop), name=doing)


async def _keep(doing: str, loop: Callable[[], Coroutine[object, object, None]]) -> None:
    clock, in_a_row = asyncio.get_running_loop().time, 0
    while True:
        began = clock()
        try:
            await loop()
        except Exception as error:
            in_a_row = 1 if clock() - began >= PAUSES.most_s else in_a_row + 1
            pause_s = PAUSES.delay_s(in_a_row)
            failures.count += 1
            failures.latest = f"{doing}: {cause(error)}"
            BACKGROUND_FAILURES.labels(doing).inc()
            _log.error("%s failed, and goes on in %g s: %s", doing, pause_s, cause(error), exc_info=error)
            await asyncio.sleep(pause_s)
        else:
            return


async def end(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel the tasks that there are, and wait until they have ended."""
    ending = [task for task in tasks if task is not None]
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
