"""Records that a worker thread writes, those of a moment together, so that a daemon's loop never waits for a disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Generic, TypeVar

from slotwise.daemon.host_faults import waited_out

_log = logging.getLogger(__name__)
T = TypeVar("T")


class RecordWriter(Generic[T]):
    """Gathers records and has them written.

    :param write: appends records, in a thread; may raise OSError, which is logged and costs these records.
    :param name: what they are, for the log.
    :param threads: where ``write`` runs; the loop's own threads without it.
    """

    def __init__(self, write: Callable[[list[T]], None], name: str, threads: Executor | None = None) -> None:
        self._write = write
        self._name = name
        self._threads = threads
        self._waiting: list[T] = []
        self._writing: asyncio.Task[None] | None = None
        self._closing = self._closed = False

    def add(self, record: T) -> None:
        """One more is to be written; after :meth:`close`, when there may be no threads any more, it is written here."""
        self._waiting.append(record)
        if self._closed:
            records, self._waiting = self._waiting, []
            self._attempt_write(records)
        elif self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    def attempt(self, step: Callable[[], int]) -> int:
        """Do a step of writing, in the thread; again while the daemon has no descriptor for it, until it ends.

        :raises OSError: for every other reason, and for that one at the end.
        """
        return waited_out(step, lambda: self._closing)

    async def close(self) -> None:
        """Write what waits, as far as it can be written now."""
        self._closing = True
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
        self._closed = True

    async def _write_all(self) -> None:
        while self._waiting:
            records, self._waiting = self._waiting, []
            await asyncio.get_running_loop().run_in_executor(self._threads, self._attempt_write, records)

    def _attempt_write(self, records: list[T]) -> None:
        try:
            self._write(records)
        except OSError as error:
            _log.warning("could not write %s: %s", self._name, error)
