"""Submissions on one stream: those that are ready together travel in one frame, replies come in order.

A stream that breaks is opened again, and what has no answer is sent again on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import grpc

from slotwise.client.convert import weight
from slotwise.client.retry import RetryPolicy, error_of_call, lost
from slotwise.errors import PeerUnavailableError, SlotwiseError
from slotwise.wire.credential import Metadata
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.sizes import PIECE
from slotwise.wire.status import error_of

#: Submissions in one frame at most.
FRAME = 64


def _reply(answer: schedd_pb2.SubmitAnswer) -> schedd_pb2.SubmitReply:
    if answer.HasField("error"):
        raise error_of(answer.error)
    return answer.reply


class BlockingStream:
    """For one thread at a time.

    :param gather_s: how long a submission waits for others that can go with it.
    """

    def __init__(
        self,
        stub: schedd_pb2_grpc.ScheddStub,
        metadata: Callable[[], Metadata],
        patience: RetryPolicy,
        *,
        gather_s: float = 0.0,
    ) -> None:
        self._stub = stub
        self._metadata = metadata
        self._patience = patience
        self._gather_s = gather_s
        self._answers: deque[schedd_pb2.SubmitAnswer] = deque()
        self._unanswered: deque[schedd_pb2.SubmitBundle] = deque()
        self._call: grpc.Call | None = None
        self._out: queue.SimpleQueue[Sequence[schedd_pb2.SubmitBundle] | None] = queue.SimpleQueue()

    def send(self, *bundles: schedd_pb2.SubmitBundle) -> None:
        """Send submissions, which travel together as far as a frame holds them; :meth:`answer` returns their replies,
        one at a time."""
        if not self._unanswered and (self._call is None or not self._call.is_active()):
            self._open()
        self._unanswered.extend(bundles)
        self._out.put(bundles)

    def exchange(self, bundles: Sequence[schedd_pb2.SubmitBundle]) -> list[schedd_pb2.SubmitReply | SlotwiseError]:
        """Send submissions; the reply to each, or why it is refused, or why there is none."""
        found: list[schedd_pb2.SubmitReply | SlotwiseError] = []
        self.send(*bundles)
        while len(found) < len(bundles):
            try:
                found.append(self.answer())
            except SlotwiseError as error:
                # Without a stream nothing waits for an answer any more.
                found += [error] * (1 if self._unanswered else len(bundles) - len(found))
        return found

    def answer(self) -> schedd_pb2.SubmitReply:
        """The reply to the oldest submission without one.

        :raises SlotwiseError: the schedd's refusal of it, or that it does not answer: nothing is sent again then.
        """
        pauses: Iterator[float] | None = None
        while not self._answers:
            try:
                self._answers.extend(self._read())
                self._patience.reached = True
            except PeerUnavailableError:
                pauses = pauses or self._patience.pauses()
                pause = next(pauses, None)
                if pause is None:
                    self._unanswered.clear()
                    raise
                time.sleep(pause)
                self._open()
            except SlotwiseError:
                self._unanswered.clear()
                raise
        self._unanswered.popleft()
        return _reply(self._answers.popleft())

    def close(self) -> None:
        """End the stream: no more submissions follow."""
        self._out.put(None)

    def _open(self) -> None:
        self._out.put(None)  # ends the frames of the former call
        self._out = queue.SimpleQueue()
        for bundle in self._unanswered:
            bundle.again = True
        self._out.put(list(self._unanswered))
        self._call = self._stub.SubmitMany(_frames(self._out, self._gather_s), metadata=self._metadata())

    def _read(self) -> Iterable[schedd_pb2.SubmitAnswer]:
        if self._call is None:
            raise lost()
        try:
            frame: schedd_pb2.SubmitAnswers = next(self._call)
            return frame.answers
        except grpc.RpcError as failure:
            raise error_of_call(failure) from None
        except StopIteration:
            raise lost() from None


def _frames(
    out: queue.SimpleQueue[Sequence[schedd_pb2.SubmitBundle] | None], gather_s: float
) -> Iterator[schedd_pb2.SubmitFrame]:
    """Run by gRPC in a thread of its own."""
    while (bundles := out.get()) is not None:
        waiting = deque(bundles)
        if gather_s:
            time.sleep(gather_s)
        ended = False
        while waiting:
            frame: list[schedd_pb2.SubmitBundle] = []
            size = 0
            while len(frame) < FRAME and size < PIECE and (waiting or not (ended or out.empty())):
                if waiting:
                    frame.append(waiting.popleft())
                    size += weight(frame[-1])
                elif (following := out.get()) is None:
                    ended = True
                else:
                    waiting.extend(following)
            yield schedd_pb2.SubmitFrame(submissions=frame)
        if ended:
            return


_Waiting = tuple[schedd_pb2.SubmitBundle, "asyncio.Future[schedd_pb2.SubmitReply]"]


class AsyncStream:
    """For the tasks of one event loop; many may wait for their answers."""

    def __init__(
        self, stub: schedd_pb2_grpc.ScheddStub, metadata: Callable[[], Metadata], patience: RetryPolicy
    ) -> None:
        self._stub = stub
        self._metadata = metadata
        self._patience = patience
        self._out: asyncio.Queue[schedd_pb2.SubmitBundle] = asyncio.Queue()
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    async def submit(self, bundle: schedd_pb2.SubmitBundle) -> schedd_pb2.SubmitReply:
        """Queue one submission.

        :raises SlotwiseError: the schedd's refusal, or that it does not answer.
        """
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((bundle, answer))
        self._out.put_nowait(bundle)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        reply: schedd_pb2.SubmitReply = await answer
        return reply

    async def close(self) -> None:
        """End the stream; submissions without a reply fail."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail(lost())

    async def _run(self) -> None:
        """Run the stream until it ends with no submission waiting for a reply."""
        pauses: Iterator[float] | None = None
        while True:
            answered, error = await self._converse(again=pauses is not None)
            if not self._waiting:
                return
            pauses = self._patience.pauses() if answered or pauses is None else pauses
            pause = next(pauses, None) if isinstance(error, PeerUnavailableError) else None
            if pause is None:
                self._fail(error)
                return
            await asyncio.sleep(pause)

    async def _converse(self, *, again: bool) -> tuple[bool, SlotwiseError]:
        """One call to its end: whether anything was answered, and why it ended."""
        self._out = asyncio.Queue()
        for bundle, _ in self._waiting:
            bundle.again = again
            self._out.put_nowait(bundle)
        answered = False
        call = self._stub.SubmitMany(metadata=self._metadata())
        writer = asyncio.get_running_loop().create_task(self._write(call, self._out))
        try:
            while (answers := await call.read()) is not grpc.aio.EOF:
                answered = self._patience.reached = True
                for answer in answers.answers:
                    self._settle(self._waiting.popleft()[1], answer)
            return answered, lost()
        except grpc.RpcError as failure:
            return answered, error_of_call(failure)
        finally:
            writer.cancel()
            call.cancel()

    async def _write(self, call: grpc.aio.StreamStreamCall, out: asyncio.Queue[schedd_pb2.SubmitBundle]) -> None:
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):  # the reader tells why
            while True:
                frame = [await out.get()]
                size = weight(frame[0])
                while len(frame) < FRAME and size < PIECE and not out.empty():
                    frame.append(out.get_nowait())
                    size += weight(frame[-1])
                await call.write(schedd_pb2.SubmitFrame(submissions=frame))

    def _fail(self, error: SlotwiseError) -> None:
        while self._waiting:
            _, waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(error)

    @staticmethod
    def _settle(waiting: asyncio.Future[schedd_pb2.SubmitReply], answer: schedd_pb2.SubmitAnswer) -> None:
        if waiting.done():
            return
        try:
            waiting.set_result(_reply(answer))
        except Exception as error:
            waiting.set_exception(error)
