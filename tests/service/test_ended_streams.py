"""Streams that a daemon ends have a status, whatever they were doing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from slotwise.wire import channel, server
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc
from slotwise.wire.keys import PoolTrust
from slotwise.wire.security import Authenticator

from tests.support.serving import HOST, TRUST, metadata
from tests.support.waiting import until


class _Pieces(daemon_pb2_grpc.DaemonServicer):
    """A log without an end."""

    def __init__(self) -> None:
        self.made = 0
        self.over = asyncio.Event()

    async def FetchLog(self, request: Any, context: Any) -> AsyncIterator[daemon_pb2.LogPiece]:
        try:
            while True:
                self.made += 1
                yield daemon_pb2.LogPiece(data=bytes(256 << 10))
        finally:
            self.over.set()


@pytest.mark.parametrize("reads", [True, False])
async def test_a_stream_of_replies_says_that_its_token_has_ended(reads: bool) -> None:
    trust = TRUST
    gate = Authenticator(lambda: trust, family=HOST.public, audiences=[])
    made = server.make_server(gate)
    pieces = _Pieces()
    daemon_pb2_grpc.add_DaemonServicer_to_server(pieces, made)
    address, _ = server.listen(made)
    await made.start()
    try:
        async with channel.open_async(address) as opened:
            stub = daemon_pb2_grpc.DaemonStub(opened)
            stream = stub.FetchLog(daemon_pb2.FetchLogRequest(name="x"), metadata=metadata("ADMINISTRATOR"))
            await stream.read()
            reading = asyncio.ensure_future(_read_on(stream)) if reads else None
            if not reads:
                await until(lambda: _stands(pieces), "the daemon waits for the reader")
            trust = PoolTrust("test", {})
            gate.refresh()
            await until(pieces.over.is_set, "the daemon makes no more pieces")
            await (reading or _read_on(stream))
            assert await stream.code() is grpc.StatusCode.UNAVAILABLE
            assert "the token of this stream has ended" in str(await stream.details())
    finally:
        await made.stop(None)


async def _read_on(stream: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        while await stream.read() is not grpc.aio.EOF:
            pass


async def _stands(pieces: _Pieces) -> bool:
    before = pieces.made
    await asyncio.sleep(0.2)
    return pieces.made == before
