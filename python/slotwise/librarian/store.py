"""The library: an SQLite database with HTCondor's schema, version 3."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from slotwise.daemon import database
from slotwise.daemon.library import SCHEMA_VERSION
from slotwise.errors import HostError
from slotwise.librarian.decide import Cycle, Known, Removable, Totals
from slotwise.librarian.facts import Facts

_log = logging.getLogger(__name__)
#: The mode of auto_vacuum in which freed pages are given back when asked for.
_INCREMENTAL = 2
#: What VACUUM needs of free room, in parts of the size of the database.
_VACUUM_ROOM = 1.1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS Files (
  FileId INTEGER PRIMARY KEY AUTOINCREMENT, FileName TEXT, FileInode INTEGER, FileHash TEXT, LastOffset INTEGER,
  DateOfRotation INTEGER, DateOfDeletion INTEGER, FullyRead INTEGER DEFAULT 0, AvgRecordSize REAL DEFAULT 0.0,
  RecordsRead INTEGER DEFAULT 0);
CREATE UNIQUE INDEX IF NOT EXISTS idx_unique_inode_hash ON Files(FileInode, FileHash);
CREATE INDEX IF NOT EXISTS idx_date_of_deletion ON Files(DateOfDeletion);
CREATE TABLE IF NOT EXISTS Users (UserId INTEGER PRIMARY KEY, UserName TEXT, DateOfLastJob INTEGER, UNIQUE (UserName));
CREATE TABLE IF NOT EXISTS JobLists (
  JobListId INTEGER PRIMARY KEY, ClusterId INTEGER NOT NULL, UserId INTEGER REFERENCES Users(UserId));
CREATE UNIQUE INDEX IF NOT EXISTS idx_unique_cluster_user ON JobLists(ClusterId, UserId);
CREATE TABLE IF NOT EXISTS Jobs (
  JobId INTEGER PRIMARY KEY AUTOINCREMENT, ClusterId INTEGER NOT NULL, ProcId INTEGER NOT NULL,
  UserId INTEGER REFERENCES Users(UserId), TimeOfCreation INTEGER, JobListId INTEGER REFERENCES JobLists(JobListId),
  UNIQUE (ClusterId, ProcId));
CREATE INDEX IF NOT EXISTS idx_OwnerInJobs ON Jobs(UserId);
CREATE UNIQUE INDEX IF NOT EXISTS idx_unique_cluster_proc_jobs ON Jobs(ClusterId, ProcId);
CREATE INDEX IF NOT EXISTS idx_JobListIdInJobs ON Jobs(JobListId);
CREATE TABLE IF NOT EXISTS JobRecords (
  JobRecordId INTEGER PRIMARY KEY AUTOINCREMENT, Offset INTEGER, CompletionDate INTEGER,
  JobId INTEGER REFERENCES Jobs(JobId), FileId INTEGER REFERENCES Files(FileId),
  JobListId INTEGER REFERENCES JobLists(JobListId), DAGManJobId INTEGER, JobBatchId TEXT, JobBatchName TEXT);
CREATE INDEX IF NOT EXISTS idx_JobIdInJobRecords ON JobRecords(JobId);
CREATE INDEX IF NOT EXISTS idx_JobListIdInJobRecords ON JobRecords(JobListId);
CREATE INDEX IF NOT EXISTS idx_FileIdInJobRecords ON JobRecords(FileId);
CREATE TABLE IF NOT EXISTS Status (
  StatusId INTEGER PRIMARY KEY AUTOINCREMENT, TimeOfUpdate INTEGER NOT NULL, FileIdLastRead INTEGER,
  FileOffsetLastRead INTEGER, TotalRecordsRead INTEGER DEFAULT 0, DurationMs INTEGER DEFAULT 0,
  JobBacklogEstimate INTEGER DEFAULT 0, HitMaxIngestLimit BOOLEAN DEFAULT 0, GarbageCollectionRun BOOLEAN DEFAULT 0,
  RecordsLostOnInsertFailure INTEGER DEFAULT 0);
CREATE INDEX IF NOT EXISTS idx_TimeOfUpdateInStatus ON Status(TimeOfUpdate);
CREATE TABLE IF NOT EXISTS StatusData (
  StatusDataId INTEGER PRIMARY KEY CHECK (StatusDataId = 1 OR StatusDataId = 2), AvgAdsIngestedPerCycle REAL,
  AvgIngestDurationMs REAL, MeanIngestHz REAL, MeanArrivalHz REAL, MeanBacklogEstimate REAL, TotalCycles INTEGER,
  TotalAdsIngested INTEGER, TotalRecordsLost INTEGER DEFAULT 0, HitMaxIngestLimitRate REAL,
  LastRunLeftBacklog BOOLEAN DEFAULT 0, TimeOfLastUpdate INTEGER);
"""
_TABLES = frozenset({"Files", "Users", "JobLists", "Jobs", "JobRecords", "Status", "StatusData"})
_TOTALS = (
    "AvgAdsIngestedPerCycle, AvgIngestDurationMs, MeanIngestHz, MeanArrivalHz, MeanBacklogEstimate, TotalCycles,"
    " TotalAdsIngested, TotalRecordsLost, HitMaxIngestLimitRate, LastRunLeftBacklog, TimeOfLastUpdate"
)


class Library:
    """The open database. Any thread may use it, one at a time.

    :param most_cached: of how many jobs the rows are remembered.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, most_cached: int) -> None:
        self.path = path
        self.inode = path.stat().st_ino
        self._connection = connection
        self._user = lru_cache(most_cached)(self._find_user)
        self._job_list = lru_cache(most_cached)(self._find_job_list)
        self._job = lru_cache(most_cached)(self._find_job)

    @classmethod
    def open(cls, path: Path, history: Path, *, busy_s: float, most_cached: int) -> Library:
        """Open the database, made or brought up to date where necessary.

        :param history: the HISTORY file: the names of the oldest version are in its directory.
        :raises HostError: it is somebody else's, another database, or of a newer version.
        :raises sqlite3.Error, OSError: it cannot be opened.
        """
        _require_safe(path)
        connection = database.connect(path, timeout_s=busy_s, may_be_open=True)
        try:
            # Whoever could write to the file must not have statements run here.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA foreign_keys = ON")
            version = _require_known(connection, path)
            _shrinkable(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
            _bring_up_to_date(connection, path, version, history)
            return cls(connection, path, most_cached)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Close it; what was not committed is not in it."""
        self._connection.close()

    def interrupt(self) -> None:
        """End the statement that another thread runs."""
        self._connection.interrupt()

    # ------------------------------------------------------------------------------------------------------------ files

    def files(self) -> list[Known]:
        """All files, those that are gone, too."""
        rows = self._connection.execute(
            "SELECT FileId, FileName, FileInode, FileHash, LastOffset, DateOfRotation, DateOfDeletion, FullyRead,"
            " AvgRecordSize, RecordsRead FROM Files"
        )
        return [
            Known(number, name, inode, mark, offset, rotated or None, gone, bool(read), mean or 0.0, count or 0)
            for number, name, inode, mark, offset, rotated, gone, read, mean, count in rows
        ]

    def add_file(self, path: str, inode: int, fingerprint: str, rotated_at: int | None) -> Known:
        """A file of which nothing was read yet."""
        with self._transaction():
            added = self._connection.execute(
                "INSERT INTO Files (FileName, FileInode, FileHash, LastOffset, DateOfRotation) VALUES (?, ?, ?, 0, ?)",
                (path, inode, fingerprint, rotated_at),
            )
        return Known(added.lastrowid or 0, path, inode, fingerprint, rotated_at=rotated_at)

    def change_file(self, file: Known) -> None:
        """Keep what has become of a file."""
        with self._transaction():
            self._write_file(file)

    def restart_file(self, file: Known) -> None:
        """Forget the records of a file that is read anew."""
        with self._transaction():
            self._drop_records(file.file_id)
            self._write_file(file)

    def _write_file(self, file: Known) -> None:
        self._connection.execute(
            "UPDATE Files SET FileName=?, FileInode=?, LastOffset=?, DateOfRotation=?, DateOfDeletion=?, FullyRead=?,"
            " AvgRecordSize=?, RecordsRead=? WHERE FileId=?",
            (file.path, file.inode, file.offset, file.rotated_at, file.gone_at, file.is_read, file.mean_size,
             file.records, file.file_id),
        )  # fmt: skip

    # ---------------------------------------------------------------------------------------------------------- records

    def add_records(self, file: Known, found: Iterable[tuple[int, Facts]]) -> None:
        """Records of a file, with their offsets, and how far it was read with them: both or neither."""
        with self._transaction():
            self._connection.executemany(
                "INSERT INTO JobRecords (Offset, CompletionDate, JobId, FileId, JobListId, DAGManJobId, JobBatchId,"
                " JobBatchName) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                self._rows(file.file_id, found),
            )
            self._write_file(file)

    def _rows(self, file_id: int, found: Iterable[tuple[int, Facts]]) -> Iterator[tuple[int | str | None, ...]]:
        for offset, facts in found:
            user = self._user(facts.owner)
            # A queue that was begun anew gives ids a second time: then the job's row is the former owner's.
            job_list = self._job_list(facts.cluster, user)
            job = self._job(facts.cluster, facts.proc, user, job_list, facts.completed)
            yield offset, facts.completed, job, file_id, job_list, facts.dag, facts.batch_id, facts.batch_name

    def _find_user(self, name: str) -> int:
        return self._number("Users", "UserId", {"UserName": name})

    def _find_job_list(self, cluster: int, user: int) -> int:
        return self._number("JobLists", "JobListId", {"ClusterId": cluster, "UserId": user})

    def _find_job(self, cluster: int, proc: int, user: int, job_list: int, created: int) -> int:
        more = {"UserId": user, "JobListId": job_list, "TimeOfCreation": created}
        return self._number("Jobs", "JobId", {"ClusterId": cluster, "ProcId": proc}, more)

    def _number(self, table: str, key: str, names: dict[str, str | int], more: dict[str, int] | None = None) -> int:
        """The row with these values in its columns, made if it is missing."""
        where = " AND ".join(f"{name}=?" for name in names)
        row = self._connection.execute(f"SELECT {key} FROM {table} WHERE {where}", (*names.values(),)).fetchone()
        if row is not None:
            return int(row[0])
        values = {**names, **(more or {})}
        added = self._connection.execute(
            f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", (*values.values(),)
        )
        return added.lastrowid or 0

    # ---------------------------------------------------------------------------------------------------------- removal

    def size(self) -> int:
        """The bytes of the database, without its journal."""
        (pages,), (each,) = (
            self._connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
        )
        return int(pages * each)

    def removable(self) -> tuple[list[Removable], int]:
        """The files that are gone, and how many records there are of all files."""
        rows = self._connection.execute(
            "SELECT f.FileId, f.DateOfDeletion, count(r.FileId) FROM Files f"
            " LEFT JOIN JobRecords r ON r.FileId=f.FileId GROUP BY f.FileId"
        ).fetchall()
        return [Removable(*row) for row in rows if row[1] is not None], sum(count for _, _, count in rows)

    def forget(self, files: Sequence[int]) -> None:
        """Remove files with their records, and give the room back."""
        for number in files:
            with self._transaction():
                self._drop_records(number)
                self._connection.execute("DELETE FROM Files WHERE FileId=?", (number,))
        # Each step gives one page back, and `execute` takes one where there is no column to show.
        self._connection.executescript("PRAGMA incremental_vacuum")
        self.checkpoint()

    def _drop_records(self, file: int) -> None:
        """Remove the records of a file, and jobs and lists of jobs that have none in another."""
        run = self._connection.execute
        run("CREATE TEMP TABLE IF NOT EXISTS Touched (JobId INTEGER, JobListId INTEGER)")
        run("DELETE FROM Touched")
        run("INSERT INTO Touched SELECT DISTINCT JobId, JobListId FROM JobRecords WHERE FileId=?", (file,))
        # A job's own list may be another than that of its record.
        run("INSERT INTO Touched SELECT JobId, JobListId FROM Jobs WHERE JobId IN (SELECT JobId FROM Touched)")
        run("DELETE FROM JobRecords WHERE FileId=?", (file,))
        run(
            "DELETE FROM Jobs WHERE JobId IN (SELECT JobId FROM Touched)"
            " AND NOT EXISTS (SELECT 1 FROM JobRecords r WHERE r.JobId=Jobs.JobId)"
        )
        run(
            "DELETE FROM JobLists WHERE JobListId IN (SELECT JobListId FROM Touched)"
            " AND NOT EXISTS (SELECT 1 FROM JobRecords r WHERE r.JobListId=JobLists.JobListId)"
            " AND NOT EXISTS (SELECT 1 FROM Jobs j WHERE j.JobListId=JobLists.JobListId)"
        )
        self._forget_rows()

    def checkpoint(self) -> None:
        """Have the file hold what is in its journal; readers may delay that."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # ---------------------------------------------------------------------------------------------------------- figures

    def totals(self) -> Totals:
        """The figures of all updates so far."""
        row = self._connection.execute(f"SELECT {_TOTALS} FROM StatusData WHERE StatusDataId=1").fetchone()
        return replace(Totals(*row), left_backlog=bool(row[9])) if row is not None else Totals()

    def add_cycle(self, cycle: Cycle, totals: Totals, retention_s: float) -> None:
        """Keep the figures of an update, and those of others as long as ``retention_s``."""
        with self._transaction():
            self._connection.execute(
                "INSERT INTO Status (TimeOfUpdate, FileIdLastRead, FileOffsetLastRead, TotalRecordsRead, DurationMs,"
                " JobBacklogEstimate, HitMaxIngestLimit, GarbageCollectionRun, RecordsLostOnInsertFailure)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (cycle.ended_at, cycle.last_file, cycle.last_offset, cycle.records, cycle.duration_ms, cycle.backlog,
                 cycle.hit_most, cycle.collected, cycle.lost),
            )  # fmt: skip
            self._connection.execute(
                f"INSERT OR REPLACE INTO StatusData (StatusDataId, {_TOTALS}) VALUES (1{', ?' * 11})",
                (totals.mean_records, totals.mean_ms, totals.mean_ingest_hz, totals.mean_arrival_hz,
                 totals.mean_backlog, totals.cycles, totals.records, totals.lost, totals.hit_rate,
                 totals.left_backlog, totals.at_ms),
            )  # fmt: skip
            self._connection.execute("DELETE FROM Status WHERE TimeOfUpdate < ?", (cycle.ended_at - retention_s,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._forget_rows()  # they may have been added in it
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _forget_rows(self) -> None:
        for rows in (self._user, self._job_list, self._job):
            rows.cache_clear()


def _require_safe(path: Path) -> None:
    """Others must not be able to put a database of theirs, or a link, where ours is to be."""
    directory = path.parent.stat()
    if directory.st_mode & stat.S_IWOTH:
        raise HostError(
            f"{path.parent} can be written by everybody",
            hint="have LIBRARIAN_DATABASE name a file in a directory of the daemons' account",
            path=str(path.parent),
        )
    try:
        owner = path.stat().st_uid
    except FileNotFoundError:
        return
    if owner not in (0, os.geteuid()):
        raise HostError(
            f"{path} belongs to uid {owner}, not to the daemons' account",
            hint="have LIBRARIAN_DATABASE name another file, or give it to that account",
            path=str(path),
        )


def _shrinkable(connection: sqlite3.Connection, path: Path) -> None:
    """Have the file give back room; one that does not needs to be copied once."""
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if mode == _INCREMENTAL:
        return
    size = path.stat().st_size
    if size and shutil.disk_usage(path.parent).free < size * _VACUUM_ROOM:
        _log.warning("%s cannot become smaller: copying it once needs %d bytes on its disk", path, size * _VACUUM_ROOM)
        return
    if size:
        _log.info("copying %s once, so that it can become smaller (auto_vacuum)", path)
    connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
    connection.execute("VACUUM")


def _require_known(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the schema of a library, 0 for a new one."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise HostError(
            f"{path} has version {version} of the schema, and {SCHEMA_VERSION} is the newest that is known here",
            hint="have LIBRARIAN_DATABASE name another file, or move this one away: the next is made from HISTORY",
            path=str(path),
        )
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    others = {name for name in tables - _TABLES if not name.startswith("sqlite_")}
    if others:
        raise HostError(
            f"{path} is no library: it has a table {min(others)}",
            hint="have LIBRARIAN_DATABASE name a file of its own",
            path=str(path),
        )
    return int(version)


def _bring_up_to_date(connection: sqlite3.Connection, path: Path, version: int, history: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        if version == 1:  # names without their directory
            connection.execute("UPDATE Files SET FileName = ? || FileName", (f"{history.parent}/",))
        if version in (1, 2):
            for column in ("DAGManJobId INTEGER", "JobBatchId TEXT", "JobBatchName TEXT"):
                connection.execute(f"ALTER TABLE JobRecords ADD COLUMN {column}")
        if version != SCHEMA_VERSION:
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            _log.info("%s has version %d of the schema now", path, SCHEMA_VERSION)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
