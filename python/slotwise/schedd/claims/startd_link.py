"""One stream to one startd, over which all claims there are asked for, used and given back.

The link opens itself again after a break, for as long as it is wanted, and says with ``hello`` which claims it believes
to hold. What is said at the same moment travels in one frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import Any, Protocol

import grpc

from slotwise.daemon.containment import contained
from slotwise.errors import SlotwiseError
from slotwise.wire import channel
from slotwise.wire.claim_text import log_message
from slotwise.wire.credential import Credential
from slotwise.wire.frames import next_frame
from slotwise.wire.gen import startd_pb2, startd_pb2_grpc

_log = logging.getLogger(__name__)
_RETRY_FIRST_S = 0.1
_RETRY_MOST_S = 2.0


class LinkOwner(Protocol):
    """Who takes what a link brings."""

    def hello(self, startd: str) -> startd_pb2.ScheddHello:
        """What to say first on a new stream."""
        ...

    def on_event(self, startd: str, event: startd_pb2.ClaimEvent) -> None:
        """The startd said something."""
        ...

    def on_failure(self, startd: str, event: startd_pb2.ClaimEvent, error: Exception) -> None:
        """:meth:`on_event` has raised: end what the event is about."""
        ...

    def on_break(self, startd: str) -> None:
        """The stream broke; requests without an answer are lost."""
        ...


class StartdLink:
    """The stream to the startd at ``target``."""

    def __init__(self, target: str, owner: LinkOwner, credential: Credential) -> None:
        self.target = target
        self._owner = owner
        self._credential = credential
        self._out: asyncio.Queue[startd_pb2.ClaimRequest] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        #: Said hello and heard what is known: requests may go out.
        self.connected = False
        #: The stream that broke last had got as far as that.
        self.heard = False
        self._wanted = True

    def start(self) -> None:
        """Begin to connect."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"startd {self.target}")

    def send(self, request: startd_pb2.ClaimRequest) -> None:
        """Say something; it is lost if the stream breaks before."""
        self._out.put_nowait(request)
        log_message("to the startd at %s: %s", self.target, request)

    def stop_soon(self) -> None:
        """Stop, from inside the link's own work."""
        self._wanted = False

    async def close(self) -> None:
        """Stop."""
        self._wanted = False  # a stream that breaks at this moment may swallow the cancellation
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        wait_s = _RETRY_FIRST_S
        while self._wanted:
            async with channel.open_async(self.target) as opened:
                try:
                    stream = startd_pb2_grpc.StartdStub(opened).Claims(metadata=self._credential.metadata(self.target))
                    await self._talk(stream)
                    _log.info("the startd at %s closed the connection", self.target)
                except grpc.RpcError as error:
                    level = logging.INFO if self.connected else logging.DEBUG
                    _log.log(level, "no connection to the startd at %s: %s", self.target, _text(error))
                except Exception:
                    _log.exception("error in the connection to the startd at %s", self.target)
            if self.connected:
                wait_s = _RETRY_FIRST_S
            self.heard, self.connected = self.connected, False
            self._out = asyncio.Queue()
            with contained(_log, f"what follows the break of the stream to {self.target}"):
                self._owner.on_break(self.target)
            if not self._wanted:
                return
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 1.6, _RETRY_MOST_S)

    async def _talk(self, stream: Any) -> None:
        await stream.write(startd_pb2.ClaimRequest(hello=self._owner.hello(self.target)))
        writer = asyncio.get_running_loop().create_task(self._write(stream))
        try:
            while (frame := await stream.read()) is not grpc.aio.EOF:
                for event in unbundled(frame):
                    if event.WhichOneof("what") == "known":
                        self.connected = True
                    self._deliver(event)
        finally:
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError):
                await writer

    def _deliver(self, event: startd_pb2.ClaimEvent) -> None:
        """Hand the event over.

        :raises SlotwiseError: when the list of known claims cannot be compared: only a new stream brings another one.
        """
        log_message("from the startd at %s: %s", self.target, event)
        what = event.WhichOneof("what")
        recover = partial(self._owner.on_failure, self.target, event)
        with contained(_log, f"processing {what!r} of the startd at {self.target}", recover) as attempt:
            self._owner.on_event(self.target, event)
        if attempt.failed and what == "known":
            raise SlotwiseError("the claims that the startd knows could not be compared with those held")

    async def _write(self, stream: Any) -> None:
        while True:
            frame, _ = await next_frame(self._out)
            await stream.write(frame)


def unbundled(frame: Any) -> list[Any]:
    """The messages of a frame in order: itself, if it says something, then those it carries."""
    if not frame.more:
        return [frame]
    messages = list(frame.more)
    del frame.more[:]
    return ([frame] if frame.WhichOneof("what") else []) + messages


def _text(error: grpc.RpcError) -> str:
    details = getattr(error, "details", None)
    return str(details() if callable(details) else error)
