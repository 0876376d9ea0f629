"""Slots that break: what is lost, what is told, and what a startd that was killed still knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slotwise.startd.publish import daemon_ad
from slotwise.wire.gen import startd_pb2, startd_pb2_grpc, starter_pb2

from tests.support.serving import metadata
from tests.support.startd_host import DeafJournal, schedd_at, startd_host
from tests.support.waiting import until

BREAKS = "STARTD_LEFTOVER_PROCS_BREAK_SLOTS = true\n"


async def test_what_a_broken_slot_took_stays_lost_when_the_startd_is_killed(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        host.point.claims.run_gone("1.0#1", host.clock.now(), broken="a process cannot be killed")
        host.startd.dispatcher.flush()
        await until(lambda: not host.place("slot1_1"), "the broken slot is gone")
        host.startd.dispatcher.journal = DeafJournal()
        clock = host.clock
    async with startd_host(tmp_path, clock=clock) as host:
        record = host.point.slots[f"slot1@{host.point.settings.name}"]
        ad = host.point.ads.attributes(record, clock.now())
        assert (ad["Cpus"], ad["BrokenSlotCpus"], ad["BrokenSlotMemory"]) == (3, 1, 128)
        told: dict[str, Any] = dict(daemon_ad.daemon_attributes(host.point, clock.now()))
        (context,) = told["BrokenContextAds"]
        assert context == told["slot1_1BrokenContext"]
        assert (context["Id"], context["Code"], context["Reason"]) == ("slot1_1", 4, "a process cannot be killed")
        assert (context["JobId"], context["RemoteUser"], context["Cpus"]) == ("1.0", "ann@test", 1)
        assert told["BrokenReasons"] == ["a process cannot be killed"]
        host.point.validate()
    async with startd_host(tmp_path, clock=clock) as host:  # stopped in order: somebody has looked after it
        assert host.point.slots[f"slot1@{host.point.settings.name}"].free.cpus == 4


@pytest.mark.parametrize("types", ["", "NUM_SLOTS = 4\n"], ids=["dynamic", "static"])
async def test_what_a_job_leaves_while_the_startd_is_away_breaks_its_slot(tmp_path: Path, types: str) -> None:
    left = starter_pb2.JobLeft(run_id="1.0#1", slot_name="", reason="Could not clean up after job: a file", code=4)
    async with startd_host(tmp_path, types) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        name = "slot1" if types else "slot1_1"
        assert host.place(name) == "Claimed/Busy"
        host.startd.dispatcher.journal = DeafJournal()
        clock, starter = host.clock, host.starter
    starter.runs.clear()
    starter.left.append(left)
    async with startd_host(tmp_path, types, clock=clock, starter=starter) as host:
        await until(lambda: starter.told("left_noted"), "the startd has written it down")
        record = host.point.slots[f"slot1@{host.point.settings.name}"]
        ad = host.point.ads.attributes(record, clock.now())
        if types:
            assert (ad["SlotBrokenCode"], ad["Cpus"], ad["Memory"]) == (4, 0, 0)
            assert ad["SlotBrokenReason"] == left.reason and left.reason in str(ad["Requirements"])
        else:
            assert not host.place("slot1_1")
            assert (ad["Cpus"], ad["TotalSlotCpus"], ad["BrokenSlotCpus"], ad["BrokenSlotMemory"]) == (3, 3, 1, 128)
        host.startd.dispatcher.journal = DeafJournal()
    starter.left.clear()
    async with startd_host(tmp_path, types, clock=clock, starter=starter) as host:  # killed again: still broken
        told: dict[str, Any] = dict(daemon_ad.daemon_attributes(host.point, clock.now()))
        assert told[f"{name}BrokenContext"]["Code"] == 4 and told["BrokenReasons"] == [left.reason]
        host.point.validate()


async def test_a_repair_while_the_startd_is_away_is_confirmed_once_it_is_in_the_journal(tmp_path: Path) -> None:
    left = starter_pb2.JobLeft(run_id="1.0#1", slot_name="", reason="Could not clean up after job: a file", code=4)
    async with startd_host(tmp_path, "NUM_SLOTS = 4\n") as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        host.starter.gone("1.0#1", broken=True, left=left)
        await until(lambda: host.starter.told("left_noted"))
        clock, starter = host.clock, host.starter
        host.startd.dispatcher.journal = DeafJournal()
    starter.repaired.append("1.0#1")
    async with startd_host(tmp_path, "NUM_SLOTS = 4\n", clock=clock, starter=starter) as host:
        await until(lambda: starter.told("repair_noted"), "the starter may forget it")
        record = host.point.slots[f"slot1@{host.point.settings.name}"]
        assert "SlotBrokenCode" not in host.point.ads.attributes(record, clock.now())
        host.startd.dispatcher.journal = DeafJournal()
    starter.repaired.clear()
    async with startd_host(
        tmp_path, "NUM_SLOTS = 4\n", clock=clock, starter=starter
    ) as host:  # killed again: still whole
        record = host.point.slots[f"slot1@{host.point.settings.name}"]
        assert "SlotBrokenCode" not in host.point.ads.attributes(record, clock.now())


async def test_what_a_job_leaves_is_taken_from_its_partitionable_slot_once_it_is_free(tmp_path: Path) -> None:
    """The dynamic slot has gone when the starter finds out, and all its cores are in use again."""
    async with startd_host(tmp_path, BREAKS) as host, schedd_at(host) as schedd:
        claims = [s.claim_id for s in (await schedd.claim(host.capability(), num_dynamic_slots=4)).granted.slots]
        left = starter_pb2.JobLeft(
            run_id="9.0#1", slot_name=f"slot1_7@{host.point.settings.name}", reason="stuck", code=6,
            cpus=1, memory_mib=128, disk_kib=1024,
        )  # fmt: skip
        for _ in range(2):  # said twice, counted once
            host.starter.tell(
                starter_pb2.JobEvent(run_id="9.0#1", gone=starter_pb2.JobGone(how="failed", broken=True, left=left))
            )
        await until(lambda: len(host.starter.told("left_noted")) == 2)
        record = host.point.slots[f"slot1@{host.point.settings.name}"]
        assert (len(record.withheld.pending), len(record.withheld.entries)) == (1, 0)
        await schedd.send(claims[0], release=startd_pb2.ReleaseClaim())
        await until(lambda: not host.place("slot1_1"))
        assert (len(record.withheld.pending), len(record.withheld.entries)) == (0, 1)
        assert (record.free.cpus, record.withheld.total.cpus) == (0, 1)
        host.point.validate()


@pytest.mark.parametrize("breaks", [False, True])
async def test_processes_that_cannot_be_killed_break_a_slot_only_where_that_is_wanted(
    tmp_path: Path, breaks: bool
) -> None:
    text = "NUM_SLOTS = 4\n" + (BREAKS if breaks else "")
    async with startd_host(tmp_path, text) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        await until(lambda: "1.0#1" in host.starter.runs)
        name = next(record.name for record in host.point.slots if record.slot.run is not None)
        left = starter_pb2.JobLeft(
            run_id="1.0#1", slot_name=name, reason="Could not terminate all job processes", code=6
        )
        host.starter.gone("1.0#1", broken=True, left=left)
        await until(lambda: host.starter.told("left_noted"), "the starter may forget it")
        record = host.point.slots[name]
        ad = host.point.ads.attributes(record, host.clock.now())
        assert record.slot.run is None
        if breaks:
            assert (ad["SlotBrokenCode"], ad["SlotBrokenReason"], ad["Cpus"]) == (6, left.reason, 0)
        else:
            assert ad.get("SlotBrokenCode") is None and ad["Cpus"] == 1
            await schedd.activate(claim_id, "1.1#1")


async def test_a_broken_dynamic_slot_stays_where_that_is_wanted(tmp_path: Path) -> None:
    text = "CONTINUE_TO_ADVERTISE_BROKEN_DYNAMIC_SLOTS = true\n"
    async with startd_host(tmp_path, text) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        await until(lambda: "1.0#1" in host.starter.runs)
        host.starter.gone("1.0#1", broken=True)
        await until(lambda: host.place("slot1_1") == "Unclaimed/Idle", "it stays")
        clock = host.clock
        host.startd.dispatcher.journal = DeafJournal()
    async with startd_host(tmp_path, text, clock=clock) as host:
        assert host.place("slot1_1") == "Owner/Idle"
        parent = host.point.slots[f"slot1@{host.point.settings.name}"]
        assert (parent.free.cpus, parent.withheld.total.cpus) == (3, 0)
        host.point.poll(clock.now())
        host.point.validate()
        stub = startd_pb2_grpc.StartdStub(host.channel)
        await stub.Drain(startd_pb2.DrainRequest(), metadata=metadata("ADMINISTRATOR"))
        assert host.place("slot1") == "Drained/Idle", "a broken slot does not hold up draining"
