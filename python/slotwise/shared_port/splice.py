"""Passes bytes on between two connections, both ways, until both sides have said all."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

#: Of one direction of a connection: when little is said, and while whole buffers are full, in bytes. Most connections
#: of a pool say little and last, so that what they hold counts.
_FIRST, _MOST = 4 * 1024, 256 * 1024


async def splice(one: socket.socket, other: socket.socket, passed: Callable[[int], None]) -> None:
    """Pass on what either says to the other, and tell ``passed`` how many bytes. An error of either ends both.

    The sockets do not block; they are the caller's to close.
    """
    async with asyncio.TaskGroup() as both:
        both.create_task(_pass_on(one, other, passed))
        both.create_task(_pass_on(other, one, passed))


async def _pass_on(reading: socket.socket, writing: socket.socket, passed: Callable[[int], None]) -> None:
    loop = asyncio.get_running_loop()
    buffer = memoryview(bytearray(_FIRST))
    while count := await loop.sock_recv_into(reading, buffer):
        await loop.sock_sendall(writing, buffer[:count])
        passed(count)
        if count == len(buffer) < _MOST:
            buffer = memoryview(bytearray(min(_MOST, 8 * len(buffer))))
        elif count <= _FIRST < len(buffer):
            buffer = memoryview(bytearray(_FIRST))
    with contextlib.suppress(OSError):
        writing.shutdown(socket.SHUT_WR)
