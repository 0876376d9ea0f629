"""SQLite databases of daemons. Claim ids, tokens and every user's ads are in them, so nobody else may read them."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from slotwise.errors import HostError

#: The name of a database that is in memory alone.
MEMORY = ":memory:"
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
#: What SQLite keeps beside a database: they belong to that file, and would spoil another one.
_BESIDE = ("-wal", "-shm", "-journal")


def connect(path: Path | str, *, timeout_s: float = 5.0, may_be_open: bool = False) -> sqlite3.Connection:
    """Open the database, made with mode 0600 if it is missing; its journals get the same mode from SQLite.

    Transactions are the caller's own, and any thread may use the connection.

    :param may_be_open: an administrator's ``chmod`` of the file lasts.
    :raises sqlite3.Error: when it cannot be opened, OSError when its mode cannot be set.
    """
    if str(path) != MEMORY:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not may_be_open and os.fstat(descriptor).st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=timeout_s)


@contextlib.contextmanager
def reading(path: Path, *, timeout_s: float = 30.0) -> Iterator[sqlite3.Connection]:
    """The database of a daemon, to be read by a command beside the daemon that writes to it.

    Root reads it with the rights of its owner and no more: files that SQLite makes beside it are then the owner's. So
    the block must not need root's, and no other thread may.

    :raises HostError: there is no such file.
    :raises sqlite3.Error: when it cannot be opened or read.
    """
    try:
        owner = path.stat().st_uid
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror}", path=str(path)) from None
    becomes_owner = os.geteuid() == 0 and owner != 0
    if becomes_owner:
        os.seteuid(owner)
    try:
        uri = f"file:{quote(str(path))}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=timeout_s)) as connection:
            yield connection
    finally:
        if becomes_owner:
            os.seteuid(0)


def is_damage(error: Exception) -> bool:
    """Whether what a file holds is not, or no longer, what SQLite wrote; else it is a disk, or a statement, that is at
    fault."""
    code = getattr(error, "sqlite_errorcode", 0) or 0
    return isinstance(error, sqlite3.Error) and (code & 0xFF in _DAMAGE or code == sqlite3.SQLITE_IOERR_SHORT_READ)


def hint(error: BaseException, path: Path | str) -> str:
    """What to do about a database that cannot be used, other than a damaged one."""
    if isinstance(error, OSError):
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    else:
        is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return f"make room on the disk of {path}" if is_full else f"see what is wrong with {path} and its disk"


def sound(path: Path | str, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    """As :func:`connect`, with the tables that ``prepare`` makes, once all pages of the file have been checked.

    :raises sqlite3.DatabaseError: see :func:`is_damage`.
    """
    connection = connect(path)
    try:
        prepare(connection)
        (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if said != "ok":
            damaged = sqlite3.DatabaseError(" ".join(said.split()))
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged
    except BaseException:
        connection.close()
        raise
    return connection


def set_aside(path: Path, suffix: str = "unreadable") -> Path:
    """Rename a database that is not to be used to ``<name>.<suffix>``, with its journals; returns where it is. It takes
    the place of an earlier one."""
    aside = path.with_name(f"{path.name}.{suffix}")
    for end in _BESIDE:
        aside.with_name(aside.name + end).unlink(missing_ok=True)
    path.replace(aside)
    for end in _BESIDE:
        beside = path.with_name(path.name + end)
        if beside.exists():
            beside.replace(aside.with_name(aside.name + end))
    return aside


def sound_or_new(
    path: Path, prepare: Callable[[sqlite3.Connection], None], log: logging.Logger, lost: str
) -> sqlite3.Connection:
    """As :func:`sound`; a damaged file is set aside, and a new one takes its place. The log tells so, and what is
    ``lost``.

    :raises sqlite3.Error, OSError: the file cannot be used for another reason.
    """
    try:
        return sound(path, prepare)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        log.error("%s is damaged (%s) and was set aside as %s: %s", path, error, set_aside(path), lost)
    return sound(path, prepare)
