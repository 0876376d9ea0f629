"""What callers may send: messages of bounded size, on connections that say something, so many at once."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd
from slotwise.schedd.jobs.ads import JOB_AD_MOST
from slotwise.table import pack_ads
from slotwise.wire import channel, server
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc
from slotwise.wire.sizes import REQUEST_MOST

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint
from tests.support.serving import authenticator, metadata
from tests.support.waiting import LIMIT_S, until


class Collector(collector_pb2_grpc.CollectorServicer):
    """Counts the bytes that reach it."""

    def __init__(self) -> None:
        self.bytes = 0

    async def Invalidate(self, request: Any, context: Any) -> Any:
        self.bytes += request.ByteSize()
        return collector_pb2.InvalidateReply()

    async def Advertise(self, requests: Any, context: Any) -> Any:
        async for request in requests:
            self.bytes += len(request.pack)
            yield collector_pb2.AdvertiseReply()


@contextlib.asynccontextmanager
async def listening(**more: Any) -> AsyncIterator[tuple[str, Collector]]:
    """The address of a server."""
    made, servicer = server.make_server(authenticator(), **more), Collector()
    collector_pb2_grpc.add_CollectorServicer_to_server(servicer, made)
    address, _ = server.listen(made)
    await made.start()
    try:
        yield address, servicer
    finally:
        await made.stop(None)


async def test_messages_of_callers_are_bounded() -> None:
    """Also on streams; those of daemons, too."""
    shown = metadata("NEGOTIATOR")
    async with listening() as (address, servicer), channel.open_async(address) as opened:
        stub = collector_pb2_grpc.CollectorStub(opened)
        fits = collector_pb2.InvalidateRequest(constraint="x" * (REQUEST_MOST - 100))
        await stub.Invalidate(fits, metadata=shown)
        assert servicer.bytes == fits.ByteSize()
        large = "x" * (REQUEST_MOST + 1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.Invalidate(collector_pb2.InvalidateRequest(constraint=large), metadata=shown)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "larger than max" in str(refused.value.details())
        call = stub.Advertise(iter([collector_pb2.AdvertiseRequest(pack=large.encode())]), metadata=shown)
        assert await call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert servicer.bytes == fits.ByteSize()
        await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=shown)  # the connection is as good as before


async def closed(reader: asyncio.StreamReader) -> None:
    """Wait until the other end has closed the connection."""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(LIMIT_S):
            while await reader.read(4096):
                pass


@pytest.mark.parametrize("said", [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], ids=["silent", "preface"])
async def test_a_connection_that_says_nothing_is_closed(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    shorter = [(name, 300 if name == "grpc.server_handshake_timeout_ms" else value) for name, value in server._OPTIONS]
    assert shorter != server._OPTIONS
    monkeypatch.setattr(server, "_OPTIONS", shorter)
    async with listening() as (address, _):
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(said)
        await closed(reader)
        writer.close()


async def test_a_connection_without_calls_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers connect anew for their next call."""
    shorter = [(name, 300 if name == "grpc.max_connection_idle_ms" else value) for name, value in server._OPTIONS]
    assert shorter != server._OPTIONS
    monkeypatch.setattr(server, "_OPTIONS", shorter)
    async with listening() as (address, _), channel.open_async(address) as opened:
        stub = collector_pb2_grpc.CollectorStub(opened)
        await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=metadata("NEGOTIATOR"))
        state = opened.get_state()
        async with asyncio.timeout(LIMIT_S):
            while state == grpc.ChannelConnectivity.READY:
                await opened.wait_for_state_change(state)
                state = opened.get_state()
        await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=metadata("NEGOTIATOR"))


async def test_connections_are_bounded() -> None:
    """Those that are open stay good; the others are closed without an answer."""
    async with listening(connections=8) as (address, _), channel.open_async(address) as opened:
        stub = collector_pb2_grpc.CollectorStub(opened)
        await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=metadata("NEGOTIATOR"))
        host, _, port = address.rpartition(":")
        many = [await asyncio.open_connection(host, int(port)) for _ in range(30)]
        for _, writer in many:
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        ends = [asyncio.ensure_future(closed(reader)) for reader, _ in many]
        await until(lambda: sum(end.done() for end in ends) >= 30 - 8, "those beyond the bound are closed")
        await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=metadata("NEGOTIATOR"))
        for end, (_, writer) in zip(ends, many, strict=True):
            end.cancel()
            writer.close()


def test_the_bound_of_connections_leaves_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: dict[str, Any] = {}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(grpc.aio, "server", lambda **more: taken.update(more))
    server.make_server(authenticator())
    assert dict(taken["options"])["grpc.max_allowed_incoming_connections"] == 768


@pytest.fixture
async def schedd(tmp_path: Any) -> AsyncIterator[RunningAccessPoint]:
    running = await RunningAccessPoint(tmp_path / "pool").start()
    yield running
    await running.stop()


async def test_a_job_whose_ad_has_grown_too_large_is_held(schedd: RunningAccessPoint, tmp_path: Any) -> None:
    """It must not break the stream to the startd, which serves other jobs."""
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()
    try:
        with pytest.raises(grpc.aio.AioRpcError, match=f"a cluster has .*at most {JOB_AD_MOST}"):
            await schedd.submit(Filler="x" * JOB_AD_MOST)
        large = await schedd.submit(procs=[{f"Filler{n}": f"{n}" * (JOB_AD_MOST // 4) for n in range(5)}], JobPrio=5)
        small = await schedd.submit(RequestMemory=64)
        await schedd.negotiate(point.address)

        async def done() -> bool:
            ads = {ad["ClusterId"]: ad for ad in await schedd.jobs()}
            return small not in ads and ads[large]["JobStatus"] == 5

        await schedd.until(done)
        (ad,) = await schedd.jobs()
        assert ad["HoldReason"].startswith("the job's ad has 13")
        assert ad["HoldReasonCode"] == 26
    finally:
        await point.stop()


async def test_large_submissions_travel_in_pieces(schedd: RunningAccessPoint) -> None:
    """6 MB of few jobs; each of them fits. One message of the same is refused."""
    from slotwise.client import AsyncSchedd, Schedd
    from slotwise.wire.gen import schedd_pb2

    token = schedd.token_file(schedd.owner).read_text()
    text = 'executable=/bin/true\nenvironment="A=$(Process)' + "x" * 20_000 + '"\nqueue 300\n'

    def work() -> list[int]:
        with Schedd(schedd.home.root, token=token) as client:
            many = client.submit_many([text, text.replace("300", "1")] * 2)
            return [client.submit(text).count, *(one.count for one in many)]

    assert await asyncio.to_thread(work) == [300, 300, 1, 300, 1]
    async with AsyncSchedd(schedd.home.root, token=token) as client:
        assert (await client.submit(text)).count == 300
    deltas = pack_ads([ClassAd({"Environment": f"{n}" + "x" * 20_000}) for n in range(300)])
    one = schedd_pb2.ClusterSubmission(procs=schedd_pb2.ProcBatch(deltas=deltas))
    with pytest.raises(grpc.aio.AioRpcError, match="larger than max"):
        await schedd.stub.SubmitOne(schedd_pb2.SubmitBundle(clusters=[one]), metadata=schedd.user)
