"""Wires and starts the librarian: every LIBRARIAN_UPDATE_INTERVAL it brings its library up to date."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3

from slotwise.config import Config
from slotwise.daemon import tasks
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import SlotwiseError
from slotwise.librarian import rules
from slotwise.librarian.indexer import Indexer

_log = logging.getLogger(__name__)


async def start(context: DaemonContext) -> Librarian:
    """Start the librarian."""
    return Librarian(context)


class Librarian:
    """The running daemon."""

    def __init__(self, context: DaemonContext) -> None:
        self._indexer = Indexer(rules.read(context.config), context.clock)
        self._is_ending = False
        #: What was wrong with the latest update, so that it is told once.
        self._fault = ""
        self._wake = asyncio.Event()
        self._task = tasks.keep("bringing the library up to date", self._run)

    async def reconfig(self, config: Config) -> list[str]:
        """Adopt new knobs with the next update, which comes at once."""
        self._indexer.rules = rules.read(config)
        self._wake.set()
        return []

    async def stop(self, mode: str) -> None:
        """End: the update under way keeps what it has taken in so far."""
        self._is_ending = True
        self._indexer.stop()
        self._wake.set()
        await self._task
        self._indexer.close()

    async def _run(self) -> None:
        while not self._is_ending:
            self._wake.clear()
            current = self._indexer.rules
            if current.is_on:
                await self._update()
            else:
                self._tell("HISTORY or LIBRARIAN_DATABASE is empty: there is nothing to do")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(current.interval_s if current.is_on and current.interval_s > 0 else None):
                    await self._wake.wait()

    async def _update(self) -> None:
        try:
            await asyncio.to_thread(self._indexer.update)
        except (SlotwiseError, OSError, sqlite3.Error) as error:
            self._indexer.close()
            if not self._is_ending:
                hint = f" ({error.hint})" if isinstance(error, SlotwiseError) and error.hint else ""
                self._tell(f"could not bring the library up to date: {error}{hint}")
        except Exception:
            self._indexer.close()
            _log.exception("error while the library was brought up to date")
        else:
            if self._fault:
                _log.info("the library is kept up to date again")
            self._fault = ""

    def _tell(self, fault: str) -> None:
        if fault != self._fault:
            _log.error("%s", fault)
        self._fault = fault
