"""Frames of streams: messages that wait together travel together, in order, within their bounds."""

from __future__ import annotations

import asyncio
from collections import deque

from hypothesis import given
from hypothesis import strategies as st
from slotwise.wire.frames import SendQueue, bundled, take_frame, unbundled
from slotwise.wire.gen import startd_pb2

REQUESTS = st.lists(
    st.builds(
        lambda claim, what: startd_pb2.ClaimRequest(claim_id=claim, **what),
        st.text("ab", max_size=3),
        st.sampled_from([{"release": startd_pb2.ReleaseClaim()}, {"keep_alive": startd_pb2.KeepAlive()}]),
    ),
    min_size=1,
    max_size=20,
)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.booleans()), min_size=1, max_size=40),
    st.integers(1, 200),
    st.integers(1, 10),
)
def test_frames_have_all_messages_in_order_and_as_many_as_fit(
    sizes: list[tuple[int, bool]], most: int, count: int
) -> None:
    waiting = deque(((number, lonely), size) for number, (size, lonely) in enumerate(sizes))
    frames = []
    while waiting:
        taken, weight = take_frame(waiting, most=most, count=count, alone=lambda message: message[1])
        assert weight == sum(sizes[number][0] for number, _ in taken)
        assert weight <= most or len(taken) == 1
        assert len(taken) == 1 or (len(taken) <= count and not any(lonely for _, lonely in taken))
        if waiting and not taken[-1][1]:
            (_, lonely), size = waiting[0]
            assert lonely or len(taken) == count or weight + size > most, "there was room for another one"
        frames.append(taken)
    assert [number for frame in frames for number, _ in frame] == list(range(len(sizes)))


@given(REQUESTS)
def test_what_is_bundled_is_unbundled_to_the_same_messages(requests: list[startd_pb2.ClaimRequest]) -> None:
    said = [request.SerializeToString() for request in requests]
    frame = startd_pb2.ClaimRequest.FromString(bundled(requests).SerializeToString())
    assert [message.SerializeToString() for message in unbundled(frame)] == said


def test_a_frame_that_says_nothing_itself_is_what_it_carries() -> None:
    carried = startd_pb2.ClaimRequest(claim_id="a", release=startd_pb2.ReleaseClaim())
    assert unbundled(startd_pb2.ClaimRequest(more=[carried])) == [carried]


def request(name: str) -> startd_pb2.ClaimRequest:
    """A message of three bytes more than its name."""
    return startd_pb2.ClaimRequest(claim_id=name)


async def test_a_sender_of_pieces_waits_until_frames_that_fill_the_window_are_written() -> None:
    queue: SendQueue[startd_pb2.ClaimRequest] = SendQueue(lambda message: len(message.claim_id), window=8)
    assert await queue.put_piece(request("12345"))
    assert await queue.put_piece(request("67890"))
    third = asyncio.ensure_future(queue.put_piece(request("more")))
    frame = await queue.frame()
    assert frame is not None
    assert [message.claim_id for message in (frame, *frame.more)] == ["12345", "67890"]
    await asyncio.sleep(0)
    assert not third.done(), "the first frame is still being written"
    next_frame = asyncio.ensure_future(queue.frame())
    assert await third
    assert await next_frame == request("more")


async def test_the_end_of_a_queue_lets_what_waits_out_and_nothing_more_in() -> None:
    queue: SendQueue[startd_pb2.ClaimRequest] = SendQueue(lambda message: len(message.claim_id), window=2)
    queue.put(request("abc"))
    piece = asyncio.ensure_future(queue.put_piece(request("late")))
    await asyncio.sleep(0)
    queue.end()
    queue.put(request("later"))
    assert not await piece
    assert await queue.frame() == request("abc")
    assert await queue.frame() is None
