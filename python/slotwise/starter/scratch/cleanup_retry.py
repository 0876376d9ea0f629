"""Retries the removal of what runs left behind; the startd hears of it when nothing is left, and repairs the slot.

Tries come every STARTD_CLEANUP_REMINDER_TIMER_INTERVAL (62 s) at most: the first, second, fourth, ... of an hour, then
one an hour for a day, then one a day; with AGGRESSIVE_CLEANUP_REMINDER all of them. What is to be tried is kept in a
file beside the runs' control directories, so that a starter that is killed goes on, or learns that it was cleared away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

from slotwise import whole_file
from slotwise.daemon import tasks
from slotwise.daemon.pause import pause
from slotwise.starter.job.directories import RunDirectory

_log = logging.getLogger(__name__)
_HOUR, _DAY = 60, 60 * 24


def due(tries: int) -> bool:
    """Whether the try of this number (from 1) is made."""
    if tries > _DAY:
        return tries % _DAY == 0
    if tries > _HOUR:
        return tries % _HOUR == 0
    return tries & (tries - 1) == 0


class CleanupRetry:
    """The directories that are still to be removed, by run.

    :param remove: removes a run's volume and directory; returns what could not be removed. Blocks.
    :param on_removed: called with the id of a run of which nothing is left now.
    """

    def __init__(
        self, control: Path, remove: Callable[[RunDirectory], list[str]], on_removed: Callable[[str], None]
    ) -> None:
        self._path = control / "retries"
        self._remove, self._on_removed = remove, on_removed
        self._left: dict[str, RunDirectory] = {}
        self._tries: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            for run_id, (path, nested) in json.loads(self._path.read_text()).items():
                self._left[run_id] = RunDirectory(Path(path), control / Path(path).name, bool(nested))

    def __len__(self) -> int:
        return len(self._left)

    def add(self, run_id: str, directory: RunDirectory) -> None:
        """Something of this run could not be removed."""
        self._left[run_id] = directory
        self._write()

    def start(self, interval_s: Callable[[], float], eager: Callable[[], bool]) -> None:
        """Try from now on; an interval of 0 or less: never."""
        self._task = tasks.keep("removing leftovers", partial(self._keep_trying, interval_s, eager))

    async def stop(self) -> None:
        """Try no more."""
        await tasks.end(self._task)

    async def _keep_trying(self, interval_s: Callable[[], float], eager: Callable[[], bool]) -> None:
        while True:
            await pause(lambda: found if (found := interval_s()) > 0 else math.inf)
            try:
                await self.try_all(eager=eager())
            except Exception:
                _log.exception("error while removing leftovers")

    async def try_all(self, *, eager: bool = False) -> None:
        """Try what is due."""
        for run_id, directory in list(self._left.items()):
            tries = self._tries[run_id] = self._tries.get(run_id, 0) + 1
            if not eager and not due(tries):
                continue
            problems = await asyncio.get_running_loop().run_in_executor(None, self._remove, directory)
            if problems:
                _log.error(
                    "run %s: could not remove its leftovers (attempt %d): %s", run_id, tries, "; ".join(problems[:5])
                )
                continue
            _log.info("run %s: removed its leftovers", run_id)
            del self._left[run_id], self._tries[run_id]
            self._write()
            self._on_removed(run_id)

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # no room for it: it is tried as long as we live
            if not self._left:
                self._path.unlink(missing_ok=True)
                return
            record = {run_id: (str(run.path), run.nested) for run_id, run in self._left.items()}
            whole_file.write(self._path, json.dumps(record), lasts=False)
