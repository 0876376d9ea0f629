"""The collector behind real gRPC, with a manual clock."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd
from slotwise.clock import ManualClock
from slotwise.collector.app import log_expired
from slotwise.collector.service import CollectorServicer
from slotwise.collector.store import AdStore
from slotwise.table import AdTable, PackBuilder, pack_ads, unpack_ads
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc, common_pb2

from tests.support.serving import metadata, serving
from tests.support.waiting import LIMIT_S

DAEMON = metadata("DAEMON", "NEGOTIATOR")
READ = metadata("READ")


class Harness:
    """A collector under test."""

    def __init__(
        self, opened: grpc.aio.Channel, store: AdStore, clock: ManualClock, servicer: CollectorServicer
    ) -> None:
        self.servicer = servicer
        self.stub = collector_pb2_grpc.CollectorStub(opened)
        self.store = store
        self.clock = clock

    async def advertise(self, *requests: collector_pb2.AdvertiseRequest, **more: Any) -> list[Any]:
        return [r async for r in self.stub.Advertise(iter(requests), metadata=more.get("metadata", DAEMON))]

    async def slots(self, *ads: dict[str, Any], private: bool = False) -> None:
        pack = pack_ads([ClassAd(ad) for ad in ads], [ad["Name"] for ad in ads])
        await self.advertise(collector_pb2.AdvertiseRequest(kind="Machine", pack=pack, private=private))

    async def query(self, **words: Any) -> tuple[bytes, int]:
        data, total = b"", -1
        query = common_pb2.AdQuery(**({"kind": "Machine"} | words))
        async for chunk in self.stub.Query(query, metadata=READ):
            data += chunk.data
            if chunk.done:
                total = chunk.total
        return data, total


@pytest.fixture
async def collector() -> AsyncIterator[Harness]:
    store, clock = AdStore(), ManualClock(1000.0)
    servicer = CollectorServicer(store, clock, lambda: None)
    async with serving(lambda s: collector_pb2_grpc.add_CollectorServicer_to_server(servicer, s)) as opened:
        yield Harness(opened, store, clock, servicer)


def slot(n: int, **more: Any) -> dict[str, Any]:
    return {"MyType": "Machine", "Name": f"slot{n}@h", "Cpus": n, "State": "Unclaimed"} | more


async def test_the_newest_ad_is_kept_with_the_time_it_was_heard(collector: Harness) -> None:
    await collector.slots(slot(1))
    collector.clock.advance(5)
    await collector.slots(slot(1, State="Claimed"))
    data, total = await collector.query()
    (ad,) = unpack_ads(data)
    assert total == 1 and ad["State"] == "Claimed" and ad["LastHeardFrom"] == 1005


async def test_a_delta_changes_what_it_names_and_one_without_base_is_asked_for_whole(collector: Harness) -> None:
    await collector.slots(slot(1))
    builder = PackBuilder()
    builder.update("slot1@h", {"State": "Owner"})
    builder.update("slot9@h", {"State": "Owner"})
    (reply,) = await collector.advertise(
        collector_pb2.AdvertiseRequest(kind="Machine", pack=builder.finish(), serial=7)
    )
    assert reply.serial == 7 and list(reply.resend) == ["slot9@h"]
    (ad,) = unpack_ads((await collector.query())[0])
    assert ad["State"] == "Owner" and ad["Cpus"] == 1


async def test_constraint_projection_limit_and_count(collector: Harness) -> None:
    await collector.slots(*(slot(n) for n in range(1, 9)))
    data, total = await collector.query(constraint="Cpus > 4", projection=["Name"], limit=2)
    ads = unpack_ads(data)
    assert len(ads) == 2 and all(set(ad) == {"Name"} for ad in ads)
    assert total >= 2
    assert (await collector.query(constraint="Cpus > 4", form=common_pb2.AdQuery.COUNT))[1] == 4
    rows, _ = await collector.query(form=common_pb2.AdQuery.COUNT, count_by=["State"])
    assert [dict(ad) for ad in unpack_ads(rows)] == [{"State": "Unclaimed", "Count": 8}]


async def test_text_forms_are_ready_to_print(collector: Harness) -> None:
    await collector.slots(slot(1), slot(2))
    text, _ = await collector.query(form=common_pb2.AdQuery.JSON, projection=["Name", "Cpus"])
    assert sorted(ad["Name"] for ad in json.loads(text)) == ["slot1@h", "slot2@h"]
    empty, _ = await collector.query(form=common_pb2.AdQuery.JSON, constraint="false")
    assert json.loads(empty) == []
    long, _ = await collector.query(form=common_pb2.AdQuery.LONG, constraint="Cpus == 2", projection=["Name", "Cpus"])
    assert long.decode() == 'Cpus = 2\nName = "slot2@h"\n\n'


async def test_any_asks_all_kinds_and_kinds_do_not_differ_by_case(collector: Harness) -> None:
    await collector.slots(slot(1))
    pack = pack_ads([ClassAd({"MyType": "Scheduler", "Name": "s"})], ["s"])
    await collector.advertise(collector_pb2.AdvertiseRequest(kind="Scheduler", pack=pack))
    assert (await collector.query(kind="Any"))[1] == 2
    assert (await collector.query(kind="scheduler"))[1] == 1
    assert (await collector.query(kind="schedd"))[1] == 1
    assert (await collector.query(kind="Grid"))[1] == 0
    both, _ = await collector.query(kind="Any", form=common_pb2.AdQuery.JSON)
    assert len(json.loads(both)) == 2


async def test_a_bad_constraint_is_the_callers_fault(collector: Harness) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await collector.query(constraint="Cpus >")
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_what_is_no_pack_is_refused_and_the_stream_goes_on(collector: Harness) -> None:
    good = pack_ads([ClassAd(slot(1))], ["slot1@h"])
    replies = await collector.advertise(
        collector_pb2.AdvertiseRequest(kind="Machine", pack=b"nonsense"),
        collector_pb2.AdvertiseRequest(kind="", pack=good),
        collector_pb2.AdvertiseRequest(kind="Machine", pack=good),
    )
    assert [bool(reply.refused) for reply in replies] == [True, True, False]
    assert (await collector.query())[1] == 1


async def test_nobody_empties_the_table_of_others(collector: Harness) -> None:
    await collector.slots(slot(1))
    builder = PackBuilder(reset=True)
    builder.upsert("slot2@h", slot(2))
    await collector.advertise(collector_pb2.AdvertiseRequest(kind="Machine", pack=builder.finish()))
    assert (await collector.query())[1] == 2


async def test_ads_expire_by_their_own_lifetime_or_the_pools_and_a_touch_keeps_them(collector: Harness) -> None:
    await collector.slots(slot(1), slot(2, ClassAdLifetime=50), slot(3))
    collector.clock.advance(60)
    assert collector.store.expire(collector.clock.now(), 100) == {"Machine": 1}
    builder = PackBuilder()
    builder.update("slot3@h", {})
    await collector.advertise(collector_pb2.AdvertiseRequest(kind="Machine", pack=builder.finish()))
    collector.clock.advance(60)
    collector.store.expire(collector.clock.now(), 100)
    assert collector.store.table("Machine").keys() == ["slot3@h"]


async def test_a_capability_lives_as_long_as_the_ad_of_its_slot(collector: Harness) -> None:
    await collector.slots(slot(1), slot(2))
    await collector.slots(*({"Name": f"slot{n}@h", "Capability": "secret"} for n in (1, 2)), private=True)
    for _ in range(3):  # a startd that tells of nothing new renews public ads only
        collector.clock.advance(60)
        builder = PackBuilder()
        builder.update("slot1@h", {})
        await collector.advertise(collector_pb2.AdvertiseRequest(kind="Machine", pack=builder.finish()))
        collector.store.expire(collector.clock.now(), 100)
    assert collector.store.table("Machine").keys() == ["slot1@h"]
    assert collector.store.table("Machine", private=True).keys() == ["slot1@h"]


async def test_invalidate_by_key_and_constraint(collector: Harness) -> None:
    await collector.slots(*(slot(n) for n in range(1, 6)))
    request = collector_pb2.InvalidateRequest(kind="Machine", keys=["slot1@h"], constraint="Cpus >= 4")
    assert (await collector.stub.Invalidate(request, metadata=DAEMON)).removed == 3
    with pytest.raises(grpc.aio.AioRpcError):
        await collector.stub.Invalidate(collector_pb2.InvalidateRequest(kind="Machine"), metadata=DAEMON)


async def test_the_log_names_ads_that_come_and_go(collector: Harness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await collector.slots(slot(1), slot(2), slot(3))
    await collector.slots(slot(2), slot(4))
    await collector.slots({"Name": "slot1@h", "Capability": "secret"}, private=True)
    builder = PackBuilder()
    builder.update("slot2@h", {"State": "Claimed"})
    builder.remove("slot1@h")
    builder.remove("slot9@h")
    await collector.advertise(collector_pb2.AdvertiseRequest(kind="Machine", pack=builder.finish()))
    request = collector_pb2.InvalidateRequest(kind="Machine", keys=["slot2@h", "slot9@h"])
    await collector.stub.Invalidate(request, metadata=DAEMON)
    collector.clock.advance(200)
    collector.store.expire(collector.clock.now(), 100, log_expired)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("slotwise")] == [
        "inserted 3 Machine ads: slot1@h slot2@h slot3@h",
        "inserted 1 Machine ads: slot4@h",
        "removed 1 Machine ads: slot1@h",
        "invalidated 1 Machine ads by order of ann@test from a local socket: slot2@h",
        "expired 2 Machine ads: slot3@h slot4@h",
    ]
    caplog.clear()
    await collector.slots(*(slot(n) for n in range(1000)))
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("slotwise")]
    assert line.startswith("inserted 1000 Machine ads: slot0@h ") and line.endswith(" slot39@h ...")


async def mirror(collector: Harness, until: Any, include_private: bool = True) -> tuple[AdTable, AdTable]:
    """A subscriber's tables once ``until(public, private)`` holds."""
    tables = {False: AdTable(), True: AdTable()}
    request = collector_pb2.SubscribeRequest(kinds=["Machine"], include_private=include_private)
    call = collector.stub.Subscribe(request, metadata=DAEMON)
    async with asyncio.timeout(LIMIT_S):
        async for reply in call:
            if reply.pack:
                tables[reply.private].apply(reply.pack)
            if reply.complete:
                collector_seen.set()
            if until(tables[False], tables[True]):
                call.cancel()
                return tables[False], tables[True]
    raise AssertionError("the subscription ended")


collector_seen = asyncio.Event()


async def test_a_subscriber_gets_all_then_changes_and_removals(collector: Harness) -> None:
    collector_seen.clear()
    await collector.slots(slot(1), slot(2))
    await collector.slots({"Name": "slot1@h", "Capability": "secret"}, private=True)
    watching = asyncio.create_task(
        mirror(collector, lambda public, private: "slot3@h" in public and "slot1@h" not in public)
    )
    await collector_seen.wait()
    await collector.slots(slot(3), slot(2, Cpus=20))
    await collector.stub.Invalidate(collector_pb2.InvalidateRequest(kind="Machine", keys=["slot1@h"]), metadata=DAEMON)
    public, _ = await watching
    assert sorted(public.keys()) == ["slot2@h", "slot3@h"] and public.value("slot2@h", "Cpus") == 20


async def test_capabilities_are_for_daemons_only(collector: Harness) -> None:
    await collector.slots(slot(1))
    await collector.slots({"Name": "slot1@h", "Capability": "secret"}, private=True)
    _, private = await mirror(collector, lambda public, private: len(public) and len(private))
    assert private.value("slot1@h", "Capability") == "secret"
    for kind in ("Machine", "Any"):
        text, _ = await collector.query(kind=kind, form=common_pb2.AdQuery.LONG)
        assert b"secret" not in text
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        request = collector_pb2.SubscribeRequest(kinds=["Machine"], include_private=True)
        async for _ in collector.stub.Subscribe(request, metadata=metadata("WRITE")):
            pass
    assert failure.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("who", [(), READ, metadata("WRITE")], ids=["nobody", "reader", "writer"])
async def test_only_daemons_advertise(collector: Harness, who: Any) -> None:
    # Refused before it sends anything: for a message that cannot be sent any more, grpc.aio has a status of its own.
    refused = collector.stub.Advertise(metadata=who)
    expected = grpc.StatusCode.PERMISSION_DENIED if who else grpc.StatusCode.UNAUTHENTICATED
    assert await refused.code() is expected
    assert len(collector.store.table("Machine")) == 0


async def test_large_batches_go_through_threads_and_stay_in_order(collector: Harness) -> None:
    def batch(state: str) -> collector_pb2.AdvertiseRequest:
        ads = [slot(n, State=state, Filler="x" * 100) for n in range(2000)]
        pack = pack_ads([ClassAd(ad) for ad in ads], [ad["Name"] for ad in ads])
        return collector_pb2.AdvertiseRequest(kind="Machine", pack=pack)

    await collector.advertise(batch("Owner"), batch("Claimed"), batch("Unclaimed"))
    assert (await collector.query(constraint='State == "Unclaimed"', form=common_pb2.AdQuery.COUNT))[1] == 2000


async def test_each_ad_tells_how_often_it_was_updated(collector: Harness) -> None:
    await collector.slots(slot(1))
    builder = PackBuilder()
    builder.update("slot1@h", {"State": "Owner"})
    await collector.advertise(collector_pb2.AdvertiseRequest(kind="Machine", pack=builder.finish()))
    await collector.slots(slot(1), slot(2))
    first, second = unpack_ads((await collector.query())[0])
    assert [first[name] for name in ("UpdatesTotal", "UpdatesSequenced", "UpdatesLost")] == [3, 2, 0]
    assert [second[name] for name in ("UpdatesTotal", "UpdatesSequenced", "UpdatesLost")] == [1, 0, 0]
    assert first["UpdatesHistory"] == "0x" + 32 * "0"
    counted = collector.store.updates.attributes(collector.clock.now())
    for name, count in {"UpdatesTotal": 4, "UpdatesInitial": 2, "UpdatesLost": 0}.items():
        names = (name, f"{name}_Slot", f"Recent{name}", f"Recent{name}_Slot")
        assert [counted[each] for each in names] == [count] * 4
    collector.store.counts = False
    await collector.slots(slot(3))
    (plain,) = unpack_ads((await collector.query(constraint="Cpus == 3"))[0])
    assert "UpdatesTotal" not in plain


async def test_a_reader_that_stalls_holds_up_nobody_and_costs_a_few_pieces_only(collector: Harness) -> None:
    """Pieces are made as they are read: the answer to a stalled reader is not kept, and the rest goes on."""
    filler = "x" * 1000
    for start in range(0, 20_000, 2000):
        ads = [slot(n, Filler=filler, More=f"{n}{filler}") for n in range(start, start + 2000)]
        pack = pack_ads([ClassAd(ad) for ad in ads], [ad["Name"] for ad in ads])
        await collector.advertise(collector_pb2.AdvertiseRequest(kind="Machine", pack=pack))
    answer = collector.stub.Query(common_pb2.AdQuery(kind="Machine", form=common_pb2.AdQuery.LONG), metadata=READ)
    answer_mib = sum([len(piece.data) async for piece in answer]) // 2**20
    assert answer_mib > 20
    before = resident_mib()
    stalled = []
    for _ in range(20):
        call = collector.stub.Query(common_pb2.AdQuery(kind="Machine", form=common_pb2.AdQuery.LONG), metadata=READ)
        assert (await call.read()).data
        stalled.append(call)
    assert (await collector.query(constraint="Cpus == 77"))[1] == 1
    assert resident_mib() - before < len(stalled) * answer_mib // 2
    for call in stalled:
        call.cancel()


def resident_mib() -> int:
    """Resident memory of this process, in which the collector under test runs."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


async def test_a_query_that_takes_too_long_is_given_up(collector: Harness) -> None:
    collector.servicer.longest_query_s = 5.0
    await collector.slots(*(slot(n, Filler="x" * 1000) for n in range(1000)))
    call = collector.stub.Query(common_pb2.AdQuery(kind="Machine", form=common_pb2.AdQuery.LONG), metadata=READ)
    assert (await call.read()).data
    collector.clock.advance(6)
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        while await call.read() is not grpc.aio.EOF:
            pass
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (collector.servicer.queries, collector.servicer.dropped_queries, collector.servicer.open_queries) == (
        1,
        1,
        0,
    )
