"""Streams that open themselves again, over real gRPC; the waits between attempts pass when the test says so."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import pytest
from slotwise.wire import socket_path
from slotwise.wire.frames import FRAME_COUNT
from slotwise.wire.gen import startd_pb2, startd_pb2_grpc
from slotwise.wire.sizes import PIECE
from slotwise.wire.stream import RECONNECT, BundledStream

from tests.support.waiting import LIMIT_S, until

Request: TypeAlias = startd_pb2.ClaimRequest
Event: TypeAlias = startd_pb2.ClaimEvent


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the product logged: asyncio logs, in whichever test runs, that gRPC had an event for a loop of an earlier
    test that is closed."""
    return [record for record in caplog.records if record.name.startswith("slotwise")]


class Waits:
    """Stands in for the clock between attempts: a wait ends when the test passes it."""

    def __init__(self) -> None:
        self.lengths: list[float] = []
        self._passed = asyncio.Semaphore(0)

    async def __call__(self, seconds: float) -> None:
        """Wait."""
        self.lengths.append(round(seconds, 6))
        await self._passed.acquire()

    def pass_one(self) -> bool:
        """Let one wait end; False, for conditions that do so until they hold."""
        self._passed.release()
        return False


class Stream(BundledStream[Request, Event]):
    """Says hello, is connected when it hears which claims are known, and keeps what it hears."""

    def __init__(self, target: str, waits: Callable[[float], Any], **options: Any) -> None:
        super().__init__("the test", pause=waits, chance=lambda: 0.0, **options)
        self._target = target
        self.greetings = 0
        self.events: list[str] = []
        self.breaks: list[bool] = []
        self.gave_up = False
        self.wants = True
        self.error: Exception | None = None
        self.greeting_error: Exception | None = None

    async def target(self) -> str:
        """Where the test listens."""
        return self._target

    def call(self, opened: grpc.aio.Channel, target: str) -> Any:
        """Claims."""
        return startd_pb2_grpc.StartdStub(opened).Claims()

    def greeting(self) -> list[Request]:
        """Hello."""
        if self.greeting_error is not None:
            raise self.greeting_error
        self.greetings += 1
        return [Request(hello=startd_pb2.ScheddHello(schedd_name="me"))]

    def take(self, messages: list[Event]) -> None:
        """Keep them."""
        for event in messages:
            if self.error is not None:
                raise self.error
            self.events.append(str(event.claim_id))
            if event.WhichOneof("what") == "known":
                self.established()

    def lost(self, *, was_connected: bool) -> None:
        """Count."""
        self.breaks.append(was_connected)

    def wanted(self) -> bool:
        """As the test says."""
        return self.wants

    def given_up(self) -> None:
        """Remember it."""
        self.gave_up = True


class Peer(startd_pb2_grpc.StartdServicer):
    """Answers hello and keeps frames. ``reads`` is cleared while it takes nothing more."""

    def __init__(self) -> None:
        self.frames: list[list[str]] = []
        self.sizes: list[int] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.say: asyncio.Queue[Event | None] = asyncio.Queue()

    @property
    def said(self) -> list[str]:
        """All that came, but for greetings."""
        return [name for frame in self.frames for name in frame if name]

    async def Claims(self, requests: Any, context: Any) -> Any:
        """One stream."""
        self.say = asyncio.Queue()
        self.say.put_nowait(Event(known=startd_pb2.ClaimsKnown()))
        reader = asyncio.get_running_loop().create_task(self._read(requests))
        try:
            while (event := await self.say.get()) is not None:
                yield event
        finally:
            reader.cancel()

    async def _read(self, requests: Any) -> None:
        async for frame in requests:
            self.sizes.append(frame.ByteSize())
            self.frames.append([message.claim_id for message in (frame, *frame.more)])
            await self.reads.wait()


@contextlib.asynccontextmanager
async def answering(target: str) -> AsyncIterator[Peer]:
    """A peer at ``target``."""
    peer, server = Peer(), grpc.aio.server()
    startd_pb2_grpc.add_StartdServicer_to_server(peer, server)
    server.add_insecure_port(socket_path.usable_target(target))
    await server.start()
    try:
        yield peer
    finally:
        await server.stop(0)


@contextlib.asynccontextmanager
async def opened(stream: Stream) -> AsyncIterator[Stream]:
    """The stream, started, and closed at the end."""
    stream.start()
    try:
        yield stream
    finally:
        await stream.close()


@pytest.fixture
def target(tmp_path: Path) -> str:
    """Where the peer answers when it does."""
    return f"unix:{tmp_path}/peer.sock"


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    """What the log has of streams."""
    return [r.getMessage() for r in caplog.records if r.name == "slotwise.wire.stream" and r.levelno >= level]


async def test_waits_grow_while_nobody_answers_and_begin_anew_after_a_break(target: str) -> None:
    waits = Waits()
    async with opened(Stream(target, waits)) as stream:
        for failed in range(1, 8):
            await until(lambda n=failed: len(waits.lengths) == n, "an attempt fails")
            if failed < 7:
                waits.pass_one()
        assert waits.lengths == [round(RECONNECT.delay_s(failed), 6) for failed in range(1, 8)]
        async with answering(target):
            waits.pass_one()
            await until(lambda: stream.connected, "it is connected")
        await until(lambda: len(waits.lengths) == 8, "it breaks")
        assert waits.lengths[-1] == RECONNECT.first_s
        assert stream.breaks == [False] * 7 + [True]


async def test_the_log_has_a_line_for_a_break_and_for_the_return_not_for_each_attempt(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    waits = Waits()
    async with opened(Stream(target, waits, warn_after=4)) as stream:
        async with answering(target):
            await until(lambda: stream.connected or (waits.lengths and waits.pass_one()), "it is connected")
        before = len(waits.lengths)
        for failed in range(1, 8):
            await until(lambda n=before + failed: len(waits.lengths) >= n, "an attempt fails")
            waits.pass_one()
        assert [line.partition(":")[0] for line in lines(caplog)] == [
            "lost the connection to the test",
            "no connection to the test after 4 attempts",
        ]
        assert len(lines(caplog, logging.WARNING)) == 1
        async with answering(target):
            await until(lambda: stream.connected or waits.pass_one(), "it is connected again")
            assert lines(caplog)[-1] == "connected to the test"


async def test_what_is_said_while_there_is_no_stream_waits_or_is_dropped(target: str) -> None:
    waits, other = Waits(), Waits()
    kept = Stream(target, waits, keep_unsent=True)
    async with opened(kept), opened(Stream(target, other)) as dropped:
        await until(lambda: waits.lengths and other.lengths, "nobody answers")
        kept.send(Request(claim_id="kept"))
        dropped.send(Request(claim_id="dropped"))
        async with answering(target) as peer:
            await until(lambda: kept.connected or waits.pass_one(), "one is connected")
            await until(lambda: dropped.connected or other.pass_one(), "the other is connected")
            dropped.send(Request(claim_id="later"))
            await until(lambda: len(peer.said) == 2, "messages come")
            assert sorted(peer.said) == ["kept", "later"]
            assert peer.frames.count([""]) == 2, "each said hello first"


async def test_messages_travel_in_order_in_frames_of_bounded_count_and_size(target: str) -> None:
    async with answering(target) as peer, opened(Stream(target, Waits())) as stream:
        await until(lambda: stream.connected, "it is connected")
        many = [f"{number}" for number in range(3 * FRAME_COUNT)]
        large = [f"{number}:{'x' * (PIECE // 5)}" for number in range(17)]
        for name in (*many, *large):
            stream.send(Request(claim_id=name))
        await until(lambda: len(peer.said) == len(many) + len(large), "all come")
        assert peer.said == [*many, *large]
        assert max(map(len, peer.frames)) == FRAME_COUNT
        assert max(peer.sizes) <= PIECE + 8 * FRAME_COUNT, "tags and lengths of what is carried come on top"
        assert len(peer.frames) <= 1 + 4 + 5


async def test_who_sends_pieces_waits_for_a_slow_peer_and_hears_of_the_break(target: str) -> None:
    async with opened(Stream(target, Waits())) as stream:
        assert not await stream.send_piece(Request(claim_id="nobody answers"))
        await stream.close()
    async with answering(target) as peer, opened(Stream(target, Waits())) as stream:
        await until(lambda: stream.connected, "it is connected")
        peer.reads.clear()
        sent = 0

        async def send_many() -> bool:
            nonlocal sent
            while await stream.send_piece(Request(claim_id="x" * PIECE)):
                sent += 1
            return True

        sender = asyncio.ensure_future(send_many())
        await until(lambda: sent >= 8, "the window fills")
        before = -1
        while sent != before:  # whatever gRPC itself takes in
            before = sent
            await asyncio.sleep(0.05)
        assert not sender.done()
        assert sent < 40
        peer.reads.set()
        await until(lambda: sent >= before + 8, "it goes on once the peer reads")
        peer.say.put_nowait(None)
        assert await asyncio.wait_for(sender, LIMIT_S), "the sender hears of the break"
        assert not stream.connected


@pytest.mark.parametrize("where", ["error", "greeting_error"])
async def test_an_exception_ends_the_stream_and_another_one_is_opened(
    target: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    waits = Waits()
    stream = Stream(target, waits)
    setattr(stream, where, ValueError("what is this?"))
    async with answering(target), opened(stream):
        await until(lambda: waits.lengths, "the stream ends")
        setattr(stream, where, None)
        waits.pass_one()
        await until(lambda: stream.connected, "another one is opened")
    assert [record.exc_info[0] for record in logged(caplog) if record.exc_info] == [ValueError]


async def test_a_stream_that_is_not_wanted_any_more_is_not_opened_again(target: str) -> None:
    waits = Waits()
    async with answering(target) as peer, opened(Stream(target, waits)) as stream:
        await until(lambda: stream.connected, "it is connected")
        stream.wants = False
        peer.say.put_nowait(None)
        await until(lambda: stream.gave_up, "it gives up")
        assert not stream.running
        assert waits.lengths == []


async def test_a_closed_stream_leaves_nothing_behind_and_can_be_started_again(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    stream = Stream(target, Waits())
    async with answering(target):
        for times in (1, 2):
            async with opened(stream):
                await until(lambda: stream.connected, "it is connected")
                assert stream.greetings == times
            assert not stream.connected
            assert not stream.running
            assert stream.breaks == [], "its owner has closed it, and knows"
    gc.collect()
    await asyncio.sleep(0)
    assert [record.getMessage() for record in logged(caplog)] == []
