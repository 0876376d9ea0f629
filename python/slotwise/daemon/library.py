"""The librarian's database as commands read it: where the records of jobs are in a file of the history.

The schema is HTCondor's (version 3), so programs that read HTCondor's library read ours, and the librarian goes on with
one that HTCondor made.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from slotwise.daemon.database import reading
from slotwise.daemon.history_file import whole_records

#: The newest version of the schema that is known (PRAGMA user_version).
SCHEMA_VERSION = 3
#: Of how many bytes that the library does not have yet all records are looked at.
_UNREAD_MOST = 32 << 20
_FNV_START, _FNV_PRIME, _FNV_MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def fingerprint(stream: BinaryIO) -> str:
    """What tells a file of the history from others with its inode: FNV-1a of its first record's text, in hexadecimal;
    empty while no record is whole."""
    first = next(whole_records(stream), None)
    if first is None:
        return ""
    value = _FNV_START
    for byte in first.body.replace(b"\r", b""):
        value = (value ^ byte) * _FNV_PRIME & _FNV_MASK
    return f"{value:x}"


class Wanted(Struct, frozen=True):
    """Jobs by their ids (no proc: the whole cluster) and by their owners."""

    ids: tuple[tuple[int, int | None], ...] = ()
    owners: tuple[str, ...] = ()


def find(library: Path, stream: BinaryIO, wanted: Wanted) -> list[int] | None:
    """Where the records of a file begin in which the wanted jobs may be, in order: those that the library names, and
    all that it does not have yet. None: the library cannot be read, or has too little of the file.

    :raises HostError: there is no library.
    """
    state = os.fstat(stream.fileno())
    mark = fingerprint(stream)
    try:
        with reading(library) as connection:
            connection.execute("BEGIN")  # all from one state of the library
            row = connection.execute(
                "SELECT FileId, LastOffset FROM Files WHERE FileInode=? AND FileHash=?", (state.st_ino, mark)
            ).fetchone()
            if row is None or not 0 <= state.st_size - row[1] <= _UNREAD_MOST:
                return None
            file_id, known_to = row
            places = _places(connection, file_id, known_to, wanted)
    except sqlite3.Error:
        return None
    return [*places, *(one.begin for one in whole_records(stream, known_to))]


def _places(connection: sqlite3.Connection, file_id: int, end: int, wanted: Wanted) -> list[int]:
    clauses: list[str] = []
    values: list[str | int] = [file_id, end]
    for cluster, proc in wanted.ids:
        clauses.append("l.ClusterId=?" if proc is None else "(l.ClusterId=? AND j.ProcId=?)")
        values += [cluster] if proc is None else [cluster, proc]
    for owner in wanted.owners:
        clauses.append("u.UserName=? COLLATE NOCASE")
        values.append(owner)
    sql = f"""
        SELECT DISTINCT r.Offset FROM JobRecords r
        JOIN Jobs j ON j.JobId=r.JobId JOIN JobLists l ON l.JobListId=r.JobListId JOIN Users u ON u.UserId=l.UserId
        WHERE r.FileId=? AND r.Offset<? AND ({" OR ".join(clauses)}) ORDER BY r.Offset"""
    return [offset for (offset,) in connection.execute(sql, values)]
