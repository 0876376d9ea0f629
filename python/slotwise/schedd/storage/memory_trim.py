"""Returns memory to the system after many jobs have left: rebuilds tables and heaps, and trims the C library's heap."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging

from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.queue import Queue

_log = logging.getLogger(__name__)
_LOOK_S = 10.0
#: The smallest peak number of jobs for which a trim is worth the effort.
_WORTH = 5_000


class MemoryTrim:
    """Watches the number of jobs."""

    def __init__(self, queue: Queue, ads: JobAds) -> None:
        self._queue = queue
        self._ads = ads
        self._peak = 0
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only

    def look(self) -> bool:
        """Trim if the queue is down to half of its peak length; returns whether it did."""
        jobs = len(self._ads.table)
        self._peak = max(self._peak, jobs + self._queue.retired)
        self._queue.retired = 0
        if self._peak < _WORTH or jobs > self._peak / 2:
            return False
        self._peak = jobs
        self._ads.compact()
        self._queue.runnable.compact()
        gc.collect()
        if self._trim is not None:
            self._trim(0)
        return True

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                self.look()
            except Exception:
                _log.exception("error while trimming memory")
