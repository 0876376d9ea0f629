"""The starter's streams to shadows: one per schedd, many runs on each, opened again after a break.

The first message of a stream lists all runs for that schedd; then each run says hello. While a stream is broken, runs
go on; what they want to say waits in their state and is said again when the shadow accepts them anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import grpc

from slotwise.daemon.containment import contained
from slotwise.errors import DeniedError
from slotwise.ids import doing_for_run
from slotwise.wire.channel import open_async, uses_tls
from slotwise.wire.credential import Metadata, TokenCredential
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.run_tokens import for_stream
from slotwise.wire.tls import is_loopback

_log = logging.getLogger(__name__)

#: Data in one frame, bytes.
_FRAME = 1024 * 1024
#: Data that may wait for one stream, bytes: whoever sends more waits.
_WINDOW = 8 * 1024 * 1024
_BACKOFF_S = (0.05, 0.2, 0.5, 1.0, 2.0)
#: A stream without runs is closed after this long, seconds.
_IDLE_S = 120.0


class LinkedRun(Protocol):
    """What the link needs of a run."""

    run_id: str
    token: str

    def hello(self) -> schedd_pb2.RunHello | None:
        """The greeting on a new stream; None when the run has nothing to say there any more."""
        ...

    def hear(self, message: schedd_pb2.ShadowMessage) -> None:
        """The shadow said something about this run."""
        ...

    def link_lost(self) -> None:
        """The stream broke."""
        ...

    def fail(self, error: BaseException) -> None:
        """Something about this run could not be processed: it ends."""
        ...


class ShadowLink:
    """The stream to the shadows of one schedd."""

    def __init__(
        self,
        address: str,
        own_address: str,
        on_idle: Callable[[ShadowLink], None],
    ) -> None:
        self.address = address
        self._own_address = own_address
        self._streams = 0
        self._on_idle = on_idle
        self.runs: dict[str, LinkedRun] = {}
        self.connected = False
        self._wanted = True
        self._out: asyncio.Queue[schedd_pb2.StarterMessage] = asyncio.Queue()
        self._waiting = 0
        self._room = asyncio.Event()
        self._room.set()
        self._task = asyncio.get_running_loop().create_task(self._keep_open())

    @property
    def private(self) -> bool:
        """Nobody reads along: it is encrypted, or does not leave this machine."""
        return self.address.startswith("unix:") or uses_tls() or is_loopback(self.address.rpartition(":")[0])

    # ---- for runs

    def add(self, run: LinkedRun) -> None:
        """A run joins; it says hello at once if the stream is open."""
        self.runs[run.run_id] = run
        if self.connected:
            self._greet(run)

    def drop(self, run_id: str) -> None:
        """A run is over, as far as the shadow is concerned."""
        self.runs.pop(run_id, None)

    def send(self, message: schedd_pb2.StarterMessage) -> None:
        """Say something. While the stream is broken it is dropped: the run says it again when accepted anew."""
        if self.connected:
            self._out.put_nowait(message)

    async def send_piece(self, message: schedd_pb2.StarterMessage) -> bool:
        """Say something large, waiting while much is on its way; False when the stream broke meanwhile."""
        while self.connected and not self._room.is_set():
            await self._room.wait()
        if not self.connected:
            return False
        self._waiting += _weight(message)
        if self._waiting > _WINDOW:
            self._room.clear()
        self._out.put_nowait(message)
        return True

    async def close(self) -> None:
        """End the stream; runs are not told."""
        self._wanted = False  # a stream that breaks at this moment may swallow the cancellation
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    # ---- the stream

    def _greet(self, run: LinkedRun) -> None:
        def end(error: Exception) -> None:
            run.fail(error)
            self._hello(run)  # its end is still to be told

        with contained(_log, doing_for_run(run.run_id, "greeting its shadow"), end):
            self._hello(run)

    def _hello(self, run: LinkedRun) -> None:
        hello = run.hello()
        if hello is not None:
            hello.starter_address = self._own_address
            self._out.put_nowait(schedd_pb2.StarterMessage(run_id=run.run_id, hello=hello))

    async def _keep_open(self) -> None:
        attempt = 0
        async with open_async(self.address) as channel:
            stub = schedd_pb2_grpc.ScheddStub(channel)
            while True:
                try:
                    await self._converse(stub)
                    attempt = 0
                except grpc.RpcError as error:
                    if attempt == 0:
                        _log.info("lost the connection to the shadow at %s: %s", self.address, _text(error))
                except Exception:
                    _log.exception("error in the connection to the shadow at %s", self.address)
                finally:
                    self._lost()
                if not self._wanted:
                    return
                if not self.runs:
                    self._on_idle(self)
                    return
                await asyncio.sleep(_BACKOFF_S[min(attempt, len(_BACKOFF_S) - 1)])
                attempt += 1

    def _shown(self) -> Metadata:
        """The token of one of the runs, each time another one's: all are of the same schedd, if it says the truth."""
        runs = list(self.runs.values())
        if not runs:
            return ()
        self._streams += 1
        try:
            return TokenCredential(for_stream(runs[self._streams % len(runs)].token)).metadata(self.address)
        except DeniedError as error:
            _log.warning("%s", error)
            return ()

    async def _converse(self, stub: Any) -> None:
        self._out = asyncio.Queue()
        call = stub.Shadow(metadata=self._shown())
        self.connected = True
        mine = schedd_pb2.RunList(run_ids=list(self.runs), starter_address=self._own_address)
        self._out.put_nowait(schedd_pb2.StarterMessage(runs=mine))
        for run in list(self.runs.values()):
            self._greet(run)
        # Not an iterator of requests: gRPC forgets its reader when the stream breaks, and that is told in the log.
        writer = asyncio.get_running_loop().create_task(self._write(call))
        try:
            while True:
                frame = await self._read(call)
                if frame is None:
                    return  # nobody has anything to say
                if frame is grpc.aio.EOF:
                    # The status of the call says why; an orderly end is a break as well.
                    return
                for message in _messages(frame):
                    known = self.runs.get(message.run_id)
                    if known is not None:
                        with contained(
                            _log, doing_for_run(known.run_id, "processing a message of the shadow"), known.fail
                        ):
                            known.hear(message)
        finally:
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError):
                await writer
            call.cancel()

    async def _read(self, call: Any) -> Any:
        """The next frame; None when there has been no run for long. A run that joins keeps the stream open."""
        if self.runs:
            return await call.read()
        reading = asyncio.ensure_future(call.read())
        try:
            while not (await asyncio.wait({reading}, timeout=_IDLE_S))[0]:
                if not self.runs:
                    return None
            return reading.result()
        finally:
            reading.cancel()

    async def _write(self, call: Any) -> None:
        queue = self._out
        while True:
            first = await queue.get()
            await asyncio.sleep(0)  # what else is said in this turn goes into the same frame
            size = _weight(first)
            while size < _FRAME and not queue.empty():
                following = queue.get_nowait()
                size += _weight(following)
                first.more.append(following)
            await call.write(first)
            self._waiting = max(0, self._waiting - size)
            if self._waiting <= _WINDOW:
                self._room.set()

    def _lost(self) -> None:
        if not self.connected:
            return
        self.connected = False
        self._waiting = 0
        self._room.set()
        for run in list(self.runs.values()):
            with contained(_log, doing_for_run(run.run_id, "the break of its stream"), run.fail):
                run.link_lost()


def _messages(frame: schedd_pb2.ShadowMessage) -> Iterable[schedd_pb2.ShadowMessage]:
    """The messages of a frame in order."""
    if frame.WhichOneof("what"):
        yield frame
    yield from frame.more


def _weight(message: schedd_pb2.StarterMessage) -> int:
    """Bytes of files in a message."""
    return len(message.output.data) + len(message.stream.data) + len(message.io.data)


def _text(error: grpc.RpcError) -> str:
    details = getattr(error, "details", None)
    return str(details() if callable(details) else error)
