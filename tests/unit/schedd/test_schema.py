"""The job queue's tables: those of older versions are brought up to date, those of newer ones are left alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from slotwise.errors import HostError
from slotwise.schedd.storage import schema
from slotwise.schedd.storage.batch import StoredClaim
from slotwise.schedd.storage.store import Store


def test_a_queue_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "schedd.sqlite"
    with sqlite3.connect(path) as old:
        old.executescript(schema._FIRST)
        old.execute("INSERT INTO claims VALUES ('c', 'startd', 'slot1', 'ann@here', 40, x'00')")
        old.execute("INSERT INTO meta VALUES ('next_cluster', 7)")
    old.close()
    for _ in range(2):  # what is up to date stays as it is
        store = Store(path)
        stored = store.open()
        store.close()
        assert stored.claims == [StoredClaim("c", "startd", "slot1", "ann@here", 40, b"\0", limits="")]
        assert (stored.next_cluster, stored.reserved) == (7, [])


def test_a_queue_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "schedd.sqlite"
    store = Store(path)
    store.open()
    store.close()
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version=99")
    newer.close()
    with pytest.raises(HostError, match="version 99") as caught:
        Store(path).open()
    assert caught.value.hint
