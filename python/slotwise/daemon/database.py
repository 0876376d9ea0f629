"""SQLite databases of daemons. Claim ids, tokens and every user's ads are in them, so nobody else may read them."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path


def connect(path: Path | str, *, timeout_s: float = 5.0) -> sqlite3.Connection:
    """Open the database, made with mode 0600 if it is missing; its journals get the same mode from SQLite.

    Transactions are the caller's own, and any thread may use the connection.

    :raises sqlite3.Error: when it cannot be opened, OSError when its mode cannot be set.
    """
    if str(path) != ":memory:":
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=timeout_s)
