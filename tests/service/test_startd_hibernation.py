"""The startd on its way to sleep, over real gRPC: who has to know, who may still come, and what is there afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import UNDEFINED, ClassAd
from slotwise.model.power.decision import Awake, Clearing, Telling
from slotwise.startd.power import hibernation
from slotwise.table import unpack_ads
from slotwise.wire.gen import collector_pb2, startd_pb2

from tests.support.fake_collector import FakeCollector
from tests.support.startd_host import Host, Schedd, schedd_at, startd_host
from tests.support.waiting import until

PLUGIN = """#!/bin/sh
case "$1" in
  ad) echo 'HibernationSupportedStates = "S3"';;
  *) echo "$*" >> "${0%/*}/slept"; exit ${STATUS:-0};;
esac
"""
KNOBS = 'HIBERNATE = "RAM"\nHIBERNATE_CHECK_INTERVAL = 1\nHIBERNATION_OVERRIDE_WOL = true\n'
KNOBS += "SLOTWISE_HIBERNATION_WAIT = 0.1\n"


class Collector(FakeCollector):
    """Acknowledges offline ads when it is let, or refuses them."""

    def __init__(self) -> None:
        super().__init__()
        self.offline: list[ClassAd] = []
        self.acknowledge = asyncio.Event()
        self.refuses = False

    async def Advertise(self, requests: Any, context: Any) -> Any:
        """Keep offline ads apart."""
        async for request in requests:
            if request.goes_offline:
                self.offline += unpack_ads(request.pack)
                await self.acknowledge.wait()
                refused = ["the disk is full"] if self.refuses else []
                yield collector_pb2.AdvertiseReply(serial=request.serial, accepted=0 if refused else 1, refused=refused)
                continue
            table = self.private if request.private else self.public if request.kind == "Machine" else self.daemons
            report = table.apply(request.pack)
            yield collector_pb2.AdvertiseReply(serial=request.serial, accepted=1, resend=report.unknown)


@asynccontextmanager
async def machine(tmp_path: Path, more: str = "") -> AsyncIterator[tuple[Host, Schedd, Collector]]:
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    collector = Collector()
    text = KNOBS + f"HIBERNATION_PLUGIN = {plugin}\n" + more
    async with startd_host(tmp_path, text, collector=collector) as host, schedd_at(host) as schedd:
        await until(lambda: len(collector.public), "advertised")
        yield host, schedd, collector


async def seen(host: Host, collector: Collector, **wanted: Any) -> None:
    """Until the collector has an ad of the machine that says so."""
    (name,) = [record.name for record in host.point.slots if record.parent is None]
    await until(lambda: all(collector.public.value(name, key) == value for key, value in wanted.items()), str(wanted))


async def looked(host: Host) -> None:
    """Until it has looked at HIBERNATE at the present time of the clock, and done what followed."""
    hibernation, looks = host.startd.hibernation, 0
    look = hibernation._look

    def counted() -> Any:
        nonlocal looks
        looks += 1
        return look()

    def looked_twice() -> bool:  # the second look comes after what the first one led to
        hibernation._changed.set()
        return looks >= 2

    hibernation._look = counted  # type: ignore[method-assign]
    await until(looked_twice)


async def test_claims_end_first_then_the_collector_knows_then_the_machine_sleeps(tmp_path: Path) -> None:
    async with machine(tmp_path) as (host, schedd, collector):
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        before = host.capability()
        host.clock.advance(5)
        ended = await until(lambda: schedd.ended(claim_id), "its claim ends")
        assert (ended.reason_code, ended.reason) == (1016, "Startd hibernated")
        await until(lambda: collector.offline, "the collector is told")
        assert not (tmp_path / "slept").exists(), "before it was acknowledged"
        (ad,) = collector.offline
        assert (ad["HibernationState"], ad["HibernationLevel"]) == ("S3", 3)
        collector.acknowledge.set()
        await until((tmp_path / "slept").exists, "it sleeps")
        await until(lambda: isinstance(host.startd.hibernation.stage, Awake), "it is awake again")
        await seen(host, collector, HibernationState="NONE", HibernationLevel=0)
        assert (tmp_path / "slept").read_text() == "set S3\n"
        assert (await schedd.claim(before)).refused.code == 1034, "ids of before are void"
        assert (await schedd.claim(host.capability())).granted.slots, "and the new ones are not"
        host.clock.advance(3000)
        await looked(host)
        assert isinstance(host.startd.hibernation.stage, Awake), "an hour awake at least"
        assert (tmp_path / "slept").read_text() == "set S3\n"


async def test_a_claim_that_arrives_while_the_collector_is_told_wins(tmp_path: Path) -> None:
    async with machine(tmp_path) as (host, schedd, collector):
        host.clock.advance(5)
        await until(lambda: collector.offline, "the collector is told")
        assert isinstance(host.startd.hibernation.stage, Telling)
        granted = (await schedd.claim(host.capability())).granted
        collector.acknowledge.set()
        await until(lambda: isinstance(host.startd.hibernation.stage, Awake), "it stays awake")
        await seen(host, collector, HibernationState="NONE", NumDynamicSlots=1)
        assert schedd.ended(granted.slots[0].claim_id) is None and not (tmp_path / "slept").exists()


async def test_a_collector_that_cannot_keep_the_ads_keeps_the_machine_awake(tmp_path: Path) -> None:
    async with machine(tmp_path) as (host, _, collector):
        collector.refuses = True
        collector.acknowledge.set()
        host.clock.advance(5)
        await until(lambda: collector.offline, "the collector is told")
        await until(lambda: isinstance(host.startd.hibernation.stage, Awake), "it stays awake")
        await seen(host, collector, HibernationState="NONE")
        assert not (tmp_path / "slept").exists() and not collector.invalidated


async def test_a_collector_that_says_nothing_keeps_the_machine_awake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hibernation, "_ACKNOWLEDGE_S", 0.5)
    async with machine(tmp_path) as (host, schedd, collector):
        host.clock.advance(5)
        await until(lambda: collector.offline, "the collector is told")
        await until(lambda: isinstance(host.startd.hibernation.stage, Awake), "it has waited long enough")
        assert not (tmp_path / "slept").exists()
        collector.acknowledge.set()
        await seen(host, collector, HibernationState="NONE")
        assert (await schedd.claim(host.capability())).granted.slots, "and takes jobs as before"


async def test_a_startd_that_ends_with_its_machine_leaves_the_offline_ads_where_they_are(tmp_path: Path) -> None:
    async with machine(tmp_path, "SLOTWISE_HIBERNATION_WAIT = 60\n") as (host, _, collector):
        collector.acknowledge.set()
        host.clock.advance(5)
        await until((tmp_path / "slept").exists, "it is about to sleep")
        assert host.startd.hibernation.asleep
    assert collector.offline and not collector.invalidated


async def test_reconfig_switches_it_on_and_off(tmp_path: Path) -> None:
    async with machine(tmp_path, "HIBERNATE_CHECK_INTERVAL = 0\n") as (host, _, collector):
        host.clock.advance(500)
        await looked(host)
        assert isinstance(host.startd.hibernation.stage, Awake) and not collector.offline
        assert not isinstance(host.startd.hibernation.stage, Clearing)
        ad = collector.public.get(next(iter(collector.public.keys())))
        assert ad is not None and ad["CanHibernate"] is True and ad["HibernationSupportedStates"] == "S3"
        assert str(ad.lookup("Unhibernate")) == "MY.MachineLastMatchTime isnt undefined"


async def test_ads_tell_since_when_nothing_of_the_machine_is_claimed(tmp_path: Path) -> None:
    async with machine(tmp_path, "HIBERNATE_CHECK_INTERVAL = 0\n") as (host, schedd, collector):
        began = int(host.clock.now())
        await seen(host, collector, UnclaimedSince=began)
        host.clock.advance(100)
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await seen(host, collector, UnclaimedSince=UNDEFINED)
        host.clock.advance(50)
        await schedd.send(claim_id, release=startd_pb2.ReleaseClaim())
        await seen(host, collector, UnclaimedSince=began + 150)
        host.startd._clock_was_set(1000.0)
        assert host.startd.hibernation.attributes()["UnclaimedSince"] == began + 1150


async def test_a_partitionable_slot_was_idle_as_long_as_nothing_was_claimed(tmp_path: Path) -> None:
    policy = "use POLICY : Hibernate_Idle( 10, RAM )\nHIBERNATE_CHECK_INTERVAL = 1\n"
    async with machine(tmp_path, policy) as (host, schedd, collector):
        host.clock.advance(590)
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await seen(host, collector, UnclaimedSince=UNDEFINED)
        host.clock.advance(3000)
        await schedd.send(claim_id, release=startd_pb2.ReleaseClaim())
        await until(lambda: host.startd.hibernation.attributes()["UnclaimedSince"], "the claim has ended")
        host.clock.advance(590)
        await looked(host)
        assert not collector.offline, "its slot has been Unclaimed for an hour, the machine for less than ten minutes"
        host.clock.advance(20)
        await until(lambda: collector.offline, "the machine goes to sleep")
