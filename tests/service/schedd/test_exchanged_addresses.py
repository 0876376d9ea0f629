"""Startds at each other's addresses: a startd is known by its name, and an address serves for whoever listens there."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from slotwise.classad import ClassAd
from slotwise.wire import address, socket_path
from slotwise.wire.address import DaemonAddress
from slotwise.wire.gen import collector_pb2_grpc

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script
from tests.support.fake_collector import FakeCollector


@contextlib.asynccontextmanager
async def collector_of(schedd: RunningAccessPoint) -> AsyncIterator[FakeCollector]:
    """A collector that the schedd asks."""
    collector, socket, server = FakeCollector(), schedd.home.run / "collector.sock", grpc.aio.server()
    collector_pb2_grpc.add_CollectorServicer_to_server(collector, server)
    server.add_insecure_port(f"unix:{socket_path.usable(socket)}")
    await server.start()
    address.publish(schedd.home, DaemonAddress("collector", os.getpid(), "", str(socket)))
    try:
        yield collector
    finally:
        await server.stop(0)


def advertise(collector: FakeCollector, point: ExecutionPoint) -> None:
    ad = {"Name": f"slot1@{point.name}", "MyAddress": point.address, "MyType": "Machine"}
    collector.public.upsert(f"slot1@{point.name}", ClassAd(ad))


@contextlib.asynccontextmanager
async def points_of(schedd: RunningAccessPoint, root: Path, *names: str) -> AsyncIterator[list[ExecutionPoint]]:
    points = [ExecutionPoint(root / f"{name}.sock", schedd.daemon_token, name=name) for name in names]
    for point in points:
        await point.start()
    try:
        yield points
    finally:
        for point in points:
            await point.stop()


async def busy(schedd: RunningAccessPoint, point: ExecutionPoint, let_go: asyncio.Event) -> None:
    """A job of the schedd runs there until ``let_go``."""
    point.script = lambda ad: Script(until=let_go)
    await schedd.submit()
    await schedd.negotiate(point.address, name=point.name)
    await schedd.until(lambda: any(run.started for run in point.runs.values()), f"a job runs on {point.name}")


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_runs_go_on_when_startds_come_back_at_each_others_addresses(
    schedd: RunningAccessPoint, tmp_path: Path, order: str
) -> None:
    let_go = asyncio.Event()
    async with collector_of(schedd) as collector, points_of(schedd, tmp_path, "a", "b") as points:
        for point in points:
            await busy(schedd, point, let_go)
        first, second = sorted(points, key=lambda point: order.index(point.name))
        for point in points:
            await point.lose_startd()
        first.address, second.address = second.address, first.address
        await first.regain_startd()
        await schedd.until(lambda: first.mistaken, "the schedd looks for the other one there")
        assert first.mistaken[0] == second.name
        await second.regain_startd()
        for point in points:
            advertise(collector, point)
        links = schedd.point.claiming.links
        await schedd.until(
            lambda: all(links.connected(point.address) is not None for point in points), "both are found"
        )
        assert [len(point.claims) for point in points] == [1, 1], "none has taken the other's claim for given back"
        let_go.set()
        await schedd.until_gone()
        assert [len(point.history) for point in points] == [1, 1] and not [*first.overlaps, *second.overlaps]


async def test_a_startd_that_got_the_address_of_one_that_is_gone_serves_and_the_other_is_waited_for(
    schedd: RunningAccessPoint, tmp_path: Path
) -> None:
    let_go = asyncio.Event()
    async with collector_of(schedd) as collector, points_of(schedd, tmp_path, "a", "b") as (gone, other):
        await busy(schedd, gone, let_go)
        for point in (gone, other):
            await point.lose_startd()
        other.address = gone.address
        await other.regain_startd()
        advertise(collector, gone)  # the collector does not know better yet
        await schedd.until(lambda: other.mistaken, "the schedd looks for it there")
        await schedd.submit()
        await schedd.negotiate(other.address, name="b")
        await schedd.until(lambda: len(other.history) == 1, "the one that is there runs a job")
        assert set(other.mistaken) == {"a"} and len(gone.history) == 1
        gone.address = f"unix:{tmp_path / 'elsewhere.sock'}"
        await gone.regain_startd()
        advertise(collector, gone)
        await schedd.until(lambda: schedd.point.claiming.links.connected(gone.address), "it is found")
        let_go.set()
        await schedd.until_gone()
        assert (len(gone.history), len(other.history)) == (1, 1)


async def test_a_schedd_that_was_restarted_meanwhile_does_not_mistake_them_either(
    schedd: RunningAccessPoint, tmp_path: Path
) -> None:
    let_go = asyncio.Event()
    async with collector_of(schedd) as collector, points_of(schedd, tmp_path, "a", "b") as points:
        for point in points:
            await busy(schedd, point, let_go)
        await schedd.kill()
        first, second = points
        for point in points:
            await point.lose_startd()
        first.address, second.address = second.address, first.address
        for point in points:
            await point.regain_startd()
            advertise(collector, point)
        await schedd.start()
        let_go.set()
        await schedd.until_gone()
        assert [len(point.history) for point in points] == [1, 1]
        assert (first.mistaken[0], second.mistaken[0]) == ("b", "a")
