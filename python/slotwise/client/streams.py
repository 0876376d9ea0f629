"""Submissions on one stream: what is ready at the same moment travels in one frame, answers come in order."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import grpc

from slotwise.errors import PeerUnavailableError
from slotwise.wire.gen import schedd_pb2
from slotwise.wire.status import error_of, to_error

#: Submissions in one frame at most.
FRAME = 64
_PEER = "the schedd"


def _reply(answer: schedd_pb2.SubmitAnswer) -> schedd_pb2.SubmitReply:
    if answer.error_code:
        raise error_of(answer.error_code, answer.error)
    return answer.reply


def _lost() -> PeerUnavailableError:
    return PeerUnavailableError(
        "the schedd ended the stream before it answered", hint="whether the jobs are queued, the queue shows"
    )


class BlockingStream:
    """For one thread at a time.

    :param gather_s: how long a submission waits for others that can go with it.
    """

    def __init__(self, stub: Any, metadata: Any, *, gather_s: float = 0.0) -> None:
        self._gather_s = gather_s
        self._out: queue.SimpleQueue[schedd_pb2.SubmitBundle | None] = queue.SimpleQueue()
        self._answers: deque[schedd_pb2.SubmitAnswer] = deque()
        self._call = stub.SubmitMany(self._frames(), metadata=metadata)

    @property
    def broken(self) -> bool:
        """Whether nothing more can be sent."""
        return not self._call.is_active()

    def send(self, bundle: schedd_pb2.SubmitBundle) -> None:
        """Send a submission; its answer is to be taken later."""
        self._out.put(bundle)

    def answer(self) -> schedd_pb2.SubmitReply:
        """The answer to the first submission that has none yet.

        :raises SlotwiseError: the schedd's refusal, or that it does not answer.
        """
        while not self._answers:
            try:
                self._answers.extend(next(self._call).answers)
            except grpc.RpcError as failure:
                raise to_error(failure, peer=_PEER) from None
            except StopIteration:
                raise _lost() from None
        return _reply(self._answers.popleft())

    def close(self) -> None:
        """Say that nothing more will come."""
        self._out.put(None)

    def _frames(self) -> Iterator[schedd_pb2.SubmitFrame]:
        """Run by gRPC in a thread of its own."""
        while (bundle := self._out.get()) is not None:
            frame = [bundle]
            if self._gather_s:
                time.sleep(self._gather_s)
            while len(frame) < FRAME and not self._out.empty():
                following = self._out.get()
                if following is None:
                    yield schedd_pb2.SubmitFrame(submissions=frame)
                    return
                frame.append(following)
            yield schedd_pb2.SubmitFrame(submissions=frame)


class AsyncStream:
    """For the tasks of one event loop; many may wait for their answers."""

    def __init__(self, stub: Any, metadata: Any) -> None:
        self._call = stub.SubmitMany(metadata=metadata)
        self._out: asyncio.Queue[schedd_pb2.SubmitBundle] = asyncio.Queue()
        self._waiting: deque[asyncio.Future[schedd_pb2.SubmitReply]] = deque()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._write()), loop.create_task(self._read())]
        self.broken = False

    async def submit(self, bundle: schedd_pb2.SubmitBundle) -> schedd_pb2.SubmitReply:
        """Queue one submission.

        :raises SlotwiseError: the schedd's refusal, or that it does not answer.
        """
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._out.put_nowait(bundle)
        reply: schedd_pb2.SubmitReply = await answer
        return reply

    async def close(self) -> None:
        """End the stream."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._call.cancel()

    async def _write(self) -> None:
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):  # the reader tells why
            while True:
                frame = [await self._out.get()]
                while len(frame) < FRAME and not self._out.empty():
                    frame.append(self._out.get_nowait())
                await self._call.write(schedd_pb2.SubmitFrame(submissions=frame))

    async def _read(self) -> None:
        failure: Exception = _lost()
        try:
            while (answers := await self._call.read()) is not grpc.aio.EOF:
                for answer in answers.answers:
                    self._settle(self._waiting.popleft(), answer)
        except grpc.RpcError as error:
            failure = to_error(error, peer=_PEER)
        finally:
            self.broken = True
            while self._waiting:
                waiting = self._waiting.popleft()
                if not waiting.done():
                    waiting.set_exception(failure)

    @staticmethod
    def _settle(waiting: asyncio.Future[schedd_pb2.SubmitReply], answer: schedd_pb2.SubmitAnswer) -> None:
        if waiting.done():
            return
        try:
            waiting.set_result(_reply(answer))
        except Exception as error:
            waiting.set_exception(error)
