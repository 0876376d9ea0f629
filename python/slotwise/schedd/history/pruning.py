"""Removes old jobs from the history (SLOTWISE_HISTORY_DAYS), a slice at a time.

Commits of the queue go through the same writer: each slice blocks it briefly, and is followed by a longer pause. The
rows to remove are looked up in a worker thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from slotwise.schedd.storage.batch import UNUSED_CLUSTER, Batch
from slotwise.schedd.storage.store import Store

#: Rows of a slice, the pause after it as a multiple of its duration, and the least pause in seconds.
_SLICE, _REST, _REST_S = 500, 4.0, 0.02
#: The newest row stays, so that its number is not used again: readers continue by it.
_OLD = (
    "SELECT seq FROM history INDEXED BY history_completed"
    " WHERE completed < ? AND seq < (SELECT max(seq) FROM history) ORDER BY completed LIMIT ?"
)
_UNUSED = f"SELECT cluster FROM clusters WHERE cluster > ? AND {UNUSED_CLUSTER} ORDER BY cluster LIMIT ?"


async def prune(store: Store, before: int, threads: Executor) -> int:
    """Remove jobs that left before ``before`` (epoch seconds), and unused clusters; returns the number of jobs."""
    count = 0
    while seqs := await _found(store, threads, _OLD, before):
        await _forget(store, partial(Batch.forget_past, seqs=seqs))
        count += len(seqs)
    last = 0
    while clusters := await _found(store, threads, _UNUSED, last):
        await _forget(store, partial(Batch.forget_clusters, clusters=clusters))
        last = clusters[-1]
    return count


async def _found(store: Store, threads: Executor, sql: str, value: int) -> list[int]:
    def look() -> list[int]:
        with contextlib.closing(store.reader()) as connection:
            return [number for (number,) in connection.execute(sql, (value, _SLICE))]

    return await asyncio.get_running_loop().run_in_executor(threads, look)


async def _forget(store: Store, put: Callable[[Batch], None]) -> None:
    batch = Batch()
    put(batch)
    began = time.perf_counter()
    await store.commit(batch)
    await asyncio.sleep(max(_REST_S, _REST * (time.perf_counter() - began)))
