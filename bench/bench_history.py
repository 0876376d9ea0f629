"""Questions to a long history: how long until the first and the last answer, and what pruning costs commits.

The rows are made directly in SQLite: ``--jobs`` of them (1 million; the full form is 10 million) in clusters of 100, of
``--users`` users in turn, one completed every second. Each question is asked of a running access point over its
socket, as ``slotwise history`` does, the first time with what the making left in the page cache.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from slotwise.classad import ClassAd
from slotwise.schedd.history.pruning import prune
from slotwise.schedd.jobs.values import encode
from slotwise.schedd.storage.batch import Batch
from slotwise.schedd.storage.store import Store
from slotwise.table import pack_ads
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint

_PROCS = 100
_END = 1_790_000_000
#: The first answer comes in this time, or the benchmark fails.
_INTERACTIVE_S = 1.0


def fill(path: Path, jobs: int, users: int) -> None:
    """Make the history."""
    store = Store(path, synchronous="OFF")
    store.open()
    store.close()
    ad = pack_ads(
        [ClassAd({"Cmd": "/bin/sleep", "Iwd": "/home/user", "Env": "A=1", "RequestCpus": 1, "JobUniverse": 5})]
    )
    common = encode({"Requirements": True, "CompletionDate": 0, "MyType": "Job", "Rank": 0.0})
    extra = encode({f"Usage{number}": number * 1.5 for number in range(25)})
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; PRAGMA cache_size=-400000")
        with database:
            database.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                " INSERT INTO clusters SELECT i, 'user' || (i % ?), ? + i * 100, 100, ?, json_patch(?,"
                " json_object('ClusterId', i, 'Owner', 'user' || (i % ?), 'QDate', ? + i * 100)) FROM n",
                (jobs // _PROCS, users, _END - jobs - 100, ad, common, users, _END - jobs - 100),
            )
            database.execute(
                "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ? - 1)"
                " INSERT INTO history (cluster, proc, owner, status, completed, changes)"
                " SELECT 1 + i / 100, i % 100, 'user' || ((1 + i / 100) % ?), 4, ? + i,"
                " '{\"CompletionDate\":' || (? + i) || ',' || substr(?, 2) FROM n",
                (jobs, users, _END - jobs, _END - jobs, extra),
            )
            database.execute("UPDATE meta SET value=-1 WHERE name='history file'")
            database.execute("INSERT OR REPLACE INTO meta VALUES ('next_cluster', ?)", (jobs // _PROCS + 2,))


def questions(jobs: int) -> dict[str, schedd_pb2.HistoryQuery]:
    """What is asked, by name."""
    found: dict[str, schedd_pb2.HistoryQuery] = {}

    def ask(name: str, constraint: str = "", limit: int = 0, **fields: Any) -> None:
        query = schedd_pb2.HistoryQuery(**fields)
        query.query.constraint, query.query.limit = constraint, limit
        query.query.projection.extend(["ClusterId", "ProcId", "Owner", "CompletionDate"])
        found[name] = query

    middle = _END - jobs // 2
    ask("the newest 20", limit=20)
    ask("one job by id", jobs=schedd_pb2.JobSelection(ids=[f"{jobs // 200}.7"]))
    ask("a user's newest 100", limit=100, jobs=schedd_pb2.JobSelection(owners=["user7"]))
    ask("a user's newest 100, by constraint", 'Owner == "USER7"', limit=100)
    ask("the last ten minutes", f"CompletionDate >= {_END - 600}")
    ask("ten minutes long ago", f"CompletionDate >= {middle} && CompletionDate < {middle + 600}")
    ask(
        "a user's jobs of a day long ago",
        f'Owner == "user7" && CompletionDate > {middle} && {middle + 86400} > CompletionDate',
    )
    ask("completed since an hour ago", completed_since=_END - 3600)
    return found


async def measured(point: RunningAccessPoint, query: schedd_pb2.HistoryQuery) -> tuple[float, float, int]:
    """Seconds to the first and the last answer, and how many jobs were told."""
    began, first, total = time.perf_counter(), 0.0, 0
    async for chunk in point.stub.History(query, metadata=point.daemon):
        first = first or time.perf_counter() - began
        total += chunk.total if chunk.done else 0
    return first, time.perf_counter() - began, total


async def pruned(point: RunningAccessPoint, jobs: int) -> tuple[float, float, int]:
    """Forget a twentieth of the history while the queue commits: seconds it took, the longest commit, jobs."""
    store, longest = point.point.store, 0.0
    task = asyncio.create_task(prune(store, _END - jobs + jobs // 20, point.point._threads))
    began = time.perf_counter()
    while not task.done():
        at = time.perf_counter()
        await store.commit(Batch())
        longest = max(longest, time.perf_counter() - at)
        await asyncio.sleep(0.005)
    return time.perf_counter() - began, longest, task.result()


async def main() -> None:
    """Make the history, ask, prune."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        point = RunningAccessPoint(Path(root) / "pool")
        began = time.perf_counter()
        fill(point.home.spool / "schedd.sqlite", options.jobs, options.users)
        size = (point.home.spool / "schedd.sqlite").stat().st_size / 1e9
        print(
            f"{options.jobs} jobs of {options.users} users, {size:.1f} GB, made in {time.perf_counter() - began:.0f} s"
        )
        began = time.perf_counter()
        await point.start(HISTORY="")
        print(f"{time.perf_counter() - began:8.2f} s  the access point starts")
        try:
            for name, query in questions(options.jobs).items():
                first, last, total = await measured(point, query)
                print(f"{first:8.3f} s  {last:8.3f} s  {total:7} jobs  {name}")
                if first > _INTERACTIVE_S or not total:
                    raise SystemExit(f"{name}: {total} jobs, the first after {first:.1f} s")
            took, longest, count = await pruned(point, options.jobs)
            print(f"{took:8.2f} s  {count} jobs forgotten; the longest commit meanwhile took {longest * 1e3:.0f} ms")
        finally:
            await point.stop()


if __name__ == "__main__":
    asyncio.run(main())
