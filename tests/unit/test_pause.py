"""Waits whose length is a knob."""

from __future__ import annotations

import asyncio
import math

from slotwise.daemon.pause import pause, reconsider

from tests.support.waiting import LIMIT_S


async def test_a_new_length_counts_at_once() -> None:
    length_s = math.inf
    waiting = asyncio.ensure_future(pause(lambda: length_s))
    other = asyncio.ensure_future(pause(lambda: 100_000.0))
    for _ in range(3):
        await asyncio.sleep(0)
        reconsider()
        assert not waiting.done()
    length_s = 0.0
    reconsider()
    await asyncio.wait_for(waiting, LIMIT_S)
    assert not other.done()
    other.cancel()


async def test_what_has_passed_is_part_of_a_shorter_wait() -> None:
    loop = asyncio.get_running_loop()
    began, length_s = loop.time(), 100_000.0
    waiting = asyncio.ensure_future(pause(lambda: length_s))
    await asyncio.sleep(0.02)
    length_s = 0.01
    reconsider()
    await asyncio.wait_for(waiting, LIMIT_S)
    assert loop.time() - began >= 0.02


async def test_others_have_their_turn_in_a_wait_of_no_length() -> None:
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await pause(lambda: 0.0)
    assert turns == [1]
