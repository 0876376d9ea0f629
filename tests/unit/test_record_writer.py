"""Records that a thread writes."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from slotwise.daemon.record_writer import RecordWriter


async def test_records_of_a_moment_are_written_together_and_late_ones_all_the_same() -> None:
    written: list[list[int]] = []
    threads = ThreadPoolExecutor(1)
    writer = RecordWriter(written.append, "numbers", threads)
    for number in range(3):
        writer.add(number)
    await asyncio.sleep(0)
    writer.add(3)
    await writer.close()
    assert written == [[0, 1, 2], [3]]
    threads.shutdown()
    writer.add(4)
    assert written == [[0, 1, 2], [3], [4]]


async def test_what_cannot_be_written_costs_these_records_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    written: list[int] = []

    def write(records: list[int]) -> None:
        if 0 in records:
            raise OSError(28, "No space left on device")
        written.extend(records)

    writer = RecordWriter(write, "numbers")
    writer.add(0)
    await writer.close()
    writer.add(0)
    writer.add(1)
    assert written == [1]
    assert [r.getMessage() for r in caplog.records] == 2 * [
        "could not write numbers: [Errno 28] No space left on device"
    ]
