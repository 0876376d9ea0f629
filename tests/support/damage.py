"""Damage to databases that daemons have open."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path


def damage_open(path: Path, table: str) -> None:
    """Spoil the first page of a table in the file, as its next reader finds it: all is checkpointed, and what others
    have of the page in memory does not count any more."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
        db.execute("CREATE TABLE IF NOT EXISTS changed (at)")  # others read their pages again
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(os.urandom(size))
