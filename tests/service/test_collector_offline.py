"""The collector keeps the ads of machines that are off: those that sleep, and those that are missed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.clock import ManualClock
from slotwise.collector.ad_log import AdLog
from slotwise.collector.app import Collector
from slotwise.collector.offline import OfflineAds
from slotwise.collector.service import CollectorServicer
from slotwise.collector.sleeps import SleepRecord
from slotwise.collector.store import AdStore
from slotwise.home import PoolHome
from slotwise.table import PackBuilder, pack_ads, unpack_ads
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc
from slotwise.wire.server import make_server

from tests.service.test_collector import Harness, slot
from tests.support.serving import authenticator, daemon_context, serving

Collectors = Callable[[], AbstractAsyncContextManager["Offline"]]
FOREVER = 2**31 - 1
#: What HTCondor 25.14 wrote, in part: an ad, a match with it, and another that was in the making at the crash.
FROM_HTCONDOR = r"""107 1 CreationTimestamp 1795384508
105
101 <slot1@node> Machine (empty)
103 <slot1@node> Name "slot1@node"
103 <slot1@node> Cpus 1
103 <slot1@node> Offline true
103 <slot1@node> MyType "Machine"
103 <slot1@node> LastHeardFrom 1795384523
103 <slot1@node> Unhibernate MY.MachineLastMatchTime =!= undefined
103 <slot1@node> AddressV1 "{[ p=\"primary\"; a=\"127.0.0.1\"; port=19731; ]}"
103 <slot1@node> Gone 1
106
105
103 <slot1@node> MachineLastMatchTime 1795384588
104 <slot1@node> Gone
106
101 <slot2@node> Machine (empty)
102 <slot2@node>
105
101 <slot3@node> Machine (empty)
"""


class Offline(Harness):
    """A collector that follows machines that are off."""

    offline: OfflineAds

    async def sleep(self, *ads: dict[str, Any]) -> Any:
        pack = pack_ads([ClassAd(ad) for ad in ads], [ad["Name"] for ad in ads])
        return await self.advertise(collector_pb2.AdvertiseRequest(kind="Machine", pack=pack, goes_offline=True))

    async def merge(self, key: str, removed: tuple[str, ...] = (), **attributes: Any) -> None:
        builder = PackBuilder()
        builder.update(key, attributes, removed)
        await self.advertise(collector_pb2.AdvertiseRequest(kind="Machine", pack=builder.finish()))

    async def ads(self, constraint: str = "") -> list[ClassAd]:
        data, _ = await self.query(constraint=constraint)
        return unpack_ads(data) if data else []

    async def one(self, constraint: str = "") -> ClassAd:
        (found,) = await self.ads(constraint)
        return found

    def expire(self, at: float) -> None:
        self.clock.advance(at - self.clock.now())
        self.store.expire(at, 900)


@pytest.fixture
def collectors(tmp_path: Path) -> Collectors:
    """Collectors with the same file, one after the other."""
    clock = ManualClock(1000.0)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Offline]:
        store = AdStore()
        sleeps = SleepRecord(tmp_path / "sleeps.sqlite", 1000)
        offline = OfflineAds(store.table("Machine"), AdLog(tmp_path / "off.log", clock.now()), clock.now(), sleeps)
        store.offline = offline
        servicer = CollectorServicer(store, clock, lambda: None, sleeps)
        async with serving(lambda s: collector_pb2_grpc.add_CollectorServicer_to_server(servicer, s)) as channel:
            found = Offline(channel, store, clock, servicer)
            found.offline = offline
            yield found

    return opened


async def test_a_machine_that_goes_to_sleep_looks_free_and_is_there_after_a_restart(collectors: Collectors) -> None:
    async with collectors() as collector:
        await collector.slots(slot(1), slot(2, State="Claimed", LoadAvg=3.0))
        await collector.slots(slot(2, Capability="secret"), private=True)
        (reply,) = await collector.sleep(slot(2, State="Claimed", Activity="Busy", LoadAvg=3.0, KeyboardIdle=3))
        assert reply.accepted == 1 and not reply.refused
        assert len(collector.store.table("Machine", private=True)) == 0, "its claim id is worth nothing any more"
    async with collectors() as collector:
        ad = await collector.one()
        wanted = {
            "Name": "slot2@h", "Offline": True, "State": "Unclaimed", "Activity": "Idle", "LoadAvg": 0.0,
            "KeyboardIdle": FOREVER, "ClassAdLifetime": FOREVER, "LastHeardFrom": 1000,
        }  # fmt: skip
        assert {name: ad[name] for name in wanted} == wanted
        collector.expire(10.0 * 365 * 86400)
        assert await collector.one(), "it sleeps on"


async def test_a_match_is_kept_and_does_not_count_as_a_sign_of_life(collectors: Collectors) -> None:
    async with collectors() as collector:
        await collector.sleep(slot(1))
        collector.clock.advance(500)
        await collector.merge("slot1@h", MachineLastMatchTime=1500)
    async with collectors() as collector:
        ad = await collector.one()
        assert (ad["MachineLastMatchTime"], ad["LastHeardFrom"], ad["Offline"]) == (1500, 1000, True)


@pytest.mark.parametrize("how", ["whole", "delta", "invalidated"])
async def test_the_machine_that_is_back_takes_the_place_of_its_ad_at_once(collectors: Collectors, how: str) -> None:
    async with collectors() as collector:
        await collector.sleep(slot(1), slot(2))
        if how == "whole":
            await collector.slots(slot(1))
        elif how == "delta":
            await collector.merge("slot1@h", ("Offline",), State="Owner")
        else:
            collector.store.invalidate("Machine", ["slot1@h"], collector.clock.now())
        assert not await collector.ads('Name == "slot1@h" && Offline =?= true')
    async with collectors() as collector:
        assert (await collector.one())["Name"] == "slot2@h"


async def test_offline_ads_have_the_life_that_the_configuration_gives_them(collectors: Collectors) -> None:
    async with collectors() as collector:
        collector.offline.rules.offline_life_s = 3600
        await collector.sleep(slot(1))
        collector.expire(4500.0)
        assert await collector.ads()
        collector.expire(4700.0)
        assert not await collector.ads()
    async with collectors() as collector:
        assert not await collector.ads()


async def test_missed_machines_are_seen_by_who_asks_for_them(collectors: Collectors) -> None:
    async with collectors() as collector:
        collector.offline.rules.absent_requirements = ExprTree("Cpus > 1")
        collector.offline.rules.absent_life_s = 5000
        await collector.slots(slot(1), slot(2))
        collector.expire(2000.0)
        assert not await collector.ads() and len(collector.store.table("Machine")) == 0
    async with collectors() as collector:
        assert not await collector.ads("Cpus == 2")
        ad = await collector.one("Absent =?= true")
        assert (ad["Name"], ad["LastHeardFrom"], ad["ClassAdLifetime"]) == ("slot2@h", 2000, 5000)
        collector.clock.advance(1000)
        await collector.slots(slot(2))
        assert not await collector.ads("Absent =?= true"), "it is back"
        assert not collector.offline.kept


async def test_missed_machines_are_forgotten_in_the_end(collectors: Collectors) -> None:
    async with collectors() as collector:
        collector.offline.rules.absent_requirements = ExprTree("true")
        collector.offline.rules.absent_life_s = 5000
        await collector.slots(slot(1))
        collector.expire(2000.0)
        collector.expire(6999.0)
        assert await collector.ads("Absent")
        collector.expire(7001.0)
        assert not await collector.ads("Absent") and not collector.offline.kept


async def test_an_ad_that_is_taken_back_may_become_absent(collectors: Collectors) -> None:
    async with collectors() as collector:
        collector.offline.rules.absent_requirements = ExprTree("true")
        await collector.slots(slot(1), slot(2))
        assert collector.store.invalidate("Machine", ["slot1@h"], 1000.0) == ["slot1@h"]
        assert not await collector.ads("Absent")
        collector.offline.rules.expire_invalidated = True
        assert collector.store.invalidate("Machine", ["slot2@h"], 1000.0) == ["slot2@h"]
        assert (await collector.one("Absent"))["Name"] == "slot2@h" and not await collector.ads()
        collector.store.invalidate("Machine", ["slot2@h"], 1000.0)
        assert not await collector.ads("Absent")


def test_the_file_of_htcondor_is_read(tmp_path: Path) -> None:
    path = tmp_path / "off.log"
    path.write_text(FROM_HTCONDOR)
    log = AdLog(path, 0.0)
    (ad,) = log.ads.values()
    assert list(log.ads) == ["slot1@node"]
    assert (ad["Offline"], ad["MachineLastMatchTime"], "Gone" in ad) == (True, 1795384588, False)
    assert str(ad.lookup("Unhibernate")) == "MY.MachineLastMatchTime isnt undefined"
    assert ad["AddressV1"] == '{[ p="primary"; a="127.0.0.1"; port=19731; ]}'


def test_what_is_written_is_read_again_and_a_torn_end_loses_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "off.log"
    odd = ClassAd({"Name": "slot 1@h", "Text": 'a\t"b" \\c', "Expr": ExprTree("Cpus > 1 ? {1, 2} : undefined")})
    log = AdLog(path, 0.0)
    log.put({"slot 1@h": odd, "b": ClassAd({"Name": "b"})})
    log.remove(["b"])
    log.put({"slot 1@h": odd})
    whole = path.read_text()
    assert {name: str(ad) for name, ad in AdLog(path, 0.0).ads.items()} == {"slot 1@h": str(odd)}
    path.write_text(whole + "105 \n101 <x> Machine (empty)\n103 <x> Na")
    assert list(AdLog(path, 0.0).ads) == ["slot 1@h"]
    path.write_text(whole + 'nonsense\n103 <slot1@h> Cpus 4\n103 <slot1@h> Bad "unfinished\n')
    assert not AdLog(path, 0.0).ads
    assert "nonsense" in (tmp_path / "off.log.unreadable").read_text()


async def test_the_knobs_name_the_file_and_how_long_ads_stay(tmp_path: Path) -> None:
    """COLLECTOR_PERSISTENT_AD_LOG and OFFLINE_EXPIRE_ADS_AFTER, as a collector reads them."""
    clock, kept = ManualClock(1000.0), tmp_path / "kept" / "ads.log"
    kept.parent.mkdir()
    knobs = {"COLLECTOR_PERSISTENT_AD_LOG": str(kept), "OFFLINE_EXPIRE_ADS_AFTER": "600"}

    def collector() -> Collector:
        server = make_server(authenticator())
        return Collector(daemon_context(PoolHome(tmp_path / "home"), "collector", server, clock, knobs))

    first = collector()
    async with serving(lambda s: collector_pb2_grpc.add_CollectorServicer_to_server(first.servicer, s)) as channel:
        await Offline(channel, first.store, clock, first.servicer).sleep(slot(1))
    await first.stop("fast")
    assert "slot1@h" in kept.read_text()
    again = collector()
    there = [len(again.store.table("Machine"))]
    for _ in range(2):
        clock.advance(590)
        again.expire()
        there.append(len(again.store.table("Machine")))
    await again.stop("fast")
    assert there == [1, 1, 0]
    assert not AdLog(kept, clock.now()).ads
