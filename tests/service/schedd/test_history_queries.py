"""Questions to the history: by user, time and id, and what is forgotten."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

import pytest
from slotwise.daemon import tasks
from slotwise.schedd.history import bounds, pruning
from slotwise.schedd.history import query as history
from slotwise.schedd.history.pruning import prune
from slotwise.schedd.history.query import HistoryQuery
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.waiting import LIMIT_S

NOW = 1_800_000_000


async def some_past(schedd: RunningAccessPoint, count: int = 40) -> int:
    """Removed jobs of one cluster: of two owners in turn, completed a minute after each other, the last at NOW."""
    cluster = await schedd.submit(count)
    await schedd.act("REMOVE", "true")
    await schedd.until_gone()
    with contextlib.closing(sqlite3.connect(schedd.point.store.path, timeout=LIMIT_S)) as database, database:
        database.execute(
            "UPDATE history SET owner = CASE proc % 2 WHEN 0 THEN 'ann' ELSE 'Bob' END, status = 4,"
            " completed = ? - 60 * (? - proc), changes = json_set(changes, '$.Owner',"
            " CASE proc % 2 WHEN 0 THEN 'ann' ELSE 'Bob' END, '$.CompletionDate', ? - 60 * (? - proc))",
            (NOW, count - 1, NOW, count - 1),
        )
    return cluster


def asked(constraint: str = "", *owners: str, **fields: Any) -> dict[str, Any]:
    query = schedd_pb2.HistoryQuery(**fields)
    query.query.constraint = constraint
    return {"query": query.query, "jobs": schedd_pb2.JobSelection(owners=owners), **fields}


async def test_conditions_on_columns_find_the_same_jobs(
    schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    await some_past(schedd)
    questions = [
        asked('Owner == "bob"'),
        asked('Owner =?= "bob"'),
        asked('Owner == "ANN" && CompletionDate > 1799999000'),
        asked("CompletionDate >= 1799999880 && CompletionDate < 1800000000"),
        asked("CompletionDate == 1799999940 && ProcId == 38"),
        asked("", "ann"),
        asked("", "ann", completed_since=NOW - 300),
        asked("", "ann", "Bob", forwards=True),
        asked("JobStatus == 3"),
        asked("ProcId % 7 == 0 && JobStatus == 4"),
    ]
    found = [[ad["ProcId"] for ad in await schedd.history(**question)] for question in questions]
    assert [len(procs) for procs in found] == [20, 0, 8, 2, 1, 20, 3, 40, 0, 6]
    monkeypatch.setattr(history, "bounds_of", lambda constraint, now: bounds.Bounds())
    assert [[ad["ProcId"] for ad in await schedd.history(**question)] for question in questions] == found


async def test_reading_stops_at_a_job_that_is_not_asked_for(schedd: RunningAccessPoint) -> None:
    """As in HTCondor, where -since and -scanlimit count what is read and not what is shown."""
    cluster = await some_past(schedd)
    assert [ad["ProcId"] for ad in await schedd.history(**asked("", "Bob", since=f"{cluster}.34"))] == [39, 37, 35]
    assert [ad["ProcId"] for ad in await schedd.history(**asked("", "ann", scan_limit=3))] == [38]
    assert [ad["ProcId"] for ad in await schedd.history(**asked('Owner == "ann"', scan_limit=4))] == [38, 36]


async def test_a_question_by_time_reads_few_rows(schedd: RunningAccessPoint) -> None:
    await some_past(schedd)
    path = schedd.point.store.path
    with contextlib.closing(sqlite3.connect(path)) as database:
        for constraint in (
            "CompletionDate > 5",
            'Owner == "ann"',
            'Owner == "ann" && CompletionDate > 5',
            "ClusterId == 1",
        ):
            where, values = history._where(HistoryQuery(), bounds.bounds_of(constraint, NOW), database)
            plan = database.execute(f"EXPLAIN QUERY PLAN SELECT * FROM history {where} ORDER BY seq DESC", values)
            steps = [step[3] for step in plan]
            assert any(step.startswith("SEARCH history") for step in steps), (constraint, steps)


async def test_old_jobs_are_forgotten_in_slices(schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "_SLICE", 7)
    old = await some_past(schedd)
    kept = await schedd.submit(1)
    point = schedd.point
    commits = point.store.commits
    assert await prune(point.store, NOW - 60 * 9, point._threads) == 30
    assert point.store.commits - commits >= 5
    assert sorted(ad["ProcId"] for ad in await schedd.history()) == list(range(30, 40))
    assert await prune(point.store, NOW + 1, point._threads) == 9, "the newest row stays"
    with contextlib.closing(sqlite3.connect(point.store.path)) as database:
        assert [row for (row,) in database.execute("SELECT cluster FROM clusters")] == [old, kept]
    await schedd.act("REMOVE", f"ClusterId == {kept}")
    await schedd.until_gone()
    assert await prune(point.store, NOW + 1, point._threads) == 1
    with contextlib.closing(sqlite3.connect(point.store.path)) as database:
        assert [row for (row,) in database.execute("SELECT cluster FROM clusters")] == [kept]
    assert [ad["ClusterId"] for ad in await schedd.history()] == [kept]


async def test_without_a_bound_nothing_is_forgotten(
    schedd: RunningAccessPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SLOTWISE_HISTORY_DAYS = 0, the default."""
    monkeypatch.setattr("slotwise.schedd.app._TIDY_S", 0.01)
    await some_past(schedd, 3)
    commits = schedd.point.store.commits
    tidying = tasks.keep("pruning the history", schedd.point._tidy)

    async def tidied() -> bool:
        return schedd.point.store.commits > commits + 3

    await schedd.until(tidied)
    await tasks.end(tidying)
    assert len(await schedd.history()) == 3
