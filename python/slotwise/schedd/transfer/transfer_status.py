"""The transfer status in the ads of running jobs: TransferringInput, TransferringOutput, TransferQueued.

`q` shows it as ``<`` and ``>``. It is kept in memory only, and not shown for the many transfers that end at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from slotwise.schedd.jobs.values import Changes

#: A transfer is shown once it has lasted this long (seconds).
SHOWN_AFTER_S = 1.0


class TransferStatus:
    """The transfer status of all runs; ``show`` changes the ad of a job that is in the queue."""

    def __init__(self, show: Callable[[str, Changes], None], shown_after_s: float = SHOWN_AFTER_S) -> None:
        self._show = show
        self._after_s = shown_after_s
        self._soon: dict[str, asyncio.TimerHandle] = {}
        self._shown: dict[str, str] = {}
        self._queued: set[str] = set()
        #: The letters that the table of jobs shows for the state of such jobs, by job id.
        self.letters: dict[str, str] = {}

    def queued(self, run_id: str, job: str) -> None:
        """Input waits in the transfer queue."""
        self._queued.add(run_id)
        self._put(run_id, job, "<q", {"TransferringInput": True, "TransferQueued": True})

    def begin(self, run_id: str, job: str, *, inputs: bool) -> None:
        """A transfer starts."""
        if run_id in self._queued:
            self._queued.discard(run_id)
            self.letters[job] = "<"
            self._show(job, {"TransferQueued": None})
        elif run_id not in self._shown and run_id not in self._soon:
            changes: Changes = {"TransferringInput" if inputs else "TransferringOutput": True}
            letter = "<" if inputs else ">"
            loop = asyncio.get_running_loop()
            self._soon[run_id] = loop.call_later(self._after_s, self._put, run_id, job, letter, changes)

    def _put(self, run_id: str, job: str, letter: str, changes: Changes) -> None:
        self._soon.pop(run_id, None)
        self._shown[run_id] = job
        self.letters[job] = letter
        self._show(job, changes)

    def end(self, run_id: str) -> None:
        """The transfer of a run is over, if there was one."""
        if (timer := self._soon.pop(run_id, None)) is not None:
            timer.cancel()
        self._queued.discard(run_id)
        if (job := self._shown.pop(run_id, None)) is not None:
            self.letters.pop(job, None)
            self._show(job, {"TransferringInput": None, "TransferringOutput": None, "TransferQueued": None})
