"""A disk that refuses to write: nothing is lost, nobody waits in vain, and one bad batch spoils no others."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.errors import HostError
from slotwise.schedd.storage import store as module
from slotwise.schedd.storage.batch import STARTER
from slotwise.schedd.storage.store import Batch, Store

from tests.support.waiting import until


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setattr(module, "_AGAIN_S", 0.0005)
    monkeypatch.setattr(logging.getLogger(module.__name__), "disabled", True)
    opened = Store(tmp_path / "queue.sqlite", synchronous="OFF")
    opened.open()
    yield opened
    opened.close()


def meta(name: str) -> Batch:
    batch = Batch()
    batch.put_starter(name, "there")
    return batch


async def test_a_disk_that_stays_full_stops_nothing_for_good(store: Store) -> None:
    honest, refusals = store._transaction, 1200
    may_pass = asyncio.Event()

    def full(connection: Any, batches: list[Batch]) -> None:
        nonlocal refusals
        if refusals > 0 or not may_pass.is_set():
            refusals -= 1
            raise sqlite3.OperationalError("database or disk is full")
        honest(connection, batches)

    store._transaction = full  # type: ignore[method-assign]
    happened = store.commit(meta("first"))
    with pytest.raises(HostError, match="disk is full"):
        await store.commit(meta("refused"), may_fail=True)
    behind = store.commit(meta("second"))
    may_pass.set()
    await asyncio.gather(happened, behind)
    with contextlib.closing(store.reader()) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM meta")}
    assert {"starter first", "starter second"} <= {name.replace(STARTER, "starter ") for name in names}
    assert not any("refused" in name for name in names)


async def test_a_refusal_that_nobody_waits_for_is_not_reported_by_the_loop(store: Store) -> None:
    def full(connection: Any, batches: list[Batch]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    store._transaction = full  # type: ignore[method-assign]
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, about: told.append(about))
    refused: list[HostError | None] = []
    store.commit(meta("first"), may_fail=True, on_committed=refused.append)
    await until(lambda: refused, "it is refused")
    await asyncio.sleep(0)
    gc.collect()
    assert told == []


async def test_what_no_column_takes_spoils_no_other_batch(store: Store) -> None:
    results = await asyncio.gather(
        store.commit(meta("one")), store.commit(meta("\udcff")), store.commit(meta("two")), return_exceptions=True
    )
    assert results[0] is None and results[2] is None
    assert isinstance(results[1], HostError)
    await store.commit(meta("three"))
