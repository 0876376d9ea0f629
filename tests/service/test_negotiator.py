"""The negotiator daemon between a real collector and a schedd that plays a part, over real gRPC."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd, ExprTree, define_user_map
from slotwise.classad.machine import forget_user_maps
from slotwise.classad.values import number, whole
from slotwise.clock import SystemClock
from slotwise.matchmaking.snapshot import CycleInput, read_snapshot
from slotwise.negotiator.store import AccountingStore
from slotwise.table import limit_evaluations, pack_ads, unpack_ads
from slotwise.wire.gen import (
    common_pb2,
    negotiator_pb2,
    schedd_pb2,
)

from tests.support.acting_negotiation import DAEMON, Harness, harness, slot, wants
from tests.support.hostile_expressions import HOSTILE, bomb
from tests.support.serving import metadata
from tests.support.waiting import LIMIT_S, until

READ, ADMIN = metadata("READ"), metadata("ADMINISTRATOR")


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
    pool.schedd.outcomes = []
    await pool.slots(slot(1))
    pool.schedd.requests = [wants("ann@d", 2)]
    (made,) = await pool.cycle()
    assert made.match_id
    await pool.slots(slot(1, UpdateSequenceNumber=2))
    assert await pool.cycle() == []
    over = schedd_pb2.MatchOutcome(match_id=made.match_id, what=schedd_pb2.MatchOutcome.OVER, count=1)
    pool.schedd.outcomes = [over]
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
    assert pool.negotiator.cycles.accounts.records["ann@d"]["weighted_resources_used"] == pytest.approx(2.0)


async def test_who_gets_nothing_is_told_why(pool: Harness) -> None:
    await pool.slots(slot(1))
    pool.schedd.requests = [wants("ann@d", 2, RequestMemory=10**6)]
    assert await pool.cycle() == []
    (batch,) = pool.schedd.offers[-1:]
    (rejection,) = batch.submitters[0].rejections
    assert rejection.autocluster_id == 1 and rejection.count == 2 and rejection.reason


async def test_a_slot_that_comes_while_a_cycle_ends_without_it_starts_the_next_one(pool: Harness) -> None:
    pool.schedd.requests = [wants("ann@d", 1)]
    pool.schedd.takes.clear()
    before = len(pool.schedd.offers)
    ask = negotiator_pb2.RescheduleRequest(schedd_name="host.test", on_demand=True)
    await pool.stub.Reschedule(ask, metadata=DAEMON)
    await until(lambda: len(pool.schedd.offers) > before)
    assert not pool.schedd.offers[-1].submitters[0].matches
    await pool.slots(slot(1))
    pool.schedd.takes.set()
    await until(lambda: pool.schedd.offers[-1].submitters[0].matches)


async def test_new_work_starts_a_cycle_at_once_and_asks_are_gathered(pool: Harness) -> None:
    await pool.slots(*(slot(n) for n in range(1, 9)))
    pool.schedd.requests = [wants("ann@d", 1)]
    cycles = len(pool.negotiator.cycles.history.cycles)
    ask = negotiator_pb2.RescheduleRequest(schedd_name="host.test", on_demand=True)
    await asyncio.gather(*(pool.stub.Reschedule(ask, metadata=DAEMON) for _ in range(20)))
    await until(lambda: pool.schedd.offers)
    await asyncio.sleep(0)
    assert len(pool.negotiator.cycles.history.cycles) - cycles < 20


class _SetBack(SystemClock):
    """The machine's clock, its time of day set by hand."""

    by_s = 0.0

    def now(self) -> float:
        return super().now() + self.by_s


async def test_a_time_of_day_that_is_set_back_stops_neither_cycles_nor_ads() -> None:
    clock = _SetBack()
    async with harness(clock) as pool:
        await pool.slots(slot(1))
        pool.schedd.requests = [wants("ann@d", 2)]
        assert len(await pool.cycle()) == 1
        clock.by_s = -7200.0
        cycles = len(pool.negotiator.cycles.history.cycles)
        await pool.stub.Reschedule(negotiator_pb2.RescheduleRequest(on_demand=True), metadata=DAEMON)
        await until(lambda: len(pool.negotiator.cycles.history.cycles) > cycles)
        ads = pool.ads.table("Negotiator")

        def told() -> bool:
            ends = [ads.value(key, "LastNegotiationCycleEnd0") for key in ads.keys()]  # noqa: SIM118 - no dict
            return any(isinstance(end, int) and end < time.time() - 3600 for end in ends)

        await until(told)
        # The match hides its slot for seconds, not until the former time comes again.
        ends_at = pool.negotiator.cycles.in_flight.next_end(pool.negotiator.cycles.mirror.slots)
        assert ends_at is not None and ends_at - clock.monotonic() < 60


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


async def edit(
    pool: Harness,
    what: negotiator_pb2.AccountingEdit.What | str,
    submitter: str,
    value: float = 0.0,
    duration_s: int = 0,
) -> None:
    request = negotiator_pb2.AccountingEdit(what=what, submitter=submitter, value=value, duration_s=duration_s)
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
    assert pool.negotiator.cycles.accounts.records["ann@d"]["factor"] == 7


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
    assert [m.slot for m in outcome.matches()] == [m["slot"] for m in json.loads(files["outcome.json"])["matches"]]
    assert sorted(m.slot for m in outcome.matches()) == sorted(matched)


async def test_a_token_that_only_advertises_is_answered_nothing(pool: Harness) -> None:
    """As that of a glide-in, which its jobs may read: the level is meant for masters of hosts."""
    shown = metadata("ADVERTISE_STARTD", "ADVERTISE_MASTER")
    asked = negotiator_pb2.AnalyzeRequest(job=pack_ads([ClassAd(wants("ann@d", 1))]))

    async def accounting() -> None:
        async for _ in pool.stub.Accounting(common_pb2.AdQuery(), metadata=shown):
            raise AssertionError("something is answered")

    for answer in (
        pool.stub.Analyze(asked, metadata=shown),
        pool.stub.LastCycle(common_pb2.Empty(), metadata=shown),
        accounting(),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            await answer
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED


async def test_a_job_is_analyzed_where_the_slots_are(pool: Harness) -> None:
    await pool.slots(slot(1), slot(2, START=False), slot(3, Memory=10))
    pool.schedd.requests = [wants("ann@d", 1)]
    asked = negotiator_pb2.AnalyzeRequest(job=pack_ads([ClassAd(wants("ann@d", 1))]))
    told = json.loads((await pool.stub.Analyze(asked, metadata=READ)).json)
    assert told["slots"] == 3 and told["requirements"]["matches"] == 1 and told["would_match"] == "slot1@h"
    assert told["requirements"]["refused_by"] == [{"clause": "START", "slots": 1}]
    assert len(await pool.cycle()) == 1, "nothing was matched by asking"
    copy, forgetting = pool.negotiator.servicer._copy, pool.negotiator.servicer._forgetting
    assert copy.kept is not None and forgetting is not None, "the next question gets what has changed since"
    forgetting._run()
    assert pool.negotiator.servicer._copy.kept is None, "the copy of the slots is given back when nobody asks"
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await pool.stub.Analyze(negotiator_pb2.AnalyzeRequest(), metadata=READ)
    assert failed.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_user_map_puts_submitters_of_a_domain_into_a_group() -> None:
    knobs: dict[str, Any] = {
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
            priorities = {s.name: s.factor for s in pool.negotiator.cycles.history.cycles[0].submitters}
            assert priorities == {"guests.ann@far": 7, "bob@d": 1000}
    finally:
        forget_user_maps()


async def test_submitters_of_a_group_without_a_share_keep_nobody_else_from_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    knobs: dict[str, Any] = {"GROUP_NAMES": "physics, physics.sim", "GROUP_QUOTA_DYNAMIC_physics": "0.5"}
    async with harness(**knobs) as pool:
        await pool.slots(slot(1), slot(2))
        pool.schedd.requests = [wants("physics.sim.bob@d", 2), wants("ann@d", 1, 2)]
        await pool.cycle()
        told = {s.submitter: len(s.matches) for batch in pool.schedd.offers for s in batch.submitters}
        assert told == {"ann@d": 1, "physics.sim.bob@d": 0}
    lines = [line for line in caplog.messages if "Negotiated with" in line]
    assert any("physics.sim.bob@d" in line and "no share" in line for line in lines), lines


async def test_a_full_disk_of_the_accounting_keeps_nobody_from_running(
    pool: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await pool.slots(slot(1), slot(2))
    pool.schedd.requests = [wants("ann@d", 1)]
    store = pool.negotiator.cycles.store
    with monkeypatch.context() as patched:

        def full(*_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        patched.setattr(store, "_save", full)
        await pool.cycle()
        await pool.cycle()
        assert [len(s.matches) for batch in pool.schedd.offers for s in batch.submitters] == [1, 1]
        with pytest.raises(grpc.aio.AioRpcError, match=r"cannot be saved: database or disk is full"):
            edit = negotiator_pb2.AccountingEdit(what=negotiator_pb2.AccountingEdit.FACTOR, submitter="ann@d", value=5)
            await pool.stub.EditAccounting(edit, metadata=ADMIN)
    failures = [line for line in caplog.messages if "cannot be saved" in line]
    assert sum("kept in memory" in line for line in failures) == 1, failures
    await pool.cycle()
    assert any("usage and priorities are saved again" in line for line in caplog.messages)
    assert "ann@d" in store.records()


async def test_there_is_no_snapshot_before_anybody_asked_for_anything(pool: Harness) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await saved(pool)
    assert failed.value.code() == grpc.StatusCode.NOT_FOUND


async def test_the_last_cycle_can_be_looked_at(pool: Harness) -> None:
    await pool.cycle()
    told = json.loads((await pool.stub.LastCycle(common_pb2.Empty(), metadata=READ)).json)
    assert told["why"] == "test" and told["matches"] == 0


async def test_what_a_cycle_leaves_unmet_is_told_by_shape(pool: Harness) -> None:
    await pool.slots(slot(1))
    asked = {"RequestCpus": 4, "RequestMemory": 3000, "RequestGPUs": 1, "QDate": 17}
    pool.schedd.requests = [wants("ann@d", 2), wants("bob@d", 3, **asked)]
    await pool.cycle()
    told = json.loads((await pool.stub.LastCycle(common_pb2.Empty(), metadata=READ)).json)["demand"]
    assert (told["jobs"], told["limited_jobs"], told["submitters"]) == (4, 0, 2)
    (large,) = [row for row in told["shapes"] if row["cpus"] == 4]
    assert (large["memory_mib"], large["gpus"], large["jobs"]) == (3072, 1, 3)
    assert large["top_submitters"] == ["bob@d"] and large["reasons"] == {"no_match": 3} and large["oldest_wait_s"] > 0
    pool.schedd.requests = []
    await pool.cycle()
    told = json.loads((await pool.stub.LastCycle(common_pb2.Empty(), metadata=READ)).json)["demand"]
    assert told["jobs"] == 0 and told["shapes"] == []


async def test_work_that_came_before_any_slot_is_served_when_one_comes(pool: Harness) -> None:
    pool.schedd.requests = [wants("ann@d", 1)]
    assert await pool.cycle() == []
    await pool.slots(slot(1))
    await until(lambda: any(s.matches for batch in pool.schedd.offers for s in batch.submitters))


async def test_usage_is_charged_between_cycles() -> None:
    async with harness(SLOTWISE_ACCOUNTING_INTERVAL="0.1") as pool:
        await pool.slots(slot(1, State="Claimed", Activity="Busy", RemoteUser="ann@d", AccountingGroup="ann@d"))
        await until(
            lambda: pool.negotiator.cycles.accounts.records.get("ann@d", {}).get("weighted_resources_used") == 1
        )
        cycles = len(pool.negotiator.cycles.history.cycles)
        accounts = pool.negotiator.cycles.accounts
        await until(lambda: number(accounts.records["ann@d"]["weighted_accumulated_usage"]) > 0)
        await pool.slots(slot(1, UpdateSequenceNumber=2))
        await until(lambda: accounts.records["ann@d"]["weighted_resources_used"] == 0)
        assert number(accounts.records["ann@d"]["weighted_accumulated_usage"]) < 10
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
        accounts = pool.negotiator.cycles.accounts
        kept = accounts.reservations
        assert [one[:3] for one in kept] == [("slot1@h", "abe@d", "1.0")]
        updates = number(accounts.records["eve@d"]["last_update"])
        await until(lambda: number(accounts.records["eve@d"]["last_update"]) > updates)
        assert accounts.reservations == kept, "charging usage ends no reservation"
        await pool.restart()
        assert pool.negotiator.cycles.accounts.reservations == kept
        # The machine is still kept, though nothing would choose it anew: its jobs no longer say when they end.
        await pool.slots(*(busy(n, 3, 0) | {"ExpectedRuntime": "soon", "UpdateSequenceNumber": 2} for n in (1, 2)))
        assert await pool.cycle() == []
        assert pool.negotiator.cycles.accounts.reservations == kept
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
    found: Any = matches.eval("OfflineMatches")
    (record,) = found
    assert (record["AutoclusterID"], record["RequestCount"]) == (1, 3)
    last = machines.value("slot2@h", "MachineLastMatchTime")
    assert machines.value("slot1@h", "slot2_MachineLastMatchTime") == last and whole(last) > 0
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


async def test_a_cycle_waits_for_one_look_at_the_pool_and_not_for_all(
    pool: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may READ may have any ad analyzed: many at once kept the cycles from their turn."""
    from slotwise.negotiator import service

    looks = 0

    def look(*arguments: Any) -> dict[str, Any]:
        nonlocal looks
        looks += 1
        return {}

    monkeypatch.setattr(service, "analyze", look)
    asked = negotiator_pb2.AnalyzeRequest(job=pack_ads([ClassAd(wants("ann@d", 1))]))
    waiting = [asyncio.ensure_future(pool.stub.Analyze(asked, metadata=READ)) for _ in range(40)]
    while not looks:
        await asyncio.sleep(0)
    before = looks
    async with pool.negotiator.cycles.lock:
        assert looks <= before + 2
    await asyncio.gather(*waiting)
    assert looks == 40


async def test_a_cycle_does_not_wait_for_an_analysis(pool: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    from slotwise.negotiator import service

    begun, ends = threading.Event(), threading.Event()
    seen: list[list[object]] = []

    def look(given: CycleInput, *others: Any) -> dict[str, Any]:
        begun.set()
        assert ends.wait(LIMIT_S), "the cycle waits for it"
        names = given.slots.keys()
        seen.append([given.slots.value(name, "Name") for name in names])
        return {}

    monkeypatch.setattr(service, "analyze", look)
    await pool.slots(slot(1))
    asked = negotiator_pb2.AnalyzeRequest(job=pack_ads([ClassAd(wants("ann@d", 1))]))
    waiting = asyncio.ensure_future(pool.stub.Analyze(asked, metadata=READ))
    try:
        await until(begun.is_set)
        await pool.slots(slot(2))
        pool.schedd.requests = [wants("ann@d", 2)]
        assert sum(match.count for match in await pool.cycle()) == 2
    finally:
        ends.set()
    await waiting
    assert seen == [["slot1@h"]], "it sees the pool as it was when it began"


async def test_an_analysis_that_takes_too_many_steps_is_refused_and_noted(
    pool: Harness, limited: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from slotwise.negotiator import service

    await pool.slots(*(slot(n) for n in range(1, 9)))
    pool.schedd.requests = [wants("ann@d", 1)]
    most: list[int] = []

    def question_most(ads: int) -> int:
        most.append(ads)
        return 100_000

    monkeypatch.setattr(service, "question_most", question_most)
    for costly in (bomb("Requirements"), bomb("ClusterId", "1")):
        job = ClassAd({**wants("ann@d", 1), **costly})
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await pool.stub.Analyze(negotiator_pb2.AnalyzeRequest(job=pack_ads([job])), metadata=READ)
        assert failed.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert most == [8, 8], "by the number of slots"
    assert caplog.text.count("the analysis of a job that ann@test asked for is refused") == 2
    asked = negotiator_pb2.AnalyzeRequest(job=pack_ads([ClassAd(wants("ann@d", 1))]))
    told = await pool.stub.Analyze(asked, metadata=READ)
    assert json.loads(told.json)["requirements"]["matches"] == 8


async def test_a_question_about_accounts_that_takes_too_many_steps_is_refused(pool: Harness, limited: None) -> None:
    await asyncio.gather(*(edit(pool, "FACTOR", f"user{n}@d", 2) for n in range(20)))
    limit_evaluations(question=2_000)

    async def accounting(constraint: str) -> int:
        query = common_pb2.AdQuery(constraint=constraint)
        return [chunk.total async for chunk in pool.stub.Accounting(query, metadata=READ)][-1]

    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await accounting(HOSTILE["calls"].replace("ProcId", "PriorityFactor"))
    assert failed.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await accounting("PriorityFactor == 2") == 20
