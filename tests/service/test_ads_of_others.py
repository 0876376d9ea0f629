"""Nobody advertises, changes or takes back ads under a name that is another's."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.clock import ManualClock
from slotwise.collector.ownership import NAMING, misnamed, sender_of
from slotwise.collector.service import CollectorServicer
from slotwise.collector.store import AdStore
from slotwise.table import PackBuilder, pack_ads, pack_keys
from slotwise.wire.channel import open_async
from slotwise.wire.credential import HostCredential
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc
from slotwise.wire.keys import SigningKey, public_text
from slotwise.wire.server import listen, make_server
from slotwise.wire.token import Identity

from tests.support.serving import authenticator, metadata, token

_LEVELS = ("ADVERTISE_STARTD", "ADVERTISE_SCHEDD", "ADVERTISE_MASTER")


class _Collector:
    """A collector, and callers of several hosts."""

    def __init__(self, opened: grpc.aio.Channel, store: AdStore, target: str) -> None:
        self.stub = collector_pb2_grpc.CollectorStub(opened)
        self.store = store
        self._target = target

    def host(self, name: str, *levels: str) -> Any:
        """What a daemon of host ``name`` shows."""
        key = SigningKey.generate()
        levels = levels or _LEVELS
        word = token(*levels, identity=f"condor@{name}", bound_to=public_text(key.public))
        return HostCredential(f"condor@{name}", key, lambda: word, levels, time.time).metadata(self._target)

    async def advertise(self, who: Any, *ads: dict[str, Any], kind: str = "Machine", key: str = "", **more: Any) -> str:
        """Advertise ads; why that was refused."""
        pack = pack_ads([ClassAd(ad) for ad in ads], [key or ad["Name"] for ad in ads])
        return await self.send(who, pack, kind, **more)

    async def send(self, who: Any, pack: bytes, kind: str = "Machine", **more: Any) -> str:
        request = collector_pb2.AdvertiseRequest(kind=kind, pack=pack, **more)
        return " ".join([why async for r in self.stub.Advertise(iter([request]), metadata=who) for why in r.refused])

    async def take_back(self, who: Any, *keys: str, kind: str = "Machine", constraint: str = "") -> int:
        request = collector_pb2.InvalidateRequest(kind=kind, keys=keys, constraint=constraint)
        return (await self.stub.Invalidate(request, metadata=who)).removed

    def cpus(self, key: str) -> Any:
        ad = self.store.table("Machine").get(key)
        return None if ad is None else ad["Cpus"]


@pytest.fixture
async def collector() -> AsyncIterator[_Collector]:
    store = AdStore()
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        socket = Path(directory) / "test.sock"
        server = make_server(authenticator(str(socket)))
        collector_pb2_grpc.add_CollectorServicer_to_server(
            CollectorServicer(store, ManualClock(1000.0), lambda: None), server
        )
        listen(server, socket=socket)
        await server.start()
        try:
            async with open_async(f"unix:{socket}") as opened:
                yield _Collector(opened, store, f"unix:{socket}")
        finally:
            await server.stop(grace=None)


def slot(name: str, **more: Any) -> dict[str, Any]:
    return {"MyType": "Machine", "Name": name, "Machine": name.rpartition("@")[2], "Cpus": 4} | more


async def test_a_host_cannot_speak_for_another(collector: _Collector) -> None:
    victim, eve = collector.host("victim.test"), collector.host("eve.test")
    assert await collector.advertise(victim, slot("slot1@victim.test"), slot("slot1@other@victim.test")) == ""
    assert await collector.advertise(victim, {"Name": "victim.test", "Capability": "secret"}, private=True) == ""

    assert "is not a name of eve.test" in await collector.advertise(eve, slot("slot1@victim.test", Cpus=99))
    assert "is not a name of eve.test" in await collector.advertise(eve, slot("slot9@victim.test"))
    assert "is not" in await collector.advertise(eve, {"Name": "victim.test", "Capability": "mine"}, private=True)
    builder = PackBuilder()
    builder.update("slot1@victim.test", ClassAd({"Cpus": 99}))
    assert "is not a name of eve.test" in await collector.send(eve, builder.finish())
    builder.remove("slot1@victim.test")
    assert "is not a name of eve.test" in await collector.send(eve, builder.finish())
    # Nor under a key of its own, in what people and the negotiator read.
    own = "slot1@eve.test"
    assert "calls itself" in await collector.advertise(eve, slot("slot1@victim.test"), key=own)
    assert "Machine" in await collector.advertise(eve, slot(own, Machine="victim.test"))
    assert await collector.advertise(eve, slot(own)) == ""
    builder.update(own, ClassAd({"Machine": "victim.test"}))
    assert "Machine" in await collector.send(eve, builder.finish())
    for kind in ("Scheduler", "DaemonMaster", "StartDaemon"):
        assert "is not a name" in await collector.advertise(eve, {"Name": "victim.test"}, kind=kind)
    submitter = {"Name": "ann@test", "ScheddName": "victim.test"}
    assert "is not a name" in await collector.advertise(eve, submitter, kind="Submitter", key="ann@test#victim.test")
    assert "ScheddName" in await collector.advertise(eve, submitter, kind="Submitter", key="ann@test#eve.test")
    submitter["ScheddName"] = "two@eve.test"
    assert await collector.advertise(eve, submitter, kind="Submitter", key="ann@test#two@eve.test") == ""

    with pytest.raises(grpc.RpcError) as refused:
        await collector.take_back(eve, "slot1@victim.test")
    assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
    assert await collector.take_back(eve, constraint="true") == 1  # its own
    assert collector.cpus("slot1@victim.test") == 4
    assert await collector.take_back(victim, constraint="Cpus == 4") == 2


async def test_a_name_without_a_host_is_of_who_advertised_it_first(collector: _Collector) -> None:
    """SCHEDD_NAME = grid@ names a schedd that several hosts may run."""
    ads = {
        "Scheduler": {"Name": "grid@", "Machine": "ap.x", "MyAddress": "<10.0.0.3:9618?alias=ap.x>"},
        "Submitter": {"Name": "ann@x#grid@", "ScheddName": "grid@", "Machine": "ap.x"},
    }
    for kind, ad in ads.items():
        assert await collector.advertise(collector.host("ap.x"), ad, kind=kind) == ""
        # The same daemon again, which has been killed and has another key.
        assert await collector.advertise(collector.host("ap.x"), ad, kind=kind) == ""
        other = {**ad, "Machine": "cm.x"} | ({"MyAddress": "<10.0.0.9:9618?alias=cm.x>"} if "MyAddress" in ad else {})
        assert "is an ad of condor@ap.x" in await collector.advertise(collector.host("cm.x"), other, kind=kind)
        false = {**ad, "Name": f"{ad['Name'].removesuffix('grid@')}else@"}
        assert "its Machine is" in await collector.advertise(collector.host("cm.x"), false, kind=kind)


async def test_what_names_an_ad_is_not_computed(collector: _Collector) -> None:
    """A later change of another attribute, or the time of day, would make it another's name."""
    eve = collector.host("eve.test")
    own = "slot1@eve.test"
    for computed in ('strcat("slot1@", Site)', "Alias", 'time() > 2000 ? "slot1@victim.test" : "slot1@eve.test"'):
        ad = slot(own, Name=ExprTree(computed), Site="eve.test", Alias=own)
        assert "not a plain string" in await collector.advertise(eve, ad, key=own)
    hosts = slot(own, Machine=ExprTree("Site"), Site="eve.test")
    assert "not a plain string" in await collector.advertise(eve, hosts)
    assert await collector.advertise(eve, slot(own)) == ""
    builder = PackBuilder()
    builder.update(own, ClassAd({"NAME": ExprTree("Alias"), "Alias": own}))
    assert "not a plain string" in await collector.send(eve, builder.finish())
    submitter = {"Name": "ann@test", "ScheddName": ExprTree('strcat("two@", "eve.test")')}
    assert "plain string" in await collector.advertise(eve, submitter, kind="Submitter", key="ann@test#two@eve.test")


async def test_an_ad_does_not_lead_to_the_daemon_of_another(collector: _Collector) -> None:
    """A command for a glide-in, or a host, reached the master that its ad named: that of the central manager."""
    eve, glidein = collector.host("eve.test"), metadata("ADVERTISE_STARTD", "ADVERTISE_MASTER", identity="glidein@test")
    master = "cm.test:9618?sock=master"
    # All call from the collector's own host here, where a host's daemons may have no other address than a socket.
    assert await collector.advertise(eve, slot("slot1@eve.test", MyAddress="unix:/run/startd.sock")) == ""
    for address in (master, f"<{master}>", "cm.test:9618", "10.0.0.1:9618?sock=master", "unix:/run/master.sock", ""):
        for who, host in ((eve, "eve.test"), (glidein, "glidein@node7")):
            if who is eve and (not address or address.startswith("unix:")):
                continue
            ad = {"Name": host, "Machine": host.rpartition("@")[2], "MyAddress": address}
            assert "MyAddress" in await collector.advertise(who, ad, kind="DaemonMaster"), address
    own = "slot1@eve.test"
    for name in ("StartdIpAddr", "MyAddress"):
        assert name in await collector.advertise(eve, slot(own, **{name: "victim.test:9618?sock=startd"}))
    computed = slot(own, MyAddress=ExprTree('strcat("cm.test", ":9618")'))
    assert "plain string" in await collector.advertise(eve, computed)
    places = {"MyAddress": "gate.test:9618?alias=eve.test&sock=startd", "StartdIpAddr": "EVE.test:9618?sock=startd"}
    assert await collector.advertise(eve, slot(own, **places)) == ""
    builder = PackBuilder()
    builder.update(own, ClassAd({"MyAddress": master}))
    assert "not one of eve.test" in await collector.send(eve, builder.finish())
    # Callers hold a glide-in to its key, at whatever host it runs.
    assert await collector.advertise(glidein, slot("slot1@node7", MyAddress="node7.test:4711?key=AbC")) == ""
    scheduler = {"Name": "eve.test", "Machine": "eve.test", "ScheddIpAddr": "ap.test:9618?sock=schedd"}
    assert "ScheddIpAddr" in await collector.advertise(eve, scheduler, kind="Scheduler")


def test_an_address_of_the_collectors_own_host_is_taken_from_that_host_alone() -> None:
    """Elsewhere it means the daemons of whoever reads the ad."""
    host = Identity("condor@eve.test", frozenset({"ADVERTISE_MASTER"}))
    pack = pack_keys(
        pack_ads([ClassAd({"Name": "eve.test", "MyAddress": "unix:/run/master.sock"})], ["eve.test"]), NAMING
    )
    for is_here, has_proof in ((True, True), (True, False), (False, True), (False, False)):
        why = misnamed(sender_of(host, has_proof=has_proof, is_here=is_here), "DaemonMaster", pack)
        assert (why is None) is (is_here and has_proof), why


async def test_who_has_but_a_token_has_what_it_advertised_first(collector: _Collector) -> None:
    ann, eve = metadata("ADVERTISE_STARTD"), metadata("ADVERTISE_STARTD", identity="eve@test")
    administrator = metadata("ADMINISTRATOR", "DAEMON", identity="root@test")
    assert await collector.advertise(ann, slot("glidein@node")) == ""
    assert "is an ad of ann@test" in await collector.advertise(eve, slot("GLIDEIN@node", Cpus=99))
    with pytest.raises(grpc.RpcError):
        await collector.take_back(eve, "glidein@node")
    assert await collector.advertise(ann, slot("glidein@node", Cpus=5)) == ""
    # An administrator releases the name.
    assert await collector.take_back(administrator, "glidein@node") == 1
    assert await collector.advertise(eve, slot("glidein@node", Cpus=6)) == ""
    # A host has its own names, whoever was first.
    assert await collector.advertise(collector.host("node"), slot("glidein@node", Cpus=7)) == ""
    assert "is a name of node, which proves to be" in await collector.advertise(eve, slot("glidein@node", Cpus=99))
    assert collector.cpus("glidein@node") == 7


async def test_the_rooster_notes_in_ads_of_slots_and_in_no_others(collector: _Collector) -> None:
    ep, rooster = collector.host("ep.test"), collector.host("cm.test", "WAKEUP")
    assert await collector.advertise(ep, slot("slot1@ep.test")) == ""
    builder = PackBuilder()
    builder.update("slot1@ep.test", ClassAd({"LastWakeupCall": 5}))
    assert await collector.send(rooster, builder.finish()) == ""
    assert "is not a name of cm.test" in await collector.advertise(rooster, slot("slot2@ep.test"))
    for kind in ("Negotiator", "Accounting", "Defrag"):
        assert "may not advertise" in await collector.advertise(rooster, {"Name": "cm.test"}, kind=kind)
    assert await collector.advertise(collector.host("cm.test", "DRAIN"), {"Name": "cm.test"}, kind="Defrag") == ""


async def test_the_negotiator_notes_in_ads_and_makes_none(collector: _Collector) -> None:
    ep, negotiator = collector.host("ep.test"), collector.host("cm.test", "NEGOTIATOR")
    assert await collector.advertise(ep, slot("slot1@ep.test")) == ""
    builder = PackBuilder()
    builder.update("slot1@ep.test", ClassAd({"MachineLastMatchTime": 5}))
    assert await collector.send(negotiator, builder.finish()) == ""
    assert "is not a name of cm.test" in await collector.advertise(negotiator, slot("slot2@ep.test"))
    assert await collector.advertise(ep, slot("slot1@ep.test", Cpus=8)) == ""
    assert await collector.advertise(negotiator, {"Name": "cm.test"}, kind="Negotiator") == ""
    other = collector.host("cm2.test", "NEGOTIATOR")
    assert "is an ad of condor@cm.test" in await collector.advertise(other, {"Name": "cm.test"}, kind="Negotiator")
