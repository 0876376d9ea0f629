"""The negotiator daemon between a real collector and a schedd that plays a part, over real gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd, ExprTree, define_user_map
from slotwise.classad.machine import forget_user_maps
from slotwise.clock import SystemClock
from slotwise.collector.service import CollectorServicer
from slotwise.collector.store import AdStore
from slotwise.home import PoolHome
from slotwise.negotiator.app import Negotiator
from slotwise.negotiator.snapshot import read_snapshot
from slotwise.negotiator.store import AccountingStore
from slotwise.table import pack_ads, unpack_ads
from slotwise.wire import address, channel
from slotwise.wire.address import DaemonAddress
from slotwise.wire.gen import (
    collector_pb2,
    collector_pb2_grpc,
    common_pb2,
    negotiator_pb2,
    negotiator_pb2_grpc,
    schedd_pb2,
    schedd_pb2_grpc,
    startd_pb2,
    startd_pb2_grpc,
)
from slotwise.wire.security import Authenticator
from slotwise.wire.server import listen, make_server

from tests.support.serving import KEY, daemon_context, metadata

DAEMON, READ, ADMIN = metadata("DAEMON"), metadata("READ"), metadata("ADMINISTRATOR")


class ActingSchedd(schedd_pb2_grpc.ScheddServicer):
    """Asks for what the test says, and remembers what it was offered."""

    def __init__(self) -> None:
        #: Clear: it takes its time to answer.
        self.answers = asyncio.Event()
        self.answers.set()
        self.requests: list[dict[str, Any]] = []
        self.offers: list[schedd_pb2.MatchBatch] = []
        self.fails = False
        #: What became of matches; None: it does not tell.
        self.fates: list[schedd_pb2.MatchFate] | None = None

    async def ResourceRequests(self, request: Any, context: Any) -> AsyncIterator[schedd_pb2.RequestList]:
        if self.fails:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        await self.answers.wait()
        if self.fates is not None:
            yield schedd_pb2.RequestList(fates=self.fates, tells_fates=True)
            self.fates = []
        counts: dict[str, int] = {}
        for ad in self.requests:
            counts[ad["Submitter"]] = counts.get(ad["Submitter"], 0) + ad["ResourceRequestCount"]
            yield schedd_pb2.RequestList(pack=pack_ads([ClassAd(ad)]))
        submitters = [
            ClassAd({"MyType": "Submitter", "Name": n, "IdleJobs": c, "RunningJobs": 0, "ScheddIpAddr": "here"})
            for n, c in counts.items()
        ]
        yield schedd_pb2.RequestList(submitters=pack_ads(submitters), done=True)

    async def OfferMatches(self, request: schedd_pb2.MatchBatch, context: Any) -> common_pb2.Empty:
        self.offers.append(request)
        return common_pb2.Empty()


class ActingStartd(startd_pb2_grpc.StartdServicer):
    """Remembers of which matches it was told, and whether the access point knew them by then."""

    def __init__(self, schedd: ActingSchedd) -> None:
        self.schedd = schedd
        self.notices: list[tuple[list[str], int]] = []

    async def NoticeMatch(self, request: startd_pb2.MatchNotice, context: Any) -> common_pb2.Empty:
        self.notices.append((sorted(request.claim_ids), len(self.schedd.offers)))
        return common_pb2.Empty()


def wants(submitter: str, count: int, cluster: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "MyType": "Job",
        "ClusterId": cluster,
        "ProcId": 0,
        "Owner": submitter.partition("@")[0],
        "User": submitter,
        "Submitter": submitter,
        "AutoClusterId": cluster,
        "ResourceRequestCount": count,
        "FirstJobId": f"{cluster}.0",
        "JobPrio": 0,
        "QDate": 1,
        "JobUniverse": 5,
        "JobStatus": 1,
        "RequestCpus": 1,
        "RequestMemory": 100,
        "RequestDisk": 100,
        "Requirements": ExprTree("TARGET.Cpus >= RequestCpus && TARGET.Memory >= RequestMemory"),
    } | more


def slot(n: int, **more: Any) -> dict[str, Any]:
    return {
        "MyType": "Machine",
        "Name": f"slot{n}@h",
        "Machine": "h",
        "MyAddress": "unix:/startd.sock",
        "Cpus": 1,
        "Memory": 1000,
        "Disk": 100000,
        "SlotWeight": ExprTree("Cpus"),
        "State": "Unclaimed",
        "Activity": "Idle",
        "Requirements": ExprTree("START"),
        "START": True,
        "Rank": 0.0,
        "CurrentRank": 0.0,
        "UpdateSequenceNumber": 1,
    } | more


class Harness:
    """A negotiator under test with its neighbours."""

    def __init__(self, home: PoolHome, server: grpc.aio.Server, opened: grpc.aio.Channel, store: AdStore) -> None:
        self.home, self.server, self.ads = home, server, store
        self.schedd = ActingSchedd()
        self.startd = ActingStartd(self.schedd)
        self.collector = collector_pb2_grpc.CollectorStub(opened)
        self.stub = negotiator_pb2_grpc.NegotiatorStub(opened)
        self.negotiator: Negotiator

    async def slots(self, *ads: dict[str, Any]) -> None:
        """Advertise slots and their capabilities, and wait until the negotiator has seen them."""
        names = [ad["Name"] for ad in ads]
        claims = [ClassAd({"Name": name, "ClaimId": f"claim of {name}"}) for name in names]
        batches = [(pack_ads(claims, names), True), (pack_ads([ClassAd(ad) for ad in ads], names), False)]
        requests = [collector_pb2.AdvertiseRequest(kind="Machine", pack=p, private=private) for p, private in batches]
        async for reply in self.collector.Advertise(iter(requests), metadata=DAEMON):
            assert not reply.refused
        last = ads[-1]
        mirror = self.negotiator.cycles.mirror
        await until(
            lambda: (
                last["Name"] in mirror.slots
                and last["Name"] in mirror.capabilities
                and mirror.slots.value(last["Name"], "UpdateSequenceNumber") == last["UpdateSequenceNumber"]
            )
        )

    async def restart(self) -> None:
        """A new negotiator on the database of the one before."""
        await self.negotiator.stop("fast")
        self.negotiator = Negotiator(self.negotiator._context)
        mirror = self.negotiator.cycles.mirror
        await until(lambda: mirror.complete.is_set() and self.negotiator.cycles.history.cycles)

    async def cycle(self) -> list[schedd_pb2.Match]:
        """Run a cycle now; the matches it offered."""
        before = len(self.schedd.offers)
        await self.negotiator.cycles.run("test")
        return [m for batch in self.schedd.offers[before:] for s in batch.submitters for m in s.matches]


async def until(true: Callable[[], Any], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not true():
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def harness(**knobs: str) -> AsyncIterator[Harness]:
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        home = PoolHome(Path(directory) / "home")
        home.create()
        server = make_server(Authenticator(KEY))
        store = AdStore()
        _, socket = listen(server, socket=home.run / "all.sock")
        for name in ("collector", "schedd"):
            address.publish(home, DaemonAddress(name, 1, "", socket, name="host.test"))
        collector = CollectorServicer(store, clock, lambda: None)
        collector_pb2_grpc.add_CollectorServicer_to_server(collector, server)
        async with channel.open_async(f"unix:{socket}") as opened:
            made = Harness(home, server, opened, store)
            schedd_pb2_grpc.add_ScheddServicer_to_server(made.schedd, server)
            startd_pb2_grpc.add_StartdServicer_to_server(made.startd, server)
            # The regular timer stays out of the way: tests run cycles themselves, or ask for them.
            quiet = {"NEGOTIATOR_INTERVAL": "3600", "NEGOTIATOR_CYCLE_DELAY": "3600"}
            context = daemon_context(home, "negotiator", server, clock, quiet | knobs)
            made.negotiator = Negotiator(context)
            negotiator_pb2_grpc.add_NegotiatorServicer_to_server(made.negotiator.servicer, server)
            await server.start()
            try:
                await until(lambda: made.negotiator.cycles.history.cycles)
                yield made
            finally:
                await made.negotiator.stop("fast")
                await server.stop(grace=None)


@pytest.fixture
async def pool() -> AsyncIterator[Harness]:
    async with harness() as made:
        yield made


async def test_matches_carry_the_claim_the_address_and_the_slot(pool: Harness) -> None:
    await pool.slots(slot(1), slot(2))
    pool.schedd.requests = [wants("ann@d", 1)]
    (match,) = await pool.cycle()
    assert match.claim_id == f"claim of {match.slot_name}"
    assert match.startd_address == "unix:/startd.sock"
    assert match.autocluster_id == 1
    (ad,) = unpack_ads(match.slot_ad)
    assert ad["Name"] == match.slot_name and ad["State"] == "Unclaimed"


@pytest.mark.parametrize("inform", [False, True])
async def test_startds_are_told_of_matches_before_the_schedds_only_if_so_configured(inform: bool) -> None:
    async with harness(NEGOTIATOR_INFORM_STARTD=str(inform)) as pool:
        here = f"unix:{pool.home.run / 'all.sock'}"
        await pool.slots(slot(1, MyAddress=here), slot(2, MyAddress=here), slot(3, MyAddress=here, START=False))
        pool.schedd.requests = [wants("ann@d", 2)]
        before = len(pool.schedd.offers)
        assert len(await pool.cycle()) == 2
        assert pool.startd.notices == ([(["claim of slot1@h", "claim of slot2@h"], before)] if inform else [])


async def test_a_startd_that_cannot_be_told_costs_nobody_the_match() -> None:
    async with harness(NEGOTIATOR_INFORM_STARTD="true") as pool:
        await pool.slots(slot(1, MyAddress=f"unix:{pool.home.run / 'nobody.sock'}"))
        pool.schedd.requests = [wants("ann@d", 1)]
        assert [match.slot_name for match in await pool.cycle()] == ["slot1@h"]


async def test_a_slot_is_not_given_twice_before_its_startd_reports(pool: Harness) -> None:
    await pool.slots(slot(1), slot(2))
    pool.schedd.requests = [wants("ann@d", 1)]
    first = await pool.cycle()
    second = await pool.cycle()
    third = await pool.cycle()
    assert {first[0].slot_name, second[0].slot_name} == {"slot1@h", "slot2@h"}
    assert third == []
    # News of the slot, claimed and released meanwhile: it may be given again.
    await pool.slots(slot(1, UpdateSequenceNumber=2))
    (again,) = await pool.cycle()
    assert again.slot_name == "slot1@h"
    assert "slot1@h" in pool.negotiator.cycles.mirror.slots
    assert pool.negotiator.cycles.mirror.slots.value("slot1@h", "State") == "Unclaimed"


async def test_a_refused_match_frees_its_slot_at_once_and_no_news_do_before(pool: Harness) -> None:
    pool.schedd.fates = []
    await pool.slots(slot(1))
    pool.schedd.requests = [wants("ann@d", 2)]
    (made,) = await pool.cycle()
    assert made.match_id
    await pool.slots(slot(1, UpdateSequenceNumber=2))
    assert await pool.cycle() == []
    over = schedd_pb2.MatchFate(match_id=made.match_id, what=schedd_pb2.MatchFate.OVER, count=1)
    pool.schedd.fates = [over]
    assert [m.slot_name for m in await pool.cycle()] == ["slot1@h"]


async def test_a_partitionable_slot_is_carved_once_for_each_match_and_stays_carved(pool: Harness) -> None:
    await pool.slots(slot(1, Cpus=4, Memory=4000, PartitionableSlot=True, SlotType="Partitionable"))
    pool.schedd.requests = [wants("ann@d", 3)]
    matches = await pool.cycle()
    assert sum(m.count for m in matches) == 3
    assert {m.slot_name for m in matches} == {"slot1@h"}
    matches = await pool.cycle()
    assert sum(m.count for m in matches) == 1, "only one core is left until the startd reports"
    assert pool.negotiator.cycles.mirror.slots.keys() == ["slot1@h"]


async def test_what_is_in_flight_counts_as_usage(pool: Harness) -> None:
    await pool.slots(*(slot(n) for n in range(1, 5)))
    pool.schedd.requests = [wants("ann@d", 2)]
    await pool.cycle()
    pool.schedd.requests = []
    await pool.cycle()
    assert pool.negotiator.cycles.books.records["ann@d"]["weighted_resources_used"] == pytest.approx(2.0)


async def test_who_gets_nothing_is_told_why(pool: Harness) -> None:
    await pool.slots(slot(1))
    pool.schedd.requests = [wants("ann@d", 2, RequestMemory=10**6)]
    assert await pool.cycle() == []
    (batch,) = pool.schedd.offers[-1:]
    (rejection,) = batch.submitters[0].rejections
    assert rejection.autocluster_id == 1 and rejection.count == 2 and rejection.reason


async def test_new_work_starts_a_cycle_at_once_and_asks_are_gathered(pool: Harness) -> None:
    await pool.slots(*(slot(n) for n in range(1, 9)))
    pool.schedd.requests = [wants("ann@d", 1)]
    cycles = len(pool.negotiator.cycles.history.cycles)
    ask = negotiator_pb2.RescheduleRequest(schedd_name="host.test", on_demand=True)
    await asyncio.gather(*(pool.stub.Reschedule(ask, metadata=DAEMON) for _ in range(20)))
    await until(lambda: pool.schedd.offers)
    await asyncio.sleep(0)
    assert len(pool.negotiator.cycles.history.cycles) - cycles < 20


async def test_a_freed_slot_serves_what_waits(pool: Harness) -> None:
    await pool.slots(slot(1, State="Owner", START=False))
    pool.schedd.requests = [wants("ann@d", 1)]
    assert await pool.cycle() == []
    await pool.slots(slot(1, UpdateSequenceNumber=2))
    await until(lambda: any(s.matches for batch in pool.schedd.offers for s in batch.submitters))


async def test_a_schedd_that_does_not_answer_is_left_out(pool: Harness) -> None:
    pool.schedd.fails = True
    report = await pool.negotiator.cycles.run("test")
    assert report.failed_schedds == ["host.test"]
    pool.schedd.fails = False
    assert (await pool.negotiator.cycles.run("test")).failed_schedds == []


async def accounting(pool: Harness) -> dict[str, Any]:
    query, data = common_pb2.AdQuery(kind="Accounting", form=common_pb2.AdQuery.JSON), b""
    async for chunk in pool.stub.Accounting(query, metadata=READ):
        data += chunk.data
    return {ad["Name"]: ad for ad in json.loads(data)}


async def edit(pool: Harness, what: str, submitter: str, value: float = 0.0, duration_s: int = 0) -> None:
    request = negotiator_pb2.AccountingEdit(
        what=negotiator_pb2.AccountingEdit.What.Value(what), submitter=submitter, value=value, duration_s=duration_s
    )
    await pool.stub.EditAccounting(request, metadata=ADMIN)


async def test_settings_are_kept_on_disk(pool: Harness) -> None:
    await edit(pool, "FACTOR", "ann@d", 2000)
    await edit(pool, "CEILING", "ann@d", 7)
    await edit(pool, "PRIORITY", "ann@d", 3.5)
    ad = (await accounting(pool))["ann@d"]
    assert (ad["PriorityFactor"], ad["Ceiling"], ad["Priority"]) == (2000, 7, 7000)
    from slotwise.negotiator.store import AccountingStore

    again = AccountingStore(pool.home.spool / "accounting.db")
    assert again.records()["ann@d"]["factor"] == 2000
    again.close()
    await pool.cycle()
    assert (await accounting(pool))["ann@d"]["Ceiling"] == 7


async def test_a_ceiling_holds_in_the_next_cycle(pool: Harness) -> None:
    await pool.slots(*(slot(n) for n in range(1, 9)))
    await edit(pool, "CEILING", "ann@d", 3)
    pool.schedd.requests = [wants("ann@d", 8)]
    assert sum(m.count for m in await pool.cycle()) == 3


async def test_accounts_are_edited_while_a_cycle_runs(pool: Harness) -> None:
    await pool.slots(slot(1))
    pool.schedd.requests = [wants("ann@d", 1), wants("bob@d", 1, 2)]
    await pool.cycle()
    pool.schedd.answers.clear()
    running = asyncio.create_task(pool.cycle())
    await until(lambda: pool.negotiator.cycles.lock.locked())
    await edit(pool, "FACTOR", "ann@d", 7)
    pool.schedd.answers.set()
    await running
    assert pool.negotiator.cycles.books.records["ann@d"]["factor"] == 7


async def test_a_lease_cannot_be_taken_twice_and_can_be_cancelled(pool: Harness) -> None:
    await edit(pool, "CEILING", "ann@d", 9)
    await edit(pool, "CEILING", "ann@d", 3, duration_s=3600)
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await edit(pool, "CEILING", "ann@d", 4, duration_s=3600)
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await edit(pool, "CANCEL_CEILING_LEASE", "ann@d")
    assert (await accounting(pool))["ann@d"]["Ceiling"] == 9


async def test_only_administrators_edit(pool: Harness) -> None:
    request = negotiator_pb2.AccountingEdit(what=negotiator_pb2.AccountingEdit.FACTOR, submitter="a@d", value=2)
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await pool.stub.EditAccounting(request, metadata=DAEMON)
    assert failure.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_its_ads_reach_the_collector(pool: Harness) -> None:
    await pool.slots(slot(1))
    pool.schedd.requests = [wants("ann@d", 1)]
    await pool.cycle()
    pool.negotiator._publish_soon()
    await until(lambda: "ann@d" in pool.ads.table("Accounting"))
    await until(lambda: pool.ads.table("Negotiator").value("host.test", "LastNegotiationCycleMatches0") == 1)


async def saved(pool: Harness, dry_run: bool = False) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    async for piece in pool.stub.Snapshot(negotiator_pb2.SnapshotRequest(dry_run=dry_run), metadata=READ):
        files[piece.name] = files.get(piece.name, b"") + piece.data
    return files


async def test_a_dry_run_holds_input_and_outcome_and_matches_nothing(pool: Harness) -> None:
    await pool.slots(slot(1))
    pool.schedd.requests = [wants("ann@d", 1)]
    files = await saved(pool, dry_run=True)
    assert {"slots.ads", "jobs.ads", "accounting.json", "config", "now", "outcome.json"} <= set(files)
    assert len(json.loads(files["outcome.json"])["matches"]) == 1
    assert b"claim of" not in b"".join(files.values())
    assert len(await pool.cycle()) == 1


async def test_a_snapshot_is_what_the_last_cycle_was_given_whatever_changed_since(pool: Harness) -> None:
    await pool.slots(slot(1), slot(2), slot(3, Cpus=4, SlotWeight=4))
    pool.schedd.requests = [wants("ann@d", 2), wants("bob@d", 3, 2)]
    matched = [m.slot_name for m in await pool.cycle()]
    assert len(matched) == 3
    pool.schedd.requests = []
    claimed = {"State": "Claimed", "RemoteUser": "eve@d", "UpdateSequenceNumber": 2, "CpusIdle": 3}
    await pool.slots(slot(1, **claimed), slot(4))
    assert await pool.cycle() == []
    files = await saved(pool)
    assert b"CpusIdle" not in files["slots.ads"] and b"slot4@h" not in files["slots.ads"]
    outcome = read_snapshot(files).run()
    assert [m["slot"] for m in outcome.matches()] == [m["slot"] for m in json.loads(files["outcome.json"])["matches"]]
    assert sorted(m["slot"] for m in outcome.matches()) == sorted(matched)


async def test_a_job_is_analyzed_where_the_slots_are(pool: Harness) -> None:
    await pool.slots(slot(1), slot(2, START=False), slot(3, Memory=10))
    pool.schedd.requests = [wants("ann@d", 1)]
    asked = negotiator_pb2.AnalyzeRequest(job=pack_ads([ClassAd(wants("ann@d", 1))]))
    told = json.loads((await pool.stub.Analyze(asked, metadata=READ)).json)
    assert told["slots"] == 3 and told["requirements"]["matches"] == 1 and told["would_match"] == "slot1@h"
    assert told["requirements"]["refused_by"] == [{"clause": "START", "slots": 1}]
    assert len(await pool.cycle()) == 1, "nothing was matched by asking"
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await pool.stub.Analyze(negotiator_pb2.AnalyzeRequest(), metadata=READ)
    assert failed.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_user_map_puts_submitters_of_a_domain_into_a_group() -> None:
    knobs = {
        "NEGOTIATOR_CLASSAD_USER_MAP_NAMES": "GROUP_PREFIX",
        "GROUP_NAMES": "guests",
        "GROUP_QUOTA_guests": "1",
        "GROUP_PRIO_FACTOR_guests": "7",
    }
    define_user_map("GROUP_PREFIX", "* far guests")
    try:
        async with harness(**knobs) as pool:
            await pool.slots(slot(1), slot(2), slot(3))
            pool.schedd.requests = [wants("ann@far", 3), wants("bob@d", 1, 2)]
            await pool.cycle()
            told = {s.submitter: len(s.matches) for batch in pool.schedd.offers for s in batch.submitters}
            assert told == {"ann@far": 1, "bob@d": 1}
            priorities = {s["name"]: s["factor"] for s in pool.negotiator.cycles.history.cycles[0].submitters}
            assert priorities == {"guests.ann@far": 7, "bob@d": 1000}
    finally:
        forget_user_maps()


async def test_there_is_no_snapshot_before_anybody_asked_for_anything(pool: Harness) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await saved(pool)
    assert failed.value.code() == grpc.StatusCode.NOT_FOUND


async def test_the_last_cycle_can_be_looked_at(pool: Harness) -> None:
    await pool.cycle()
    told = json.loads((await pool.stub.LastCycle(common_pb2.Empty(), metadata=READ)).json)
    assert told["why"] == "test" and told["matches"] == 0


async def test_work_that_came_before_any_slot_is_served_when_one_comes(pool: Harness) -> None:
    pool.schedd.requests = [wants("ann@d", 1)]
    assert await pool.cycle() == []
    await pool.slots(slot(1))
    await until(lambda: any(s.matches for batch in pool.schedd.offers for s in batch.submitters))


async def test_usage_is_charged_between_cycles() -> None:
    async with harness(SLOTWISE_ACCOUNTING_INTERVAL="0.1") as pool:
        await pool.slots(slot(1, State="Claimed", Activity="Busy", RemoteUser="ann@d", AccountingGroup="ann@d"))
        await until(lambda: pool.negotiator.cycles.books.records.get("ann@d", {}).get("weighted_resources_used") == 1)
        cycles = len(pool.negotiator.cycles.history.cycles)
        books = pool.negotiator.cycles.books
        await until(lambda: books.records["ann@d"]["weighted_accumulated_usage"] > 0)
        await pool.slots(slot(1, UpdateSequenceNumber=2))
        await until(lambda: books.records["ann@d"]["weighted_resources_used"] == 0)
        assert books.records["ann@d"]["weighted_accumulated_usage"] < 10
        assert len(pool.negotiator.cycles.history.cycles) == cycles


def busy(n: int, cpus: int, ends_in_s: int) -> dict[str, Any]:
    """A dynamic slot that is free in so many seconds."""
    now = int(time.time())
    return slot(
        1,
        Name=f"slot1_{n}@h",
        Cpus=cpus,
        DynamicSlot=True,
        State="Claimed",
        Activity="Busy",
        RemoteUser="eve@d",
        AccountingGroup="eve@d",
        EnteredCurrentActivity=now - 50,
        ExpectedRuntime=ends_in_s + 50,
    )


async def test_a_machine_kept_for_a_large_job_is_kept_over_cycles_and_restarts() -> None:
    async with harness(NEGOTIATOR_RESERVE_FOR_LARGE_JOBS="True", SLOTWISE_ACCOUNTING_INTERVAL="0.1") as pool:
        await pool.slots(slot(1, Cpus=2, PartitionableSlot=True), busy(1, 3, 100), busy(2, 3, 1000))
        pool.schedd.requests = [wants("abe@d", 1, RequestCpus=5), wants("ann@d", 2, 2)]
        assert await pool.cycle() == []
        books = pool.negotiator.cycles.books
        kept = books.reservations
        assert [one[:3] for one in kept] == [("slot1@h", "abe@d", "1.0")]
        updates = books.records["eve@d"]["last_update"]
        await until(lambda: books.records["eve@d"]["last_update"] > updates)
        assert books.reservations == kept, "charging usage ends no reservation"
        await pool.restart()
        assert pool.negotiator.cycles.books.reservations == kept
        # The machine is still kept, though nothing would choose it anew: its jobs no longer say when they end.
        await pool.slots(*(busy(n, 3, 0) | {"ExpectedRuntime": "soon", "UpdateSequenceNumber": 2} for n in (1, 2)))
        assert await pool.cycle() == []
        assert pool.negotiator.cycles.books.reservations == kept
        pool.schedd.requests = [wants("ann@d", 2, 2)]
        assert len(await pool.cycle()) >= 1
        assert AccountingStore(pool.home.spool / "accounting.db").reservations() == ()


async def test_the_collector_hears_of_matches_with_sleeping_slots(pool: Harness) -> None:
    await pool.slots(slot(1, SlotID=1, State="Claimed", Requirements=False), slot(2, SlotID=2, Offline=True))
    pool.schedd.requests = [wants("ann@d", 3)]
    (made, *_) = await pool.cycle()
    assert (made.slot_name, made.claim_id) == ("slot2@h", "null")
    machines = pool.ads.table("Machine")
    await until(lambda: machines.value("slot2@h", "MachineMatchCount") == 3)
    matches = machines.get("slot2@h")
    assert matches is not None
    (record,) = matches.eval("OfflineMatches")
    assert (record["AutoclusterID"], record["RequestCount"]) == (1, 3)
    last = machines.value("slot2@h", "MachineLastMatchTime")
    assert machines.value("slot1@h", "slot2_MachineLastMatchTime") == last > 0
    assert machines.value("slot2@h", "Cpus") == 1


async def test_a_slot_that_counts_its_matches_keeps_the_count_until_newer_news() -> None:
    async with harness(STARTD_AD_REEVAL_EXPR="TARGET.UpdateSequenceNumber > MY.UpdateSequenceNumber + 1") as pool:
        counting = {"WantAdRevaluate": True, "Requirements": ExprTree("(CurMatches ?: 0) < 2")}
        await pool.slots(slot(1, **counting))
        pool.schedd.requests = [wants("ann@d", 1)]
        assert [len(await pool.cycle()) for _ in range(3)] == [1, 1, 0]
        await pool.slots(slot(1, UpdateSequenceNumber=2, **counting))
        assert await pool.cycle() == [], "the old ad stands"
        assert pool.negotiator.cycles.mirror.slots.value("slot1@h", "UpdateSequenceNumber") == 2
        await pool.slots(slot(1, UpdateSequenceNumber=3, **counting))
        assert len(await pool.cycle()) == 1
