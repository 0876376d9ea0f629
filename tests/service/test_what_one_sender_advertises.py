"""What names ads have in the collector, and how many ads one sender gets in."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.clock import ManualClock
from slotwise.collector.ad_bounds import AdBounds, AdLimits
from slotwise.collector.naming import LONGEST
from slotwise.collector.ownership import Sender
from slotwise.collector.service import LONGEST_LIFE_S, CollectorServicer
from slotwise.collector.store import AdStore
from slotwise.table import PackBuilder, pack_ads
from slotwise.wire import call
from slotwise.wire.channel import open_async
from slotwise.wire.credential import HostCredential
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc
from slotwise.wire.keys import SigningKey, public_text
from slotwise.wire.server import listen, make_server
from slotwise.wire.token import Identity

from tests.support.serving import authenticator, metadata, token

_LEVELS = ("ADVERTISE_STARTD", "ADVERTISE_SCHEDD", "ADVERTISE_MASTER")


class Pool:
    """A collector, and callers."""

    def __init__(self, stub: collector_pb2_grpc.CollectorStub, target: str) -> None:
        self.stub = stub
        self.clock = ManualClock(1000.0)
        self.store = AdStore()
        self.servicer = CollectorServicer(self.store, self.clock, lambda: None)
        self._target = target

    def host(self, name: str) -> Any:
        """What a daemon of host ``name`` shows."""
        key = SigningKey.generate()
        word = token(*_LEVELS, identity=f"condor@{name}", bound_to=public_text(key.public))
        return HostCredential(f"condor@{name}", key, lambda: word, _LEVELS, time.time).metadata(self._target)

    async def advertise(self, who: Any, names: Iterable[str], kind: str = "Machine", **more: Any) -> list[str]:
        """Advertise ads of these names; why some were refused."""
        ads = [ClassAd({"MyType": kind, "Name": name} | more) for name in names]
        return await self.send(who, pack_ads(ads, [str(ad["Name"]) for ad in ads]), kind)

    async def send(self, who: Any, pack: bytes, kind: str = "Machine") -> list[str]:
        request = collector_pb2.AdvertiseRequest(kind=kind, pack=pack)
        return [why async for reply in self.stub.Advertise(iter([request]), metadata=who) for why in reply.refused]

    def names(self, kind: str = "Machine") -> set[str]:
        return set(self.store.table(kind).keys())


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with contextlib.AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="sw-"))
        socket = Path(directory) / "test.sock"
        server = make_server(authenticator(str(socket)))
        opened = await stack.enter_async_context(open_async(f"unix:{socket}"))
        made = Pool(collector_pb2_grpc.CollectorStub(opened), f"unix:{socket}")
        collector_pb2_grpc.add_CollectorServicer_to_server(made.servicer, server)
        listen(server, socket=socket)
        await server.start()
        stack.push_async_callback(server.stop, None)
        yield made


#: Names that HTCondor's daemons have.
LEGAL = {
    "Machine": ("slot1@ep.x", "slot1_1@ep.x", "slot1@big@ep.x", "ep.x", "gpu_slot2_12@ep.x"),
    "StartDaemon": ("ep.x", "glidein_12@ep.x"),
    "Scheduler": ("ep.x", "second@ep.x", "grid@", "DedicatedScheduler@second@ep.x"),
    "Submitter": ("ann@x#ep.x", "group_a.b.ann@x#second@ep.x", "ann@x#grid@"),
    "DaemonMaster": ("ep.x",),
}
#: What is no name, and what is said of it.
WRONG = {
    "slot1@ep.x#evil.x": "#",
    "slot1@ep.x  Unclaimed Idle@ep.x": "blank",
    "slot1@ep.x\nslot2@ep.x": "line ends",
    "slot1\r@ep.x": "line ends",
    "slot1\u2028@ep.x": "no terminal shows",
    "slot1\u202e@ep.x": "no terminal shows",
    "slot1\x1b[2K@ep.x": "control",
    "": "empty",
    " ": "empty",
    "@ep.x": "nothing before",
    "s" * LONGEST + "@ep.x": "characters",
}


async def test_names_of_htcondor_are_taken(pool: Pool) -> None:
    administrator = metadata("ADMINISTRATOR", *_LEVELS)
    for kind, names in LEGAL.items():
        assert await pool.advertise(administrator, names, kind) == [], kind
        assert pool.names(kind) == set(names)
    assert await pool.advertise(metadata("DAEMON"), ["My Pool - cm", "a b"], "Custom") == []


@pytest.mark.parametrize("who", ["administrator", "host"])
async def test_what_is_no_name_is_refused_with_the_reason_and_the_rest_is_taken(
    pool: Pool, who: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "refusals", call.RefusalLog())
    shown = pool.host("ep.x") if who == "host" else metadata("ADMINISTRATOR", *_LEVELS)
    caplog.set_level(logging.INFO)
    for name, why in WRONG.items():
        for kind in ("Machine", "Scheduler"):
            said = await pool.advertise(
                shown, [name, "slot1@ep.x"], kind, Machine="ep.x", MyAddress="<10.0.0.1:9?alias=ep.x>"
            )
            assert len(said) == 1 and why in said[0], (name, said)
            assert said[0].isprintable()
            assert pool.names(kind) == {"slot1@ep.x"}
    assert "refused a Machine ad of" in caplog.text and "has a #" in caplog.text


async def test_submitters_and_machines_of_ads_are_names_too(pool: Pool) -> None:
    shown = metadata("ADMINISTRATOR", *_LEVELS)
    for key in ("a b@x#ep.x", "ann@x#ep.x#other", "ann@x#", "#ep.x", "ann@x#two words@ep.x"):
        assert len(await pool.advertise(shown, [key], "Submitter")) == 1, key
    fleet = metadata("ADVERTISE_STARTD", identity="glidein@x")
    for machine in ("ep.x\nslot9@ep.x LINUX", "ep.x LINUX X86_64", "ep.x #", ""):
        said = await pool.advertise(fleet, ["slot1@ep.x"], Machine=machine)
        assert len(said) == 1 and "Machine =" in said[0], machine
    assert len(await pool.advertise(shown, ["slot1@ep.x"], Machine="ep.x\nslot9@ep.x LINUX")) == 1
    assert not pool.names() and not pool.names("Submitter")
    assert await pool.advertise(shown, ["slot1@ep.x"], Machine="ep.x") == []
    changes = PackBuilder()
    changes.update("slot1@ep.x", ClassAd({"Machine": "forged\nrow"}))
    assert len(await pool.send(shown, changes.finish())) == 1
    assert pool.store.table("Machine").get("slot1@ep.x")["Machine"] == "ep.x"  # type: ignore[index]


async def test_a_token_alone_adds_so_many_ads_at_a_time_and_the_others_later(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    pool.servicer.ad_bounds.limits = AdLimits(of_identity=1000, new_a_minute=120)
    fleet, other = metadata("ADVERTISE_STARTD", identity="glidein@x"), metadata("ADVERTISE_STARTD", identity="b@x")
    names = [f"slot{n}@glidein.x" for n in range(200)]
    said = await pool.advertise(fleet, names)
    assert len(said) == 1 and "80 new ads of glidein@x are more than SLOTWISE_MAX_NEW_ADS_PER_MINUTE = 120" in said[0]
    assert pool.names() == set(names[:120])
    assert len(await pool.advertise(fleet, names)) == 1
    # What is there is renewed all the while, and nobody else waits.
    assert await pool.advertise(fleet, names[:120]) == []
    assert await pool.advertise(other, ["slot1@other.x"]) == []
    pool.clock.advance(30.0)
    said = await pool.advertise(fleet, names)
    assert "20 new ads" in said[0] and len(pool.names()) == 181
    pool.clock.advance(10.0)
    assert await pool.advertise(fleet, names) == []
    assert caplog.text.count("refused Machine ads from") == 1, "once a minute"
    pool.clock.advance(60.0)
    await pool.advertise(fleet, [f"slot{n}@more.x" for n in range(200)])
    assert caplog.text.count("refused Machine ads from") == 2


async def test_a_host_and_an_identity_have_so_many_ads_in_all_whatever_they_are_called(pool: Pool) -> None:
    pool.servicer.ad_bounds.limits = AdLimits(of_host=10, of_identity=5)
    host, fleet = pool.host("ep.x"), metadata("ADVERTISE_STARTD", identity="glidein@x")
    said = await pool.advertise(host, [f"slot{n}@ep.x" for n in range(12)], Machine="ep.x")
    assert "2 new ads of condor@ep.x are more than SLOTWISE_MAX_ADS_PER_HOST = 10" in said[0]
    said = await pool.advertise(host, ["ann@x#ep.x"], "Submitter", ScheddName="ep.x")
    assert len(said) == 1 and not pool.names("Submitter")
    said = await pool.advertise(fleet, [f"slot1@g{n}.x" for n in range(7)])
    assert "SLOTWISE_MAX_ADS_PER_IDENTITY = 5" in said[0] and len(pool.names()) == 15
    # Ads that are taken back make room, and so do those that expire.
    request = collector_pb2.InvalidateRequest(kind="Machine", keys=["slot1@g0.x"])
    assert (await pool.stub.Invalidate(request, metadata=fleet)).removed == 1
    assert await pool.advertise(fleet, ["slot1@g7.x"]) == []
    changes = PackBuilder()
    changes.remove("slot1@g1.x")
    assert await pool.send(fleet, changes.finish()) == []
    assert await pool.advertise(fleet, ["slot1@g8.x"]) == []
    assert len(await pool.advertise(fleet, ["slot1@g9.x"])) == 1
    administrator = metadata("ADMINISTRATOR", "ADVERTISE_STARTD")
    assert await pool.advertise(administrator, [f"slot1@a{n}.x" for n in range(50)]) == []


async def test_the_ads_of_an_identity_have_so_many_bytes_whatever_their_number(pool: Pool) -> None:
    pool.servicer.ad_bounds.limits = AdLimits(bytes_of_identity=2 << 20)
    fleet, other = metadata("ADVERTISE_STARTD", identity="glidein@x"), metadata("ADVERTISE_STARTD", identity="b@x")
    large = "x" * 300_000

    def held(who: str = "glidein@x") -> int:
        return pool.servicer.owners.bytes_of(who)

    # Of one text, which a pack has once; and each of its own.
    said = await pool.advertise(fleet, [f"slot{n}@g.x" for n in range(9)], Text=large)
    assert len(said) == 1 and "larger than SLOTWISE_MAX_AD_MB_PER_IDENTITY = 2 allows" in said[0]
    assert len(pool.names()) == 6 and 1_800_000 < held() <= 2 << 20
    assert len(await pool.advertise(fleet, ["slot9@g.x"], Text=f"9{large}")) == 1
    assert await pool.advertise(fleet, ["slot10@g.x"]) == []
    assert await pool.advertise(other, ["slot1@other.x"], Text=large) == []
    # A larger ad in the place of one that is there, and a change, which as text or as an expression is as large.
    assert len(await pool.advertise(fleet, ["slot0@g.x"], Text=large * 3)) == 1
    for value in (large * 3, ExprTree(f'strcat("{large}", "{large}")')):
        changes = PackBuilder()
        changes.update("slot0@g.x", ClassAd({"More": value}))
        assert len(await pool.send(fleet, changes.finish())) == 1
    assert held() <= 2 << 20
    # Smaller ones, and ads that go, make room.
    assert await pool.advertise(fleet, ["slot0@g.x"]) == []
    assert await pool.advertise(fleet, ["slot9@g.x"], Text=f"9{large}") == []
    request = collector_pb2.InvalidateRequest(kind="Machine", keys=sorted(pool.names() - {"slot1@other.x"}))
    await pool.stub.Invalidate(request, metadata=fleet)
    assert held() == 0 and held("b@x") > 0
    administrator = metadata("ADMINISTRATOR", "ADVERTISE_STARTD")
    assert await pool.advertise(administrator, [f"slot1@a{n}.x" for n in range(20)], Text=large) == []


async def test_changes_that_replace_what_was_there_do_not_add_up_for_ever(pool: Pool) -> None:
    pool.servicer.ad_bounds.limits = AdLimits(bytes_of_identity=1 << 20)
    fleet = metadata("ADVERTISE_STARTD", identity="glidein@x")
    assert await pool.advertise(fleet, ["slot1@g.x"], Text="x" * 1000) == []
    for n in range(200):
        changes = PackBuilder()
        changes.update("slot1@g.x", ClassAd({"Text": f"{n}" + "y" * 50_000}))
        assert await pool.send(fleet, changes.finish()) == []
    assert pool.servicer.owners.bytes_of("glidein@x") < 200_000


async def test_a_token_alone_does_not_pass_for_a_host_that_proves_its_name(pool: Pool) -> None:
    fleet = metadata("ADVERTISE_STARTD", identity="glidein@x")
    assert await pool.advertise(pool.host("ep.x"), ["slot1@ep.x"], Machine="ep.x") == []
    for name, machine in (
        ("slot2@ep.x", "other.x"),
        ("glidein_1@EP.x", "ep.x"),
        ("slot1@other.x", "ep.x"),
        ("slot1@other.x", "EP.X"),
        ("slot1@other.x", ExprTree('strcat("ep", ".x")')),
    ):
        for kind in ("Machine", "StartDaemon"):
            said = await pool.advertise(fleet, [name], kind, Machine=machine)
            assert len(said) == 1 and ("prove" in said[0] or "plain string" in said[0]), (name, machine)
    assert pool.names() == {"slot1@ep.x"}
    assert await pool.advertise(fleet, ["slot1@other.x"], Machine="other.x") == []
    changes = PackBuilder()
    changes.update("slot1@other.x", ClassAd({"Machine": "ep.x"}))
    assert len(await pool.send(fleet, changes.finish())) == 1
    # A host that is removed has its name no more.
    pool.servicer.owners.dropped("ep.x")
    assert await pool.advertise(fleet, ["slot2@ep.x"], Machine="ep.x") == []


async def test_no_ad_outlives_its_sender_by_more_than_a_day(pool: Pool) -> None:
    fleet, host = metadata("ADVERTISE_STARTD", identity="glidein@x"), pool.host("ep.x")
    for value in (10**9, 1e18):
        assert await pool.advertise(fleet, ["slot1@g.x"], Machine="g.x", ClassAdLifetime=value) == []
        assert await pool.advertise(host, ["slot1@ep.x"], Machine="ep.x", ClassAdLifetime=value) == []
        assert await pool.advertise(fleet, ["slot2@g.x"], Machine="g.x", ClassAdLifetime=600) == []
        changes = PackBuilder()
        changes.update("slot2@g.x", ClassAd({"classadlifetime": value}))
        assert await pool.send(fleet, changes.finish()) == []
    administrator = metadata("ADMINISTRATOR", "ADVERTISE_STARTD")
    assert await pool.advertise(administrator, ["slot1@a.x"], ClassAdLifetime=10**9) == []
    assert not pool.store.expire(pool.clock.now() + LONGEST_LIFE_S, 900.0)
    assert pool.store.expire(pool.clock.now() + LONGEST_LIFE_S + 1, 900.0) == {"Machine": 3}
    assert pool.names() == {"slot1@a.x"}


def test_a_fleet_at_many_addresses_grows_at_all_of_them_and_memory_of_senders_is_bounded() -> None:
    bounds = AdBounds(AdLimits(of_identity=300_000, new_a_minute=10_000))
    fleet = Sender(Identity("glidein@x", frozenset({"ADVERTISE_STARTD"})))
    held = 0
    for n in range(40):
        room, _ = bounds.room(fleet, f"10.0.0.{n}", held, 9000, 0.0)
        held += room
    assert held == 300_000
    for n in range(30_000):
        bounds.room(Sender(Identity(f"{n}@x", frozenset())), "10.0.0.1", 0, 1, 0.0)
    assert len(bounds._left) <= 10_000
