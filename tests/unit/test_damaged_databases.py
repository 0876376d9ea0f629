"""Databases of daemons that are damaged are set aside, and what can be had of a copy is."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.collector.enrolment import Asked
from slotwise.collector.node_record import NodeRecord
from slotwise.collector.sleeps import SleepRecord
from slotwise.daemon import database
from slotwise.errors import HostError
from slotwise.negotiator.store import AccountingStore
from slotwise.schedd.storage.store import Store

from tests.support.damage import damage_open

_log = logging.getLogger("test")


def prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS it (name TEXT PRIMARY KEY, value TEXT)")


def written(path: Path, rows: int = 500) -> None:
    connection = database.sound(path, prepare)
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO it VALUES (?, ?)", [(str(number), "x" * 100) for number in range(rows)])
    connection.execute("COMMIT")
    connection.close()


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize("at", [0, 4096, 12288], ids=["head", "root", "page"])
def test_a_damaged_page_anywhere_is_found_at_the_start(tmp_path: Path, at: int) -> None:
    path = tmp_path / "it.sqlite"
    written(path)
    overwrite(path, at, os.urandom(4096))
    with pytest.raises(sqlite3.DatabaseError) as caught:
        database.sound(path, prepare)
    assert database.is_damage(caught.value)


def test_a_file_that_is_cut_off_is_set_aside_with_its_journals(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "it.sqlite"
    written(path)
    os.truncate(path, path.stat().st_size // 8192 * 4096)
    (tmp_path / "it.sqlite-wal").write_bytes(b"left")
    fresh = database.sound_or_new(path, prepare, _log, "all of it is lost")
    assert fresh.execute("SELECT count(*) FROM it").fetchone() == (0,)
    fresh.close()
    aside = tmp_path / "it.sqlite.unreadable"
    assert aside.exists()
    assert f"{path} is damaged" in caplog.text and str(aside) in caplog.text and "all of it is lost" in caplog.text


@pytest.mark.parametrize("kind", ["full", "locked"])
def test_other_errors_are_no_damage(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it.sqlite"
    written(path)
    with database.connect(path) as holder, pytest.raises(sqlite3.OperationalError) as caught:
        if kind == "locked":
            holder.execute("BEGIN IMMEDIATE")
            database.connect(path, timeout_s=0).execute("BEGIN IMMEDIATE")
        else:
            pages = holder.execute("PRAGMA page_count").fetchone()[0]
            holder.execute(f"PRAGMA max_page_count={pages}")
            holder.execute("INSERT INTO it VALUES ('more', ?)", ("x" * 100_000,))
    assert not database.is_damage(caught.value)
    assert path.exists()


def test_accounting_comes_back_from_its_last_copy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "accounting.db"
    store = AccountingStore(path)
    store.save({"ann@d": {"priority": 1.5}}, {}, {})
    store.close()
    AccountingStore(path).close()  # a start copies what it finds
    path.write_bytes(b"no database" * 1000)
    again = AccountingStore(path)
    assert again.records() == {"ann@d": {"priority": 1.5}}
    again.close()
    assert (tmp_path / "accounting.db.unreadable").read_bytes().startswith(b"no database")
    assert "accounting.db.copy" in caplog.text and "is lost" in caplog.text


def test_accounting_that_is_damaged_while_it_is_open_is_written_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "accounting.db"
    store = AccountingStore(path)
    store.save({"ann@d": {"priority": 1.5}}, {("ann@d", "factor"): (None, 7.0)}, {"group": 3.0})
    damage_open(path, "record")
    store.save(
        {"ann@d": {"priority": 1.5}, "bob@d": {"priority": 2.5}}, {("ann@d", "factor"): (None, 7.0)}, {"group": 3.0}
    )
    assert "accounting.db.unreadable" in caplog.text and "nothing is lost" in caplog.text
    store.close()
    again = AccountingStore(path)
    assert again.records() == {"ann@d": {"priority": 1.5}, "bob@d": {"priority": 2.5}}
    assert again.leases() == {("ann@d", "factor"): (None, 7.0)} and again.remainder_times() == {"group": 3.0}
    again.close()


def test_the_record_of_sleeps_goes_on_in_another_file_when_it_is_damaged_while_it_is_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sleeps.sqlite"
    record = SleepRecord(path, 100)
    record.slept("first", ClassAd({"HibernationLevel": 3}), 100)
    damage_open(path, "sleep")
    record.slept("second", ClassAd({"HibernationLevel": 3}), 200)
    assert "sleeps.sqlite.unreadable" in caplog.text and "the record of sleeps begins anew" in caplog.text
    record.slept("third", ClassAd({"HibernationLevel": 3}), 300)
    assert list(record.asleep) == ["third"]
    record.close()


def test_accounting_without_a_copy_begins_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "accounting.db"
    for name in ("accounting.db", "accounting.db.copy"):
        (tmp_path / name).write_bytes(b"no database" * 1000)
    store = AccountingStore(path)
    assert store.records() == {}
    store.save({"ann@d": {"priority": 1.5}}, {}, {})
    store.close()
    assert "all usage and settings of users are lost" in caplog.text


def test_accounting_is_copied_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "accounting.db"
    store = AccountingStore(path)
    store._copied_at -= 4000  # an hour ago
    store.save({"ann@d": {"priority": 1.5}}, {}, {})
    store.close()
    path.write_bytes(b"")
    path.write_bytes(b"no database" * 1000)
    again = AccountingStore(path)
    assert again.records() == {"ann@d": {"priority": 1.5}}
    again.close()


def test_a_damaged_record_of_hosts_is_refused_and_never_replaced(tmp_path: Path) -> None:
    """An empty one would give the names of the pool's hosts to whoever asks first."""
    path = tmp_path / "nodes.sqlite"
    NodeRecord(path).close()
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(HostError, match=f"{path}, the record of the pool's hosts, cannot be used") as caught:
        NodeRecord(path)
    assert "slotwise restore" in str(caught.value) and path.read_bytes().startswith(b"no database")


@pytest.mark.parametrize("what", ["node", "nodes", "held_by_other", "remove", "admit"])
def test_a_record_of_hosts_that_is_damaged_while_it_is_open_refuses_with_the_reason(tmp_path: Path, what: str) -> None:
    path = tmp_path / "nodes.sqlite"
    record, asked = NodeRecord(path), Asked("a.example", ("ep",), "key", "tls", "1.0")
    record.admit(asked, address="10.0.0.1", by="root", now=1000.0)
    damage_open(path, "node")
    acts: dict[str, Callable[[], object]] = {
        "node": lambda: record.node("a.example"),
        "nodes": record.nodes,
        "held_by_other": lambda: record.held_by_other("a.example", "another"),
        "remove": lambda: record.remove("a.example", 2000.0),
        "admit": lambda: record.admit(asked, address="10.0.0.1", by="root", now=1000.0),
    }
    with pytest.raises(HostError, match=r"the record of the pool's hosts, cannot be (read|written)") as caught:
        acts[what]()
    assert "slotwise restore" in str(caught.value)
    record.close()


def test_an_empty_queue_beside_a_history_is_refused(tmp_path: Path) -> None:
    path, history = tmp_path / "schedd.sqlite", tmp_path / "history"
    history.write_text("ClusterId = 1\n")
    path.touch()
    with pytest.raises(HostError, match=f"{path} is empty, although jobs of it are in {history}") as caught:
        Store(path, traces=[history]).open()
    assert "slotwise restore" in str(caught.value) and "slotwise up --new-queue" in str(caught.value)


@pytest.mark.parametrize("there", ["nothing", "empty history", "tables"])
def test_a_queue_is_taken_for_new_where_no_jobs_were(tmp_path: Path, there: str) -> None:
    path, history = tmp_path / "schedd.sqlite", tmp_path / "history"
    if there == "empty history":
        history.touch()
        path.touch()
    if there == "tables":
        Store(path).open()
        history.write_text("ClusterId = 1\n")
    store = Store(path, traces=[history])
    assert store.open().jobs == []
    store.close()
