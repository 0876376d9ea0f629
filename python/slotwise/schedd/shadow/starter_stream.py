"""The shadow's side of the one stream that a starter keeps for all its runs of this schedd."""

from __future__ import annotations

import asyncio
from typing import Any

from slotwise.wire import tls
from slotwise.wire.frames import next_frame
from slotwise.wire.gen import schedd_pb2

#: Bytes of input that may wait in memory for one stream.
_WINDOW = 8 * 1024 * 1024


class StarterStream:
    """What is to be said to one starter, gathered into frames."""

    def __init__(self, context: Any) -> None:
        self._context = context
        #: Nobody reads along: files that are to be encrypted may go over it.
        self.private = tls.is_private(context)
        self._out: asyncio.Queue[schedd_pb2.ShadowMessage] = asyncio.Queue()
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        #: The stream is over: nothing that is sent arrives.
        self.closed = False
        self.starter = ""
        self.runs: set[str] = set()

    def close(self) -> None:
        """The stream is over: nobody waits for room any more."""
        self.closed = True
        self._room.set()

    def send(self, message: schedd_pb2.ShadowMessage) -> None:
        """Say something, in order."""
        self._out.put_nowait(message)

    async def send_piece(self, message: schedd_pb2.ShadowMessage) -> None:
        """Say something large; waits while much is on its way."""
        await self._room.wait()
        if self.closed:
            return
        self._bytes += len(message.input.data)
        if self._bytes > _WINDOW:
            self._room.clear()
        self._out.put_nowait(message)

    async def write(self) -> None:
        """Write for ever; ends with the stream."""
        while True:
            frame, _ = await next_frame(self._out, _weight)
            size = sum(len(message.input.data) for message in (frame, *frame.more)) if self._bytes else 0
            await self._context.write(frame)
            self._bytes = max(0, self._bytes - size)
            if self._bytes <= _WINDOW:
                self._room.set()


def _weight(message: schedd_pb2.ShadowMessage) -> int:
    """About how many bytes a message is; pieces of files are not encoded to find out."""
    size = len(message.input.data)
    return size or message.ByteSize()
