"""The library of HTCondor 25.14.1's librarian, recorded: what it holds of three files of a history, and its schema.

The times of rotation were recorded where the clock shows UTC. The last file ends in the middle of a record.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from slotwise.clock import ManualClock
from slotwise.librarian.indexer import Indexer
from slotwise.librarian.rules import LibrarianRules

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "librarian.json").read_text())
#: What differs on purpose: how far the last file counts as read without what is not whole, and the owner of the last
#: record of the second one, who has the same job id as another.
DIFFERENT = {("Files", 2, "LastOffset"), ("JobRecords", 12, "JobListId")}
ZOE = [[4, "zoe"]]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    for number, (name, text) in enumerate(sorted(RECORDED["files"].items(), key=lambda item: item[0] == "history")):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (number, number))
    indexer = Indexer(LibrarianRules(str(tmp_path / "history"), str(tmp_path / "library.db")), ManualClock())
    indexer.update()
    indexer.close()
    monkeypatch.undo()
    time.tzset()
    return tmp_path / "library.db"


def test_the_library_has_what_htcondors_has(library: Path) -> None:
    with contextlib.closing(sqlite3.connect(library)) as connection:
        for table, recorded in RECORDED["tables"].items():
            rows = [list(row) for row in connection.execute(f"SELECT {recorded['columns']} FROM {table}")]
            names = recorded["columns"].split(", ")
            if table == "Users":
                assert rows == recorded["rows"] + ZOE
                continue
            if table == "JobLists":
                rows = [row for row in rows if row[2] != 4]
            for number, (row, theirs) in enumerate(zip(rows, recorded["rows"], strict=True)):
                for name, value, expected in zip(names, row, theirs, strict=True):
                    if (table, number, name) in DIFFERENT:
                        assert value != expected
                    elif name == "FileName":
                        assert Path(value).name == expected and Path(value).is_absolute()
                    elif name != "JobListId":  # numbers of lists after that of zoe's are one more
                        assert value == expected, (table, number, name)


def test_the_schema_is_htcondors(library: Path) -> None:
    with contextlib.closing(sqlite3.connect(library)) as connection:
        for table, columns in RECORDED["schema"].items():
            assert [list(row[1:]) for row in connection.execute(f"PRAGMA table_info({table})")] == columns, table
        indexes = connection.execute("SELECT name FROM sqlite_master WHERE type='index' ORDER BY 1").fetchall()
        assert [name for (name,) in indexes] == RECORDED["indexes"]
        for name, value in RECORDED["pragmas"].items():
            assert connection.execute(f"PRAGMA {name}").fetchone() == (value,)
