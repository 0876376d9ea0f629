"""Passes bytes on between two connections, both ways, until both sides have said all."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from msgspec import Struct, field

#: Of one direction of a connection: when little is said, and while whole buffers are full, in bytes. Most connections
#: of a pool say little and last, so that what they hold counts.
_FIRST, _MOST = 4 * 1024, 256 * 1024
#: How long a side may take nothing of what is said to it, and how long it may say nothing once the other has ended, in
#: seconds. gRPC reads whatever its application does. Who does not would keep a place here for good: that the other side
#: has closed the connection is not seen before all that it said is passed on.
_STALLED_S, _ALONE_S = 60.0, 60.0


class _Way(Struct, eq=False):
    """One direction: how many bytes were passed on, and whether that is all."""

    count: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)


async def splice(one: socket.socket, other: socket.socket, passed: Callable[[int], None]) -> None:
    """Pass on what either says to the other, and tell ``passed`` how many bytes. An error of either ends both.

    The sockets do not block; they are the caller's to close.

    :raises BaseExceptionGroup: of their errors; of a TimeoutError where a side is stalled.
    """
    there, back = _Way(), _Way()
    async with asyncio.TaskGroup() as both:
        both.create_task(_pass_on(one, other, passed, there, back))
        both.create_task(_pass_on(other, one, passed, back, there))


async def _pass_on(
    reading: socket.socket, writing: socket.socket, passed: Callable[[int], None], way: _Way, opposite: _Way
) -> None:
    loop = asyncio.get_running_loop()
    buffer = memoryview(bytearray(_FIRST))
    while count := await loop.sock_recv_into(reading, buffer):
        await _send(writing, buffer[:count])
        way.count += count
        passed(count)
        if count == len(buffer) < _MOST:
            buffer = memoryview(bytearray(min(_MOST, 8 * len(buffer))))
        elif count <= _FIRST < len(buffer):
            buffer = memoryview(bytearray(_FIRST))
    with contextlib.suppress(OSError):
        writing.shutdown(socket.SHUT_WR)
    way.over.set()
    while not opposite.over.is_set():
        before = opposite.count
        try:
            async with asyncio.timeout(_ALONE_S):
                await opposite.over.wait()
        except TimeoutError:
            if opposite.count == before:
                raise


async def _send(writing: socket.socket, data: memoryview) -> None:
    """Send all.

    :raises TimeoutError: when nothing of it is taken for a while.
    """
    while data:
        try:
            data = data[writing.send(data) :]
        except (BlockingIOError, InterruptedError):
            async with asyncio.timeout(_STALLED_S):
                await _writable(writing)


async def _writable(writing: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(writing, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(writing)
