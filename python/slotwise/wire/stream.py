"""A stream to another daemon that opens itself again after a break.

:class:`ReconnectingStream` has what all such streams share: connecting, the wait between attempts, reading and writing
at the same time, the end, and the log, which has one line for a break and one for the return, not one for each attempt.
:class:`BundledStream` adds messages that go both ways in frames (:mod:`slotwise.wire.frames`). Derived classes say what
goes first on a new stream, what becomes of messages, what is repeated after a break, and when to give up.
"""

from __future__ import annotations

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Generic, TypeVar

import grpc

from slotwise.backoff import Backoff
from slotwise.errors import SlotwiseError
from slotwise.wire import channel
from slotwise.wire.frames import SendQueue, encoded_size, unbundled

_log = logging.getLogger(__name__)

#: The waits between attempts to reach another daemon.
RECONNECT = Backoff(first_s=0.05, factor=2.0, most_s=2.0, jitter=0.25)
#: After how many failed attempts in a row people are warned that a central daemon does not answer. A pool that comes up
#: has its collector last, or nearly so: these attempts take four seconds and more.
WARN_AFTER = 8

Sent = TypeVar("Sent")
Heard = TypeVar("Heard")


class ReconnectingStream(ABC, Generic[Heard]):
    """One call of a streaming method at another daemon, made again whenever it ends, for as long as it is wanted.

    :param peer: the other side in words, for the log: ``"the startd at 10.0.0.7:9618"``.
    :param warn_after: how many failed attempts in a row are worth a warning; 0: none are.
    :param pause: waits that many seconds between two attempts.
    :param chance: a random number, 0 to 1, for each wait.
    """

    def __init__(
        self,
        peer: str,
        *,
        warn_after: int = 0,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.peer = peer
        self._warn_after = warn_after
        self._pause = pause
        self._chance = chance
        self._task: asyncio.Task[None] | None = None
        self._call: grpc.aio.Call | None = None
        self._wanted = True
        #: Attempts that failed since something was heard.
        self._failures = 0
        self._heard = False

    # ---- for derived classes

    @abstractmethod
    async def target(self) -> str:
        """Where the other side answers now; asked before each attempt.

        :raises SlotwiseError: when it answers nowhere; this counts as a failed attempt.
        """

    @abstractmethod
    def call(self, opened: grpc.aio.Channel, target: str) -> grpc.aio.Call:
        """Call the method, which streams at least its replies."""

    @abstractmethod
    def received(self, frame: Heard) -> None:
        """The other side said something. An exception ends the call, and another one is made."""

    async def write(self, call: grpc.aio.Call) -> None:
        """Write to the call until it ends. A stream that only listens has nothing to write."""

    def broke(self, why: str) -> None:
        """The call has ended, or could not be made."""

    def wanted(self) -> bool:
        """Whether to call again after a break."""
        return True

    def given_up(self) -> None:
        """There will be no other call, since :meth:`wanted` or :meth:`stop_soon` says so."""

    # ---- life

    @property
    def running(self) -> bool:
        """Whether it is open, or tries to be."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin to connect."""
        if self._task is None:
            self._wanted = True
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"stream to {self.peer}")

    def stop_soon(self) -> None:
        """Make no other call; for use inside of :meth:`broke`."""
        self._wanted = False

    def hang_up(self) -> None:
        """End the call; another one is made if :meth:`wanted` says so."""
        if self._call is not None:
            self._call.cancel()

    async def close(self) -> None:
        """End the call, and make no other; it can be started again."""
        self._wanted = False  # a call that breaks at this moment may swallow the cancellation
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while self._wanted:
            self._heard = False
            why = await self._attempt()
            self._failures += 1
            self._log_break(why)
            try:
                self.broke(why)
            except Exception:
                _log.exception("error after the break of the stream to %s", self.peer)
            if not self._wanted or not self.wanted():
                break
            await self._pause(RECONNECT.delay_s(self._failures, self._chance()))
        self.given_up()

    async def _attempt(self) -> str:
        """Make one call and hold it to its end; returns why it ended."""
        try:
            target = await self.target()
            async with channel.open_async(target) as opened:
                await self._converse(self.call(opened, target))
        except (grpc.RpcError, SlotwiseError, OSError) as error:
            return reason_of(error)
        except Exception as error:
            _log.exception("error in the stream to %s", self.peer)
            return reason_of(error)
        return "the stream has ended"

    async def _converse(self, call: grpc.aio.Call) -> None:
        # Not an iterator of requests: gRPC forgets its reader when the stream breaks, and logs that.
        self._call = call
        loop = asyncio.get_running_loop()
        reader, writer = loop.create_task(self._read(call)), loop.create_task(self._write(call))
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            if not reader.done() and (writer.cancelled() or writer.exception() is None):
                await asyncio.wait({reader})
        finally:
            reader.cancel()
            writer.cancel()
            call.cancel()
            self._call = None
            ends = await asyncio.gather(reader, writer, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _read(self, call: grpc.aio.Call) -> None:
        while (frame := await call.read()) is not grpc.aio.EOF:
            self.received(frame)
            if not self._heard:  # an answer that cannot be taken is as good as none
                self._heard = True
                self._log_return()
                self._failures = 0

    async def _write(self, call: grpc.aio.Call) -> None:
        try:
            await self.write(call)
        except (grpc.RpcError, asyncio.InvalidStateError):
            return  # the call has ended; its reader gets the reason

    # ---- log

    def _log_break(self, why: str) -> None:
        if self._heard:
            _log.info("lost the connection to %s: %s", self.peer, why)
        elif self._failures == self._warn_after:
            _log.warning("no connection to %s after %d attempts: %s", self.peer, self._failures, why)
        else:
            _log.log(logging.INFO if self._failures == 1 else logging.DEBUG, "no connection to %s: %s", self.peer, why)

    def _log_return(self) -> None:
        if self._failures:
            _log.info("connected to %s", self.peer)


class BundledStream(ReconnectingStream[Heard], Generic[Sent, Heard]):
    """A stream of messages both ways, in bounded frames.

    The messages of :meth:`greeting` go first; others go out from :meth:`established` on.

    :param weigh: about how many bytes a message has.
    :param keep_unsent: messages wait for a stream while there is none; without it they are dropped, and those that
        wait when a stream breaks are, too.
    """

    def __init__(
        self,
        peer: str,
        *,
        weigh: Callable[[Sent], int] = encoded_size,
        keep_unsent: bool = False,
        warn_after: int = 0,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(peer, warn_after=warn_after, pause=pause, chance=chance)
        self._weigh = weigh
        self._keep_unsent = keep_unsent
        self._queue: SendQueue[Sent] = SendQueue(weigh)
        self._established = asyncio.Event()

    # ---- for derived classes

    def greeting(self) -> Iterable[Sent]:
        """What to say first on a new stream."""
        return ()

    @abstractmethod
    def take(self, messages: list[Heard]) -> None:
        """The other side said these, in one frame. An exception ends the stream, and another one is opened."""

    def lost(self, *, was_connected: bool) -> None:
        """The stream broke, or could not be opened."""

    # ---- for all

    @property
    def connected(self) -> bool:
        """Whether messages go out now."""
        return self._established.is_set()

    def established(self) -> None:
        """Both sides know enough of each other: messages go out from now on."""
        self._established.set()

    def send(self, message: Sent) -> None:
        """Say something, in order."""
        if self.connected or self._keep_unsent:
            self._queue.put(message)

    async def send_piece(self, message: Sent) -> bool:
        """Say something large, waiting while much is on its way; False without a stream, or when it broke meanwhile."""
        return self.connected and await self._queue.put_piece(message)

    def unsent(self) -> Iterator[Sent]:
        """Messages that are in no frame yet."""
        return self._queue.waiting()

    async def close(self) -> None:
        """End the stream, and open no other."""
        await super().close()
        self._disconnect()

    # ---- the stream

    def received(self, frame: Heard) -> None:
        """Take the messages of a frame."""
        self.take(unbundled(frame))

    async def write(self, call: grpc.aio.Call) -> None:
        """Write the greeting, then what is sent."""
        for message in self.greeting():
            await call.write(message)
        await self._established.wait()
        while (frame := await self._queue.frame()) is not None:
            await call.write(frame)

    def broke(self, why: str) -> None:
        """Drop what cannot be said any more."""
        was_connected = self._disconnect()
        self.lost(was_connected=was_connected)

    def _disconnect(self) -> bool:
        was_connected = self.connected
        self._established.clear()
        if not self._keep_unsent:
            self._queue.end()
            self._queue = SendQueue(self._weigh)
        return was_connected


def reason_of(error: BaseException) -> str:
    """Why a call failed, in the words of whoever ended it."""
    details = getattr(error, "details", None)
    return str(details() if callable(details) else error) or type(error).__name__
