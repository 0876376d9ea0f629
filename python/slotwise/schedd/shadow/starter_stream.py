"""The shadow's side of the one stream that a starter keeps for all its runs of this schedd."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from slotwise.wire import tls
from slotwise.wire.context import StreamContext
from slotwise.wire.frames import SendQueue
from slotwise.wire.gen import schedd_pb2

#: The server's side of the call that a starter keeps open.
StarterCall: TypeAlias = StreamContext[schedd_pb2.StarterMessage, schedd_pb2.ShadowMessage]


class StarterStream:
    """What is to be said to one starter, gathered into frames."""

    def __init__(self, context: StarterCall) -> None:
        self._context = context
        #: Nobody reads along: files that are to be encrypted may go over it.
        self.private = tls.is_private(context)
        self._queue: SendQueue[schedd_pb2.ShadowMessage] = SendQueue(_weight)
        self.starter = ""
        self.runs: set[str] = set()
        #: The list of runs of a starter that another open stream claims to be as well, until a run's token proves it.
        self.unproven: list[str] | None = None
        #: Reading goes on within it.
        self.reading = asyncio.timeout(None)

    @property
    def closed(self) -> bool:
        """The stream is over: nothing that is sent arrives."""
        return self._queue.ended

    def close(self) -> None:
        """The stream is over: nobody waits for room any more."""
        self._queue.end()

    def replace(self) -> None:
        """Another stream of the starter has taken its place: nothing more is sent or read."""
        self.close()
        self.reading.reschedule(asyncio.get_running_loop().time())

    def send(self, message: schedd_pb2.ShadowMessage) -> None:
        """Say something, in order."""
        self._queue.put(message)

    async def send_piece(self, message: schedd_pb2.ShadowMessage) -> None:
        """Say something large; waits while much is on its way."""
        await self._queue.put_piece(message)

    async def write(self) -> None:
        """Write until the stream ends."""
        while (frame := await self._queue.frame()) is not None:
            await self._context.write(frame)


def _weight(message: schedd_pb2.ShadowMessage) -> int:
    """About how many bytes a message is; pieces of files are not encoded to find out."""
    size = len(message.input.data)
    return size or message.ByteSize()
