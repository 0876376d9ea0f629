"""Writes jobs that have left the queue to the HISTORY file and PER_JOB_HISTORY_DIR, each once.

The database is authoritative: a worker thread follows its history table, behind the commits, and writes new rows. A
mark in the database records the progress, and is advanced after an fsync of the file; after a crash, the last complete
record of the file shows the actual progress, and a partial record is removed and written again. A full disk delays the
file and loses nothing. A file of PER_JOB_HISTORY_DIR is written before the record, so that a crash between the two may
write it again, as in HTCondor.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.classad.long_form import long_form, on_one_line
from slotwise.clock import Clock
from slotwise.config import Config
from slotwise.daemon import history_file
from slotwise.daemon.containment import contained
from slotwise.daemon.history_file import Record, Rotation
from slotwise.errors import HostError
from slotwise.schedd.history.past_ads import COLUMNS, PastAds, PastJob
from slotwise.schedd.storage.store import Batch, Store
from slotwise.table import AdTable

_log = logging.getLogger(__name__)
T = TypeVar("T")
#: Rows in a batch, and the least time between two batches, in seconds.
_PIECE, _PAUSE_S = 500, 0.1
#: How long the mark may lag behind the file, and the time before a failed write is retried, in seconds.
_MARK_S, _AGAIN_S = 2.0, 10.0
#: The mark while no history is written: jobs that leave meanwhile are not in the file.
_OFF = -1
_GLOBAL_ID = re.compile(r'^GlobalJobId = "(?P<id>.*)"$', re.MULTILINE)
#: Attribute names that need no quotes.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_JOB_ID = re.compile(r".*#(\d+)\.(\d+)#\d+")


class ExportSettings(Struct, frozen=True):
    """The file and directory of records ("" for none), the rotation, and whether records have jobs' environments."""

    path: str = ""
    directory: str = ""
    rotation: Rotation = field(default_factory=Rotation)
    has_environment: bool = True

    @classmethod
    def of(cls, config: Config) -> ExportSettings:
        """The settings that HISTORY, PER_JOB_HISTORY_DIR and the knobs of rotation give."""
        return cls(
            config.get_str("HISTORY").strip(),
            config.get_str("PER_JOB_HISTORY_DIR").strip(),
            Rotation.of(config),
            config.get_bool("HISTORY_CONTAINS_JOB_ENVIRONMENT"),
        )

    @property
    def is_on(self) -> bool:
        """Whether records are written anywhere."""
        return bool(self.path or self.directory)


class HistoryExport:
    """Follows the history table of a store."""

    def __init__(self, store: Store, schedd_name: str, clock: Clock) -> None:
        self.settings = ExportSettings()
        self._store = store
        self._name = schedd_name
        self._clock = clock
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._connection: sqlite3.Connection | None = None
        self._wake = asyncio.Event()
        #: The settings of the latest write; None at first.
        self._applied: ExportSettings | None = None
        #: The last row in the file; the mark in the database follows.
        self._at = self._marked = _OFF
        self._has_failed = self._is_unsure = False

    def look(self) -> None:
        """Look for new rows: jobs have left the queue durably, or the settings have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        self._wake.set()
        while True:
            try:
                async with asyncio.timeout(self._patience()):
                    await self._wake.wait()
            except TimeoutError:
                if not self._has_failed:
                    with contained(_log, "recording the progress of HISTORY", self._failed):
                        await self._mark()
                    continue
            self._wake.clear()
            await self._write_all()
            await asyncio.sleep(_PAUSE_S)

    async def close(self) -> None:
        """Write the remaining rows and stop."""
        await self._write_all()
        with contained(_log, "recording the progress of HISTORY"):
            await self._mark()
        await self._in_thread(self._disconnect)
        self._threads.shutdown(wait=False)

    def _patience(self) -> float | None:
        if self._has_failed:
            return _AGAIN_S
        return _MARK_S if self._at != self._marked else None

    async def _write_all(self) -> None:
        with contained(_log, f"writing HISTORY ({self.settings.path})", self._failed):
            await self._write_rows()

    def _failed(self, _error: Exception) -> None:
        self._has_failed = True
        self._applied = None  # some rows may be in the file: see there which

    async def _write_rows(self) -> None:
        try:
            if self.settings != self._applied:
                await self._in_thread(partial(self._apply, self.settings))
                await self._mark()
            while self.settings == self._applied and self.settings.is_on:
                if not await self._in_thread(partial(self._write_piece, self.settings)):
                    break
        except (OSError, sqlite3.Error) as error:
            if not self._has_failed:
                _log.error("could not write HISTORY (%s), retrying: %s", self.settings.path, error)
            self._failed(error)
        else:
            self._has_failed = False

    async def _mark(self) -> None:
        """Advance the mark in the database, after an fsync of the file."""
        at = self._at
        if at == self._marked:
            return
        if self.settings.path and at != _OFF:
            try:
                await self._in_thread(partial(history_file.synchronise, self.settings.path))
            except FileNotFoundError:
                pass  # somebody removed it; rotated files were synchronized before
            except OSError as error:
                if not self._is_unsure:
                    _log.error("could not synchronize HISTORY (%s), retrying: %s", self.settings.path, error)
                self._is_unsure = True
                return
            self._is_unsure = False
        batch = Batch()
        batch.mark_history(at)
        await self._store.commit(batch)
        self._marked = at

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # ---- in the worker thread

    def _rows(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._store.reader()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _apply(self, settings: ExportSettings) -> None:
        """Establish where to continue."""
        former, self._applied = self._applied, settings
        if former is not None and former.is_on and settings.is_on:
            return
        rows = self._rows()
        self._marked = rows.execute("SELECT value FROM meta WHERE name='history file'").fetchone()[0]
        if not settings.is_on:
            self._at = _OFF
        elif self._marked == _OFF:
            self._at = rows.execute("SELECT coalesce(max(seq), 0) FROM history").fetchone()[0]
        else:
            self._at = max(self._marked, self._last_of(settings.path, rows))

    def _last_of(self, path: str, rows: sqlite3.Connection) -> int:
        """The row of the last record in the file; 0 when it is not one of this queue."""
        found = _GLOBAL_ID.search(history_file.repair(path)) if path else None
        job = _JOB_ID.fullmatch(found["id"]) if found and found["id"].startswith(f"{self._name}#") else None
        if job is None:
            return 0
        row = rows.execute("SELECT max(seq) FROM history WHERE cluster=? AND proc=?", job.groups()).fetchone()
        return row[0] or 0

    def _write_piece(self, settings: ExportSettings) -> bool:
        """Write the next rows; returns whether there were any."""
        rows = self._rows()
        sql = f"SELECT {COLUMNS} FROM history WHERE seq > ? ORDER BY seq LIMIT {_PIECE}"
        found = [PastJob(*row) for row in rows.execute(sql, (self._at,))]
        if not found:
            return False
        past = PastAds(rows, self._name, has_environment=settings.has_environment)
        jobs, ads = [], []
        for job in found:
            try:
                ads.append(past.ad(job))
            except (HostError, ValueError, TypeError, LookupError) as error:  # such a row never becomes readable
                _log.error("%d.%d: could not be written to HISTORY: %s", job.cluster, job.proc, error)
            else:
                jobs.append(job)
        texts = long_forms(ads)
        now = self._clock.now()
        if settings.directory:
            self._write_per_job(settings.directory, jobs, texts)
        if settings.path:
            records = [
                Record(text, _banner(job, ad, int(now)), chained=True)
                for job, ad, text in zip(jobs, ads, texts, strict=True)
            ]
            history_file.append(settings.path, records, settings.rotation, now)
        self._at = found[-1].seq
        return True

    @staticmethod
    def _write_per_job(directory: str, jobs: list[PastJob], texts: list[str]) -> None:
        """Write a file for each job; a failure does not stop the others."""
        for job, text in zip(jobs, texts, strict=True):
            try:
                history_file.write_per_job(directory, f"history.{job.cluster}.{job.proc}", text)
            except OSError as error:
                _log.warning("%d.%d: could not write its file in PER_JOB_HISTORY_DIR: %s", job.cluster, job.proc, error)


def _banner(job: PastJob, ad: ClassAd, now: int) -> str:
    completed = ad.get("CompletionDate")
    date = completed if isinstance(completed, int) else -1
    return on_one_line(
        f'ClusterId = {job.cluster} ProcId = {job.proc} Owner = "{ad.get("Owner", "?")}"'
        f" CompletionDate = {date} CurrentTime = {now}"
    )


def long_forms(ads: list[ClassAd]) -> list[str]:
    """The ads in long form, rendered together, which takes a third of the time."""
    names = {name for ad in ads for name in ad}
    if not all(map(_PLAIN_NAME.fullmatch, names)):  # one could read as attributes, or as the end of a record
        return [long_form(ad) for ad in ads]
    table = AdTable()
    for number, ad in enumerate(ads):
        table.upsert(str(number), ad)
    text = table.long_text().decode("utf-8", "surrogateescape")
    is_plain = text.replace("\n", "").isprintable() and text.count("\n") == sum(len(ad) + 1 for ad in ads)
    if not is_plain:  # a string of some job contains line breaks
        return [long_form(ad) for ad in ads]
    return [f"{one}\n" for one in text.split("\n\n")[:-1]]


__all__ = ["ExportSettings", "HistoryExport", "long_forms"]
