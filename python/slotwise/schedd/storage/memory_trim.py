"""Gives memory back after many jobs have left: tables and heaps are made anew, and the C library returns free pages."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging

from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.queue import Queue

_log = logging.getLogger(__name__)
_LOOK_S = 10.0
#: Fewer jobs than this are not worth the effort.
_WORTH = 5_000


class MemoryTrim:
    """Watches how many jobs there are."""

    def __init__(self, queue: Queue, ads: JobAds) -> None:
        self._queue = queue
        self._ads = ads
        self._peak = 0
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only

    def look(self) -> bool:
        """Give back what is free if the queue is down to half of its greatest length; whether it was."""
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
        """Look for ever."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                self.look()
            except Exception:
                _log.exception("error while trimming memory")
