"""The collector's record of sleeps: durable, bounded, and never in the way."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.collector.sleeps import Sleep, SleepRecord, saved_watts
from slotwise.wire.gen import collector_pb2

from tests.service.test_collector import READ, slot
from tests.service.test_collector_offline import Offline, collectors

__all__ = ["collectors"]
Collectors = Callable[[], AbstractAsyncContextManager[Offline]]
DRAWS = {"HibernationLevel": 3, "IdleWatts": 90.0, "AsleepWatts": 2.5}


async def asked(collector: Offline, **query: Any) -> list[tuple[str, int, int, int, float]]:
    """The sleeps that the collector tells of."""
    replies = collector.stub.Sleeps(collector_pb2.SleepsRequest(**query), metadata=READ)
    found = [one async for reply in replies for one in reply.sleeps]
    return [(one.machine, one.level, one.began, one.ended, one.saved_watts) for one in found]


async def test_a_sleep_begins_with_the_first_slot_and_ends_with_the_first(collectors: Collectors) -> None:
    async with collectors() as collector:
        await collector.sleep(slot(1, **DRAWS))
        collector.clock.advance(1)
        await collector.sleep(slot(2, **DRAWS))
        collector.clock.advance(499)
        await collector.merge("slot2@h", MachineLastMatchTime=1500)
        assert await asked(collector) == [("h", 3, 1000, 0, 87.5)]
        collector.clock.advance(100)
        await collector.slots(slot(1))
        await collector.merge("slot2@h", MachineLastMatchTime=1600)
        collector.clock.advance(50)
        await collector.slots(slot(2))
        assert await asked(collector) == [("h", 3, 1000, 1600, 87.5)]
        assert not await asked(collector, since=1600) and not await asked(collector, machines=["other"])


@pytest.mark.parametrize("back", [False, True])
async def test_a_collector_that_was_killed_knows_the_sleep_or_its_end(collectors: Collectors, back: bool) -> None:
    async with collectors() as collector:
        await collector.sleep(slot(1, **DRAWS), slot(2, **DRAWS))
        collector.clock.advance(300)
        if back:
            await collector.slots(slot(1))
    async with collectors() as collector:
        ended = 1300 if back else 0
        assert await asked(collector) == [("h", 3, 1000, ended, 87.5)], "slot2 sleeps no second time"
        collector.clock.advance(300)
        await collector.slots(slot(1), slot(2))
        assert await asked(collector) == [("h", 3, 1000, ended or 1600, 87.5)]


async def test_a_record_that_lags_behind_the_file_of_ads_is_brought_up_to_date(
    collectors: Collectors, tmp_path: Path
) -> None:
    async with collectors() as collector:
        await collector.sleep(slot(1, **DRAWS))
    (tmp_path / "sleeps.sqlite").unlink()
    with sqlite3.connect(tmp_path / "sleeps.sqlite") as database:
        pass
    record = SleepRecord(tmp_path / "sleeps.sqlite", 10)
    record.slept("gone", ClassAd(), 900)
    record.close()
    database.close()
    async with collectors() as collector:
        collector.clock.advance(7)
        assert await asked(collector) == [("gone", 0, 900, 1000, 0), ("h", 3, 1000, 0, 87.5)]


@pytest.mark.parametrize("how", ["invalidated", "expired", "absent"])
async def test_a_machine_that_nobody_waits_for_any_more_does_not_sleep_for_ever(
    collectors: Collectors, how: str
) -> None:
    async with collectors() as collector:
        collector.offline.rules.offline_life_s = 3600
        if how == "absent":
            collector.offline.rules.absent_requirements = ExprTree("true")
        await collector.sleep(slot(1), slot(2))
        if how == "invalidated":
            collector.clock.advance(3700)
            collector.store.invalidate("Machine", ["slot1@h"], collector.clock.now())
            assert (await asked(collector))[0][3] == 0, "another of its slots sleeps"
            collector.store.invalidate("Machine", ["slot2@h"], collector.clock.now())
        else:
            collector.expire(4700.0)
        assert await asked(collector) == [("h", 0, 1000, 4700, 0)]


def test_the_oldest_go_when_there_are_too_many_and_those_that_sleep_stay(tmp_path: Path) -> None:
    record = SleepRecord(tmp_path / "sleeps.sqlite", 5)
    record.slept("long", ClassAd(), 1)
    for at in range(0, 2000, 10):
        record.slept("m", ClassAd(), at)
        record.woke("m", at + 5)
    record.prune()
    assert list(record.between(0, 9999)) == [
        Sleep("long", 0, 1), *(Sleep("m", 0, at, at + 5) for at in (1960, 1970, 1980, 1990)),
    ]  # fmt: skip
    record.close()


def test_a_file_that_is_none_is_set_aside_and_one_that_cannot_be_written_is_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sleeps.sqlite"
    path.write_text("no database at all, " * 100)
    record = SleepRecord(path, 5)
    record.slept("m", ClassAd(), 1)
    record.close()
    assert (tmp_path / "sleeps.sqlite.unreadable").read_text().startswith("no database")
    with sqlite3.connect(path, isolation_level=None) as database:
        record = SleepRecord(path, 5)
        database.execute("DROP TABLE sleep")
        for machine in ("a", "b"):
            record.slept(machine, ClassAd(), 1)
        record.woke("m", 5)
        record.close()
    database.close()
    assert caplog.text.count("cannot record") == 1
    record = SleepRecord(tmp_path / "missing/sleeps.sqlite", 5)
    record.slept("m", ClassAd(), 1)
    assert list(record.between(0, 9)) == [Sleep("m", 0, 1)] and "in memory only" in caplog.text
    record.close()


@pytest.mark.parametrize(
    ("ad", "watts"),
    [({"IdleWatts": 90, "AsleepWatts": 3.0}, 87), ({"IdleWatts": 90}, None), ({"IdleWatts": 1, "AsleepWatts": 3}, None),
     ({"IdleWatts": 1e12, "AsleepWatts": 3}, None), ({"IdleWatts": True, "AsleepWatts": 0}, None),
     ({"IdleWatts": ExprTree('real("INF")'), "AsleepWatts": 3}, None), ({"IdleWatts": "9", "AsleepWatts": 3}, None)],
)  # fmt: skip
def test_what_a_machine_says_it_draws_has_to_make_sense(ad: dict[str, object], watts: float | None) -> None:
    assert saved_watts(ClassAd(ad)) == watts
