"""A pool whose databases were damaged while it was down comes up again, or says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slotwise.negotiator.store import AccountingStore

from tests.support.pool import Pool


def test_damaged_databases_of_the_execution_point_and_the_negotiator_are_set_aside(
    make_pool: Callable[[str], Pool],
) -> None:
    pool = make_pool("NUM_CPUS = 1\n")
    pool.up()
    pool.run("userprio", "--setfactor", "ann@here", "50")
    pool.down()
    pool.up()  # copies what it finds
    pool.down()
    for name in ("startd.sqlite", "accounting.db"):
        (pool.home.spool / name).write_bytes(b"damaged" * 5000)
    pool.up()
    for name, log in (("startd.sqlite", "StartLog"), ("accounting.db", "NegotiatorLog")):
        assert (pool.home.spool / f"{name}.unreadable").exists()
        assert f"{pool.home.spool / name} is damaged" in (pool.home.log / log).read_text()
    pool.down()
    store = AccountingStore(pool.home.spool / "accounting.db")
    assert store.records()["ann@here"]["factor"] == 50
    store.close()


def test_an_empty_queue_beside_a_history_is_refused_until_a_new_one_is_asked_for(
    make_pool: Callable[[str], Pool],
) -> None:
    pool = make_pool("NUM_CPUS = 1\n")
    pool.up()
    path = Path(pool.root, "it.sub")
    path.write_text("executable = /bin/true\nqueue\n")
    pool.run("submit", str(path))
    pool.until("it has run", lambda: not pool.json("q"))
    history = pool.home.spool / "history"
    pool.until("it is in the history", lambda: history.is_file() and history.stat().st_size)
    refused = pool.run("up", "--new-queue", check=False)
    assert refused.returncode != 0 and "slotwise down" in refused.stderr
    pool.down()
    (pool.home.spool / "schedd.sqlite").write_bytes(b"")
    refused = pool.run("up", check=False)
    assert refused.returncode != 0
    assert f"is empty, although jobs of it are in {history}" in refused.stderr
    assert "slotwise up --new-queue" in refused.stderr
    assert pool.run("up", check=False).returncode != 0, "it stays refused"
    told = pool.run("up", "--new-queue").stderr
    assert f"The former job queue is in {pool.home.spool}/schedd.sqlite.former-" in told
    assert pool.json("q") == []
