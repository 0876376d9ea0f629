"""Frames of streams: messages that wait at the same moment travel together, the others in the ``more`` of the first.

A frame is bounded, so that no number of messages makes one that the receiver refuses, or that keeps it busy for long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from slotwise.wire.sizes import PIECE

M = TypeVar("M")

#: Messages in one frame at most.
FRAME_COUNT = 256
#: Bytes that may wait for one stream: a sender of pieces of files waits while there are more.
WINDOW = 8 * 1024 * 1024


def take_frame(
    waiting: deque[tuple[M, int]],
    *,
    most: int = PIECE,
    count: int = FRAME_COUNT,
    alone: Callable[[M], bool] | None = None,
) -> tuple[list[M], int]:
    """Take the messages of the next frame from the front of those that wait; returns them and their weight.

    :param waiting: messages with their weights in bytes, in order; at least one.
    :param most: what the messages of a frame weigh together, unless one alone weighs more: that one travels alone.
    :param count: how many messages a frame holds.
    :param alone: whether a message shares its frame with no other.
    """
    first, weight = waiting.popleft()
    taken = [first]
    if alone is not None and alone(first):
        return taken, weight
    while waiting and len(taken) < count:
        message, more = waiting[0]
        if weight + more > most or (alone is not None and alone(message)):
            break
        waiting.popleft()
        weight += more
        taken.append(message)
    return taken, weight


def bundled(messages: list[M]) -> M:
    """One message that carries the others; :func:`unbundled` undoes it."""
    first: Any = messages[0]  # a message that has `more`: what is generated has no type for these in common
    if len(messages) > 1:
        first.more.extend(messages[1:])
    return messages[0]


def unbundled(frame: M) -> list[M]:
    """The messages of a frame in order: itself, if it says something, then those it carries."""
    carrier: Any = frame  # as above
    if not carrier.more:
        return [frame]
    messages = list(carrier.more)
    del carrier.more[:]
    return [frame, *messages] if carrier.WhichOneof("what") else messages


def encoded_size(message: Any) -> int:  # a message: queues carry other things, too, with a weight of their own
    """The bytes of a message on the wire."""
    return int(message.ByteSize())


class SendQueue(Generic[M]):
    """Messages for one stream, in order, gathered into frames. For one event loop, with one reader of frames.

    :param weigh: about how many bytes a message has.
    :param window: bytes that may wait before :meth:`put_piece` waits.
    :param alone: as in :func:`take_frame`.
    """

    def __init__(
        self,
        weigh: Callable[[M], int] = encoded_size,
        *,
        window: int = WINDOW,
        alone: Callable[[M], bool] | None = None,
    ) -> None:
        self._weigh = weigh
        self._window = window
        self._alone = alone
        self._waiting: deque[tuple[M, int]] = deque()
        #: Bytes that wait, those of the frame that was taken last included: it is being written.
        self._weight = 0
        self._writing = 0
        self._stir = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        #: Nothing more is taken in.
        self.ended = False

    def __len__(self) -> int:
        return len(self._waiting)

    def waiting(self) -> Iterator[M]:
        """The messages that are in no frame yet."""
        return (message for message, _ in self._waiting)

    def put(self, message: M) -> None:
        """Queue a message; it is dropped if the queue has ended."""
        if self.ended:
            return
        weight = self._weigh(message)
        self._waiting.append((message, weight))
        self._weight += weight
        if self._weight > self._window:
            self._room.clear()
        self._stir.set()

    async def put_piece(self, message: M) -> bool:
        """Queue something large, once less than the window waits; False when the queue has ended meanwhile."""
        while not self._room.is_set():
            await self._room.wait()
        if self.ended:
            return False
        self.put(message)
        return True

    async def frame(self) -> M | None:
        """Wait for the next frame; the one before has been written. None when the queue has ended and is empty."""
        self._weight -= self._writing
        self._writing = 0
        if self._weight <= self._window:
            self._room.set()
        while not self._waiting:
            if self.ended:
                return None
            self._stir.clear()
            await self._stir.wait()
            await asyncio.sleep(0)  # what else is said in this turn goes into the same frame
        messages, self._writing = take_frame(self._waiting, alone=self._alone)
        return bundled(messages)

    def end(self) -> None:
        """Take nothing more; what waits still goes out. Nobody waits for room any more."""
        self.ended = True
        self._room.set()
        self._stir.set()
