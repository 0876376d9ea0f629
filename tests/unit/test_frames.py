"""Frames of streams: what is sent together travels together, up to a bound."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from slotwise.wire.frames import next_frame
from slotwise.wire.gen import startd_pb2


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 200))
def test_frames_carry_all_messages_in_order_and_end_at_their_bound(sizes: list[int], most: int) -> None:
    async def framed() -> list[list[str]]:
        queue: asyncio.Queue[startd_pb2.ClaimRequest] = asyncio.Queue()
        for number, size in enumerate(sizes):
            queue.put_nowait(startd_pb2.ClaimRequest(claim_id=f"{number}:{'x' * size}"))
        frames = []
        while not queue.empty():
            frame, weight = await next_frame(queue, most=most)
            carried = [startd_pb2.ClaimRequest(claim_id=frame.claim_id), *frame.more]
            assert weight == sum(message.ByteSize() for message in carried)
            assert sum(message.ByteSize() for message in carried[:-1]) < most
            assert weight >= most or queue.empty()
            frames.append([message.claim_id for message in carried])
        return frames

    frames = asyncio.run(framed())
    assert [int(name.partition(":")[0]) for frame in frames for name in frame] == list(range(len(sizes)))
