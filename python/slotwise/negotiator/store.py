"""The durable accounting: an SQLite file, written in one transaction per change."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from slotwise.daemon import database
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


class AccountingStore:
    """Records of submitters and groups, leases on their settings, times of remainder slots, and reservations."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._database = database.connect(path)
        # A commit survives the death of the process; the host's may cost the last moments of usage.
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.executescript(_SCHEMA)
        self._written: dict[str, str] = {}
        self._reserved: tuple[Reservation, ...] = ()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

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
        """Make the file contain exactly this, in one transaction; unchanged records are not written.

        :raises HostError: it cannot be written; the next call tries again.
        """
        try:
            self._save(records, leases, remainder_times, reservations)
        except BaseException as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if not isinstance(error, sqlite3.OperationalError):
                raise
            raise HostError(
                f"usage and priorities cannot be saved: {error}",
                hint=f"is the disk of {self._path} full?",
                path=str(self._path),
            ) from error

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
        execute("BEGIN IMMEDIATE")
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
        execute("COMMIT")
        self._written = bodies
        self._reserved = reservations
