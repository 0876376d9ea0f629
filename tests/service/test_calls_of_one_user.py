"""How many calls of one user a daemon answers at a time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc
from slotwise.wire import channel, server
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc

from tests.support.serving import authenticator, metadata
from tests.support.waiting import until


class _Waits(collector_pb2_grpc.CollectorServicer):
    async def Advertise(self, requests: Any, context: Any) -> Any:
        yield collector_pb2.AdvertiseReply()
        await asyncio.sleep(3600)

    async def Invalidate(self, request: Any, context: Any) -> Any:
        return collector_pb2.InvalidateReply()


async def test_streams_of_one_user_leave_room_for_others() -> None:
    gate = authenticator()
    gate.calls_of_user = 5
    made = server.make_server(gate)
    collector_pb2_grpc.add_CollectorServicer_to_server(_Waits(), made)
    address, _ = server.listen(made)
    await made.start()
    eve, ann = (metadata("ADVERTISE_STARTD", identity=f"{name}@test") for name in ("eve", "ann"))
    try:
        async with channel.open_async(address) as opened:
            stub = collector_pb2_grpc.CollectorStub(opened)
            streams = [stub.Advertise(iter([]), metadata=eve) for _ in range(5)]
            for stream in streams:
                await stream.read()
            refused = stub.Advertise(iter([]), metadata=eve)
            assert await refused.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "SLOTWISE_MAX_CALLS_PER_USER" in str(await refused.details())
            await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=ann)
            administrator = metadata("ADMINISTRATOR", "DAEMON", identity="eve@test")
            await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=administrator)
            streams[0].cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await streams[0].code()

            async def answered() -> bool:
                try:
                    await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=eve)
                except grpc.aio.AioRpcError as error:
                    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
                    return False
                return True

            await until(answered, "there is room again")
    finally:
        await made.stop(None)


async def test_glide_ins_with_one_token_are_bounded_each() -> None:
    """Hundreds of them have the token of one identity, and a stream or two each."""
    gate = authenticator()
    gate.calls_of_user = 2
    made = server.make_server(gate)
    collector_pb2_grpc.add_CollectorServicer_to_server(_Waits(), made)
    address, _ = server.listen(made)
    await made.start()
    shown = metadata("ADVERTISE_STARTD", "ADVERTISE_MASTER", identity="glidein@test")
    try:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                opened = await stack.enter_async_context(channel.open_async(address))
                stub = collector_pb2_grpc.CollectorStub(opened)
                for _ in range(2):
                    assert await stub.Advertise(iter([]), metadata=shown).read() != grpc.aio.EOF
            assert await stub.Advertise(iter([]), metadata=shown).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    finally:
        await made.stop(None)
