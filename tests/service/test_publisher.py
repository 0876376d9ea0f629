"""A daemon's ads on their way to the collector, over real gRPC."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.daemon.publish import Publisher, TableSource
from slotwise.errors import PeerUnavailableError
from slotwise.table import unpack_ops
from slotwise.wire import socket_path
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc

from tests.support.fake_collector import FakeCollector
from tests.support.waiting import until


class NoCredential:
    """Shows nothing."""

    def metadata(self, target: str) -> tuple[tuple[str, str], ...]:
        """Nothing."""
        return ()


class Collector(FakeCollector):
    """Remembers, too, which operations came, and refuses the ads of ``refused`` kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, str, str]] = []
        self.refused: set[str] = set()

    async def Advertise(self, requests: Any, context: Any) -> Any:
        """Take in a stream of ads."""
        async for request in requests:
            for what, key, _, _ in unpack_ops(request.pack):
                self.operations.append((request.kind, what, str(key)))
            if request.kind in self.refused:
                yield collector_pb2.AdvertiseReply(refused=[f"{request.kind}: not yours"])
                continue
            report = self.daemons.apply(request.pack)
            yield collector_pb2.AdvertiseReply(serial=request.serial, accepted=1, resend=report.unknown)


@contextlib.asynccontextmanager
async def collecting(target: str) -> AsyncIterator[Collector]:
    """A collector at ``target``."""
    collector, server = Collector(), grpc.aio.server()
    collector_pb2_grpc.add_CollectorServicer_to_server(collector, server)
    server.add_insecure_port(socket_path.usable_target(target))
    await server.start()
    try:
        yield collector
    finally:
        await server.stop(0)


@contextlib.asynccontextmanager
async def publishing(target: str, source: TableSource, interval_s: float = 3600.0) -> AsyncIterator[Publisher]:
    """A publisher of ``source``."""
    publisher = Publisher(source, lambda: target, NoCredential(), interval_s=lambda: interval_s)
    publisher.start()
    try:
        yield publisher
    finally:
        await publisher.close()


@pytest.fixture
def target(tmp_path: Path) -> str:
    """Where the collector answers."""
    return f"unix:{tmp_path}/collector.sock"


def source_of(**ads: int) -> TableSource:
    """Ads with these loads, of the kind Scheduler."""
    source = TableSource()
    for key, load in ads.items():
        source.table("Scheduler").upsert(key, {"Name": key, "Load": load})
    return source


async def test_ads_go_whole_once_and_changes_alone_after_that(target: str) -> None:
    source = source_of(a=1, b=2)
    async with collecting(target) as collector, publishing(target, source) as publisher:
        await until(lambda: len(collector.operations) == 2, "all ads come")
        assert {what for _, what, _ in collector.operations} == {"ad"}
        source.table("Scheduler").update("a", {"Load": 7})
        source.table("Scheduler").remove("b")
        publisher.publish()
        await until(lambda: len(collector.operations) == 4, "the changes come")
        assert sorted(collector.operations[2:]) == [("Scheduler", "delta", "a"), ("Scheduler", "remove", "b")]
        assert collector.daemons.value("a", "Load") == 7


async def test_ads_that_do_not_change_are_confirmed_without_their_content(target: str) -> None:
    source = source_of(a=1)
    async with collecting(target) as collector, publishing(target, source, interval_s=0.01):
        await until(lambda: len(collector.operations) >= 4, "the ad is confirmed again and again")
        assert set(collector.operations[1:]) == {("Scheduler", "delta", "a")}
        assert collector.daemons.value("a", "Load") == 1


async def test_a_collector_that_comes_back_gets_all_ads_whole(target: str) -> None:
    source = source_of(a=1, b=2)
    async with publishing(target, source):
        for _ in range(2):
            async with collecting(target) as collector:
                await until(lambda c=collector: len(c.daemons) == 2, "all ads come")
                assert {what for _, what, _ in collector.operations} == {"ad"}


async def test_the_collector_gets_whole_what_it_misses_and_nothing_else(target: str) -> None:
    source = source_of(a=1, b=2)
    async with collecting(target) as collector, publishing(target, source) as publisher:
        await until(lambda: len(collector.daemons) == 2, "all ads come")
        collector.daemons.remove("a")
        source.table("Scheduler").update("a", {"Load": 7})
        publisher.publish()
        await until(lambda: len(collector.operations) == 4, "the change, then the whole ad")
        assert collector.operations[2:] == [("Scheduler", "delta", "a"), ("Scheduler", "ad", "a")]
        assert collector.daemons.value("a", "Name") == "a"


async def test_a_refused_ad_is_an_error_in_the_log_with_the_reason(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with collecting(target) as collector:
        collector.refused.add("Scheduler")
        async with publishing(target, source_of(a=1)):
            await until(lambda: any("not yours" in r.getMessage() for r in caplog.records), "it is logged")
    (record,) = (r for r in caplog.records if r.name == "slotwise.daemon.publish")
    assert record.levelno == logging.ERROR


async def test_the_end_of_a_daemon_takes_its_ads_back(target: str) -> None:
    async with collecting(target) as collector, publishing(target, source_of(a=1, b=2)) as publisher:
        await until(lambda: len(collector.daemons) == 2, "all ads come")
        await publisher.stop()
        assert sorted(collector.invalidated) == ["a", "b"]


async def test_a_collector_that_has_no_address_yet_is_looked_for_again(target: str) -> None:
    asked = 0

    def find() -> str:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise PeerUnavailableError("no collector has been started")
        return target

    publisher = Publisher(source_of(a=1), find, NoCredential(), interval_s=lambda: 3600.0)
    async with collecting(target) as collector:
        publisher.start()
        await until(lambda: len(collector.daemons) == 1, "the ad comes")
        assert asked == 3
        await publisher.close()
