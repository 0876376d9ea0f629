"""Durable state of the access point: clusters, jobs, runs, claims, planned log entries, history.

A :class:`Batch` gathers the changes of one decision; :meth:`Store.commit` makes it durable in one transaction. One
thread writes: all batches that wait when it is free go into one transaction, so that many callers share one fsync. The
database is SQLite in WAL mode with ``synchronous=FULL``: what was acknowledged survives a crash of the process and a
power cut. With NORMAL or OFF (SLOTWISE_SCHEDD_SYNCHRONOUS) a power cut takes the last changes back; the ids of clusters
are reserved ahead then, and flushed, so that none is ever given twice.

Another database takes this one's place by implementing :class:`Batch`'s statements and the three methods of `Store`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from prometheus_client import Histogram

from slotwise.daemon import database, disk_room, process
from slotwise.daemon.pause import pause_thread
from slotwise.daemon.start_progress import Note
from slotwise.errors import HostError
from slotwise.metrics import SHORT_S
from slotwise.observe.outage import Outage
from slotwise.run_times import spent
from slotwise.schedd.storage.batch import (
    REMOVED_HOST,
    STARTER,
    Batch,
    ForEach,
    RecordKind,
    Reservation,
    StoredAction,
    StoredClaim,
    StoredCluster,
    StoredFactory,
    StoredJobSet,
    StoredQueue,
    StoredRecord,
    UserTotals,
)
from slotwise.schedd.storage.run_rows import StoredLocalRun, StoredRun, stored_node, stored_run
from slotwise.schedd.storage.schema import prepare
from slotwise.schedd.userlog.planned_text import PlannedText

_log = logging.getLogger(__name__)

COMMIT_DURATION = Histogram(
    "slotwise_queue_commit_duration_seconds",
    "Time to make a transaction of the job queue durable, whatever it holds.",
    buckets=SHORT_S,
    registry=None,  # every daemon's process loads this module, and only the schedd is to report it
)

#: The time before a batch that must be written is tried again, in seconds.
_AGAIN_S = 0.5
#: How long it is tried once the daemon stops.
_LAST_TRIES_S = 5.0
#: How many cluster ids are reserved at a time where commits are not flushed.
_RESERVED_AHEAD = 1000
_FULL = "FULL"
#: The first id that is not reserved, in the table ``meta``; there is none while every commit is flushed.
_RESERVED_TO = "reserved clusters"
#: Rows that are read between two notes of progress.
_AT_A_TIME = 20_000
#: What to do about a queue that is lost.
_LOST = "`slotwise restore` puts a backup back; `slotwise up --new-queue` sets the file aside and begins with no jobs"
_RESERVED = "SELECT first, count, at, owner FROM reserved ORDER BY first"
_RESERVED_TAKEN = "SELECT cluster FROM reserved JOIN clusters ON cluster >= first AND cluster < first + count"
#: Called with None when a batch is durable, or with the reason why it was refused.
OnCommitted = Callable[[HostError | None], None]


class _Entry(NamedTuple):
    """A batch on its way to the disk."""

    batch: Batch
    done: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop
    may_fail: bool
    on_committed: OnCommitted | None

    def settle(self, error: HostError | None) -> None:
        """Notify the waiting callers; runs in their loop."""
        failure: Exception | None = error
        try:
            if self.on_committed is not None:
                self.on_committed(error)
        except Exception as fault:
            _log.exception("error after a commit")
            failure = failure or fault
        if self.done.done():
            return
        if failure is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(failure)
            self.done.exception()  # whoever does not wait for it has on_committed, or the log


def _silent(text: str, *, done: int = 0, of: int = 0) -> None:
    """Nobody waits for the store to open."""


def _jobs(db: sqlite3.Connection, note: Note) -> list[tuple[int, int, int, bytes | None, str | None]]:
    many = db.execute("SELECT count(*) FROM jobs").fetchone()[0]
    reading = db.execute("SELECT * FROM jobs ORDER BY cluster, proc")
    found: list[tuple[int, int, int, bytes | None, str | None]] = []
    while rows := reading.fetchmany(_AT_A_TIME):
        found += rows
        note("reads its job queue", done=len(found), of=many)
    return found


class Store:
    """The SQLite database of one schedd."""

    def __init__(self, path: Path, *, synchronous: str = _FULL, traces: Sequence[Path] = ()) -> None:
        """:param traces: files that only a queue with jobs leaves: with one of them an empty file is no new queue."""
        self.path = path
        self._traces = traces
        self._synchronous = synchronous
        self._waiting: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopping = False
        #: When no batch is tried again any more, on the monotonic clock.
        self._gives_up_at = math.inf
        #: Batches that arrived while another could not be written.
        self._behind: list[_Entry] = []
        #: Why nothing can be written for now; None while the disk takes what it is given.
        self.refusal: HostError | None = None
        self._outage = Outage(_log)
        #: Ids before this one are reserved, flushed; 0: every commit is flushed.
        self._reserved_to = 0
        #: The number of transactions so far, for tests and metrics.
        self.commits = 0

    def _connect(self) -> sqlite3.Connection:
        existed = self.path.exists()
        try:
            connection = database.connect(self.path, timeout_s=30)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={self._synchronous}")
            connection.execute("PRAGMA wal_autocheckpoint=4000")
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except (sqlite3.Error, OSError) as error:
            hint = _LOST if database.is_damage(error) else database.hint(error, "SPOOL")
            raise HostError(f"cannot open the job queue {self.path}: {error}", hint=hint, path=str(self.path)) from None
        trace = next((path for path in self._traces if path.is_file() and path.stat().st_size), None)
        if existed and not tables and trace is not None:
            connection.close()
            raise HostError(
                f"the job queue {self.path} is empty, although jobs of it are in {trace}",
                hint=_LOST,
                path=str(self.path),
            )
        return connection

    def open(self, note: Note = _silent) -> StoredQueue:
        """Create or migrate the schema, read everything, and start the writer; ``note`` hears how far that is."""
        connection = self._connect()
        try:
            prepare(connection)
            found = self._load(connection, note)
        except sqlite3.Error as error:
            raise HostError(
                f"the job queue {self.path} cannot be read: {error}",
                hint=_LOST,
                path=str(self.path),
            ) from None
        self._thread = threading.Thread(target=self._run, args=(connection,), name="store", daemon=True)
        self._thread.start()
        return found

    @staticmethod
    def _load(db: sqlite3.Connection, note: Note = _silent) -> StoredQueue:
        meta = dict(db.execute("SELECT name, value FROM meta"))
        newest = db.execute("SELECT max(seq) FROM planned").fetchone()[0] or 0
        runs = [stored_run(row) for row in db.execute("SELECT * FROM runs")]
        return StoredQueue(
            # Ids that a former process had reserved count as given: the clusters that got them may be lost.
            next_cluster=max(meta.get("next_cluster", 1), meta.get(_RESERVED_TO, 1)),
            next_planned=newest + 1,
            birthdate=meta["birthdate"],
            done=dict(
                db.execute(
                    "SELECT cluster, count(*) FROM history WHERE status = 4"
                    " AND cluster IN (SELECT DISTINCT cluster FROM jobs UNION SELECT cluster FROM factories)"
                    " GROUP BY cluster"
                )
            ),
            starters={name.removeprefix(STARTER): value for name, value in meta.items() if name.startswith(STARTER)},
            removed_hosts={
                name.removeprefix(REMOVED_HOST): int(at) for name, at in meta.items() if name.startswith(REMOVED_HOST)
            },
            clusters=[
                StoredCluster(*row)
                for row in db.execute(
                    "SELECT * FROM clusters WHERE cluster IN"
                    " (SELECT DISTINCT cluster FROM jobs UNION SELECT cluster FROM factories)"
                )
            ],
            factories=[StoredFactory(*row) for row in db.execute("SELECT * FROM factories")],
            jobs=_jobs(db, note),
            runs=[run for run in runs if isinstance(run, StoredRun)],
            local_runs=[run for run in runs if isinstance(run, StoredLocalRun)],
            nodes=[stored_node(row) for row in db.execute("SELECT * FROM nodes ORDER BY cluster, node")],
            claims=[StoredClaim(*row) for row in db.execute("SELECT * FROM claims")],
            planned=[PlannedText(*row) for row in db.execute("SELECT * FROM planned ORDER BY seq")],
            reserved=[Reservation(*row) for row in db.execute(_RESERVED)],
            reserved_taken=[number for (number,) in db.execute(_RESERVED_TAKEN)],
            users=_records(db, RecordKind.USER),
            projects=_records(db, RecordKind.PROJECT),
            job_sets=_job_sets(db),
            actions=[StoredAction(*row) for row in db.execute("SELECT * FROM actions ORDER BY id")],
        )

    def _reserve(self, connection: sqlite3.Connection, batches: list[Batch]) -> None:
        """Reserve the ids of clusters before they are used, where their commit is not flushed."""
        following = max(batch.next_cluster for batch in batches)
        if self._synchronous == _FULL or following <= self._reserved_to:
            return
        reserved_to = following + _RESERVED_AHEAD
        with self._flushed(connection):
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_RESERVED_TO, reserved_to))
        self._reserved_to = reserved_to

    def _give_back(self, connection: sqlite3.Connection) -> None:
        """All that was committed is on the disk: no id is reserved any more."""
        if self._reserved_to:
            with self._flushed(connection):
                connection.execute("DELETE FROM meta WHERE name=?", (_RESERVED_TO,))

    @contextlib.contextmanager
    def _flushed(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Commits in this block are flushed, with all that were made before."""
        connection.execute(f"PRAGMA synchronous={_FULL}")
        try:
            yield
        finally:
            connection.execute(f"PRAGMA synchronous={self._synchronous}")

    def commit(
        self, batch: Batch, *, may_fail: bool = False, on_committed: OnCommitted | None = None
    ) -> asyncio.Future[None]:
        """Make ``batch`` durable; the future is done when it is.

        ``on_committed`` is called at that moment, before callers that await the future go on, and even when they were
        cancelled: use it for everything that must follow a durable change.

        A batch that ``may_fail`` fails with :class:`HostError` when the database refuses it (a full disk). Any other
        is retried until it succeeds: what happened in the pool cannot be undone, so it must be durable before
        anything that follows from it is reported.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.put(_Entry(batch, done, loop, may_fail, on_committed))
        return done

    def reserve(self, size: int) -> None:
        """Have the disk keep room for ``size`` bytes of transactions, so that what is decided next becomes durable.
        For a worker thread.

        :raises HostError: it has no room, or takes nothing for now.
        """
        if self.refusal is not None:
            raise self.refusal
        path = self.path.with_name(f"{self.path.name}-wal")
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._refusal_of(error) from None
        try:
            disk_room.reserve(descriptor, size)
        except OSError as error:
            raise self._refusal_of(error) from None
        finally:
            os.close(descriptor)

    def _refusal_of(self, error: Exception) -> HostError:
        why = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        hint = database.hint(error, "SPOOL")
        return HostError(f"the job queue cannot be written: {why}", hint=hint, path=str(self.path))

    def end_soon(self) -> None:
        """The daemon stops: what cannot be written within 5 s fails, as with the death of the process, so that a full
        disk does not keep it. Nothing of that was acknowledged."""
        self._gives_up_at = time.monotonic() + _LAST_TRIES_S

    def close(self) -> None:
        """Write all waiting batches and stop."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(timeout=30)
            self._thread = None

    def reader(self) -> sqlite3.Connection:
        """A new read-only connection, for use in one worker thread; close it after use."""
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, check_same_thread=False, timeout=30)
        connection.execute("PRAGMA query_only=1")
        return connection

    def factory_part(self, cluster: int, proc: int) -> tuple[int, int, bytes] | None:
        """The part of a factory that job ``proc`` is in: first proc, count, delta pack. For a worker thread."""
        with contextlib.closing(self.reader()) as connection:
            sql = (
                "SELECT first, count, deltas FROM factory_parts WHERE cluster=? AND first<=?"
                " ORDER BY first DESC LIMIT 1"
            )
            found: tuple[int, int, bytes] | None = connection.execute(sql, (cluster, proc)).fetchone()
        return found

    def submission(self, owner: str, key: bytes) -> bytes | None:
        """The reply to a submission that was queued not long ago, by its key. For a worker thread."""
        with contextlib.closing(self.reader()) as connection:
            sql = "SELECT reply FROM submissions WHERE owner=? AND key=?"
            found: tuple[bytes] | None = connection.execute(sql, (owner, key)).fetchone()
        return found[0] if found else None

    def _run(self, connection: sqlite3.Connection) -> None:
        try:
            self._write(connection)
        except Exception:
            # Whatever waits for it would wait for ever: a daemon that ends here is started again.
            _log.critical("the thread that writes the job queue has failed: the schedd ends", exc_info=True)
            process.leave(os.EX_SOFTWARE)

    def _write(self, connection: sqlite3.Connection) -> None:
        while not self._stopping:
            entries = self._taken(self._waiting.get())
            while entries:
                self._write_group(connection, entries)
                entries, self._behind = self._behind, []
        with contextlib.suppress(sqlite3.Error):
            self._give_back(connection)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()

    def _taken(self, first: _Entry | None) -> list[_Entry]:
        """``first`` and all entries that wait behind it; notes a request to stop."""
        entries: list[_Entry] = []
        entry = first
        while True:
            if entry is None:
                self._stopping = True
            else:
                entries.append(entry)
            try:
                entry = self._waiting.get_nowait()
            except queue.Empty:
                return entries

    def _write_group(self, connection: sqlite3.Connection, entries: list[_Entry]) -> None:
        """Write all entries in one transaction; when that is refused, each in its own, so that only bad ones fail."""
        try:
            self._transaction(connection, [entry.batch for entry in entries])
        except Exception as error:
            if len(entries) == 1:
                self._refused(connection, entries[0], error, [])
                return
        else:
            _tell(entries, None)
            return
        rest = list(entries)
        while rest:
            entry = rest.pop(0)
            try:
                self._transaction(connection, [entry.batch])
            except Exception as error:
                self._refused(connection, entry, error, rest)
            else:
                _tell([entry], None)

    def _refused(self, connection: sqlite3.Connection, entry: _Entry, error: Exception, rest: list[_Entry]) -> None:
        """Retry a batch that the database refuses for as long as it takes.

        ``rest`` comes after it; entries in it that may fail are removed and fail.
        """
        while True:
            refusal = self._refusal_of(error)
            if not entry.may_fail and not _may_pass(error):
                _log.error("could not write a transaction to the job queue", exc_info=error)
            if entry.may_fail or not _may_pass(error) or time.monotonic() > self._gives_up_at:
                self.refusal = None
                _tell([entry], refusal)
                return
            text = "could not write the job queue %s, retrying: %s"
            self._outage.failed(time.monotonic(), text, self.path, error)
            self.refusal = refusal
            pause_thread(_AGAIN_S)
            try:
                self._transaction(connection, [entry.batch])
            except Exception as fault:
                error = fault
                self._refuse_waiting(refusal, rest)
                continue
            self.refusal = None
            self._outage.over(time.monotonic(), "the job queue is written")
            _tell([entry], None)
            return

    def _refuse_waiting(self, refusal: HostError, rest: list[_Entry]) -> None:
        """Fail the waiting entries that may fail, as nothing can be written for now."""
        self._behind += self._taken(self._waiting.get()) if not self._waiting.empty() else []
        for entries in (rest, self._behind):
            _tell([entry for entry in entries if entry.may_fail], refusal)
            entries[:] = [entry for entry in entries if not entry.may_fail]

    def _transaction(self, connection: sqlite3.Connection, batches: list[Batch]) -> None:
        began = time.monotonic()
        with COMMIT_DURATION.time():
            self._reserve(connection, batches)
            self._write_all(connection, batches)
        spent.of("SCCommitTransactions").add(time.monotonic() - began)
        self.commits += 1

    @staticmethod
    def _write_all(connection: sqlite3.Connection, batches: list[Batch]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for batch in batches:
                for statement in batch.statements:
                    if isinstance(statement, ForEach):
                        connection.executemany(statement.sql, statement.rows)
                    else:
                        connection.execute(statement.sql, statement.values)
            connection.execute("COMMIT")
        except Exception:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise


def _job_sets(db: sqlite3.Connection) -> list[StoredJobSet]:
    given: dict[int, dict[str, str]] = {}
    for number, name, text in db.execute("SELECT * FROM job_set_attributes"):
        given.setdefault(number, {})[name] = text
    rows = db.execute("SELECT * FROM job_sets")
    return [StoredJobSet(row[0], row[1], row[2], UserTotals(row[3:6], row[6:9]), given.get(row[0], {})) for row in rows]


def _records(db: sqlite3.Connection, kind: RecordKind) -> list[StoredRecord]:
    return [
        StoredRecord(row[0], bool(row[1]), row[2], UserTotals(row[3:6], row[6:9]))
        for row in db.execute(f"SELECT * FROM {kind}")
    ]


def _may_pass(error: Exception) -> bool:
    """Whether a retry may succeed: after a full disk it may, with a value that no column takes it cannot."""
    lasting = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
    return isinstance(error, sqlite3.Error) and not isinstance(error, lasting)


def _tell(entries: list[_Entry], error: HostError | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Entry]] = {}
    for entry in entries:
        by_loop.setdefault(entry.loop, []).append(entry)

    def settle(own: list[_Entry]) -> None:
        for entry in own:
            entry.settle(error)

    for loop, own in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, own)


__all__ = [
    "Batch",
    "PlannedText",
    "Store",
    "StoredClaim",
    "StoredCluster",
    "StoredFactory",
    "StoredLocalRun",
    "StoredQueue",
    "StoredRun",
]
