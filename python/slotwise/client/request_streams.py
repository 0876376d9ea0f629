"""Streams of requests over grpc.aio: what the server said of one that it refused."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TypeVar

import grpc
from google.protobuf.message import Message

T = TypeVar("T")


async def stated(call: grpc.aio.StreamUnaryCall[Message, T]) -> T:
    """The reply to a stream of requests.

    A server that refuses a stream ends it while the client still sends. For the message that can no longer be sent
    grpc.aio gives the call the status INTERNAL, before or after the status that the server gave; the latter is raised.

    :raises grpc.aio.AioRpcError: the call failed.
    """
    first: list[grpc.aio.AioRpcError] = []

    def keep(ended: grpc.aio.StreamUnaryCall[Message, T]) -> None:
        # The call has ended, so none of this waits.
        code, details, metadata = (_at_once(part()) for part in (ended.code, ended.details, ended.trailing_metadata))
        first.append(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), metadata, details))

    call.add_done_callback(keep)
    try:
        return await call
    except grpc.aio.AioRpcError as failure:
        raise first[0] if first and failure.code() is grpc.StatusCode.INTERNAL else failure from None


def _at_once(known: Coroutine[object, None, T]) -> T:
    try:
        known.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    known.close()
    raise RuntimeError("the status of a call that has ended is not there")
