"""The durable accounting: an SQLite file, written in one transaction per change."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path

from slotwise import durable_files
from slotwise.daemon import database
from slotwise.daemon.database import MEMORY
from slotwise.errors import HostError
from slotwise.matchmaking.engine import Reservation
from slotwise.matchmaking.rows import Record

_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease (
    name TEXT NOT NULL, setting TEXT NOT NULL, former TEXT NOT NULL, ends_at REAL NOT NULL,
    PRIMARY KEY (name, setting)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS remainder (grp TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kept_machine (
    slot TEXT NOT NULL, submitter TEXT NOT NULL, job TEXT NOT NULL, starts_at REAL NOT NULL,
    gives_up_at REAL NOT NULL, given_up INTEGER NOT NULL, PRIMARY KEY (slot, submitter, job)
) WITHOUT ROWID;
DROP TABLE IF EXISTS reservation;
"""

#: A lease on a setting: (former value or None, when it ends in epoch seconds).
Lease = tuple[float | None, float]


_log = logging.getLogger(__name__)
#: How often the file is copied while it is written.
_COPY_S = 3600.0


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.executescript(_SCHEMA)


def _copy_of(path: Path) -> Path:
    """The last copy of the file that was good."""
    return path.with_name(f"{path.name}.copy")


def _opened(path: Path) -> sqlite3.Connection:
    try:
        return database.sound(path, _prepare)
    except sqlite3.DatabaseError as error:
        if not database.is_damage(error):
            raise
        damage, aside, copy = error, database.set_aside(path), _copy_of(path)
    try:
        at = copy.stat().st_mtime
        shutil.copy2(copy, path)
        opened = database.sound(path, _prepare)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
        lost = f"usage and priorities are those of its copy {copy}, what came after {since} is lost"
    except (sqlite3.Error, OSError) as error:
        if path.exists():
            path.unlink()
        opened = database.sound(path, _prepare)
        lost = f"as {copy} cannot be used either ({error}), all usage and settings of users are lost"
    _log.error("%s is damaged (%s) and was set aside as %s: %s", path, damage, aside, lost)
    return opened


class AccountingStore:
    """Records of submitters and groups, leases on their settings, times of remainder slots, and reservations."""

    def __init__(self, path: Path | str) -> None:
        """Open the file. A damaged one is set aside, and the last copy of it takes its place.

        :raises HostError: it cannot be used for another reason.
        """
        self._path = path
        self._copied_at = 0.0
        try:
            self._database = database.sound(path, _prepare) if path == MEMORY else _opened(Path(path))
        except (sqlite3.Error, OSError) as error:
            raise HostError(
                f"usage and priorities in {path} cannot be used: {error}",
                hint=f"{database.hint(error, path)}; without the file the negotiator begins without usage",
                path=str(path),
            ) from None
        self._written: dict[str, str] = {}
        self._reserved: tuple[Reservation, ...] = ()
        self._keep_copy()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _keep_copy(self) -> None:
        """Copy what the file holds, in one step: a file that could be read to its end."""
        self._copied_at = time.monotonic()
        if self._path == MEMORY:
            return
        path = Path(self._path)
        partial = path.with_name(f"{path.name}.new")
        try:
            partial.unlink(missing_ok=True)
            with contextlib.closing(database.connect(partial)) as copy:
                self._database.backup(copy)
            durable_files.replace(partial, _copy_of(path))
        except (sqlite3.Error, OSError) as error:
            _log.warning("cannot renew %s, the copy of usage and priorities: %s", _copy_of(path), error)
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)

    def records(self) -> dict[str, dict[str, float | None]]:
        """All records by name."""
        rows = self._database.execute("SELECT name, body FROM record").fetchall()
        self._written = dict(rows)
        return {name: json.loads(body) for name, body in rows}

    def leases(self) -> dict[tuple[str, str], Lease]:
        """All leases by (name, setting)."""
        rows = self._database.execute("SELECT name, setting, former, ends_at FROM lease").fetchall()
        return {(name, setting): (json.loads(former), ends_at) for name, setting, former, ends_at in rows}

    def remainder_times(self) -> dict[str, float]:
        """When each group last got a remainder slot."""
        return dict(self._database.execute("SELECT grp, at FROM remainder").fetchall())

    def reservations(self) -> tuple[Reservation, ...]:
        """Slots reserved for large requests."""
        rows = self._database.execute("SELECT * FROM kept_machine ORDER BY slot, submitter, job")
        self._reserved = tuple((*row, bool(given_up)) for *row, given_up in rows)
        return self._reserved

    def save(
        self,
        records: Mapping[str, Record],
        leases: Mapping[tuple[str, str], Lease],
        remainder_times: Mapping[str, float],
        reservations: tuple[Reservation, ...] = (),
    ) -> None:
        """Make the file contain exactly this, in one transaction; unchanged records are not written. A damaged file is
        set aside, and a new one gets all of it.

        :raises HostError: it cannot be written; the next call tries again.
        """
        try:
            try:
                self._save(records, leases, remainder_times, reservations)
            except sqlite3.DatabaseError as error:
                if self._path == MEMORY or not database.is_damage(error):
                    raise
                self._begin_anew(error)
                self._save(records, leases, remainder_times, reservations)
        except (sqlite3.OperationalError, OSError) as error:
            raise HostError(
                f"usage and priorities cannot be saved: {error}",
                hint=database.hint(error, self._path),
                path=str(self._path),
            ) from error
        if time.monotonic() - self._copied_at > _COPY_S:
            self._keep_copy()

    def _begin_anew(self, damage: sqlite3.DatabaseError) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        aside = database.set_aside(Path(self._path))
        self._database = database.sound(self._path, _prepare)
        self._written, self._reserved = {}, ()
        text = "%s is damaged (%s) and was set aside as %s: it is written anew, and nothing is lost"
        _log.error(text, self._path, damage, aside)

    def _save(
        self,
        records: Mapping[str, Record],
        leases: Mapping[tuple[str, str], Lease],
        remainder_times: Mapping[str, float],
        reservations: tuple[Reservation, ...],
    ) -> None:
        bodies = {name: json.dumps(dict(record), sort_keys=True) for name, record in records.items()}
        changed = [(name, body) for name, body in bodies.items() if self._written.get(name) != body]
        gone = [(name,) for name in self._written if name not in bodies]
        execute = self._database.execute
        try:
            execute("BEGIN IMMEDIATE")
            self._fill(changed, gone, leases, remainder_times, reservations)
            execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                if self._database.in_transaction:
                    execute("ROLLBACK")
            raise
        self._written = bodies
        self._reserved = reservations

    def _fill(
        self,
        changed: list[tuple[str, str]],
        gone: list[tuple[str]],
        leases: Mapping[tuple[str, str], Lease],
        remainder_times: Mapping[str, float],
        reservations: tuple[Reservation, ...],
    ) -> None:
        execute = self._database.execute
        self._database.executemany("INSERT OR REPLACE INTO record VALUES (?, ?)", changed)
        self._database.executemany("DELETE FROM record WHERE name = ?", gone)
        execute("DELETE FROM lease")
        self._database.executemany(
            "INSERT INTO lease VALUES (?, ?, ?, ?)",
            [(name, setting, json.dumps(former), at) for (name, setting), (former, at) in leases.items()],
        )
        execute("DELETE FROM remainder")
        self._database.executemany("INSERT INTO remainder VALUES (?, ?)", list(remainder_times.items()))
        if reservations != self._reserved:
            execute("DELETE FROM kept_machine")
            self._database.executemany("INSERT OR REPLACE INTO kept_machine VALUES (?, ?, ?, ?, ?, ?)", reservations)
