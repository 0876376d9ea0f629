"""Leases of claims: what renews them, what ends them, and what does not."""

from __future__ import annotations

from pathlib import Path

from slotwise.wire.gen import startd_pb2

from tests.support.set_clock import SetClock
from tests.support.startd_host import START, schedd_at, startd_host
from tests.support.waiting import until


async def test_a_lease_that_is_not_renewed_ends_the_run(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability(), lease_s=100)).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        await host.pass_time(90)
        await schedd.answer(await schedd.send(keep_alive=startd_pb2.KeepAlive(claim_ids=[claim_id, "nonsense"])))
        assert next(e.alive.unknown for e in schedd.events if e.WhichOneof("what") == "alive") == ["nonsense"]
        await host.pass_time(90)
        assert host.place("slot1_1") == "Claimed/Busy"
        await host.pass_time(20)
        await until(lambda: not host.place("slot1_1"), "the slot is free")
        assert [command.kill.fast for command in host.starter.told("kill")] == [True]
        assert schedd.ended(claim_id) is None


async def test_no_lease_ends_because_the_clock_was_set(tmp_path: Path) -> None:
    clock = SetClock(START)
    async with startd_host(tmp_path, clock=clock) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability(), lease_s=100)).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        for step_s in (3600.0, -7200.0):
            clock.set_by += step_s
            before = host.point.slots["slot1_1@" + host.point.settings.name].slot.claim.last_alive
            await host.pass_time(1)
            await until(
                lambda was=before + step_s: (
                    host.point.slots["slot1_1@" + host.point.settings.name].slot.claim.last_alive == was
                ),
                "the lease has moved with the clock",
            )
            assert host.place("slot1_1") == "Claimed/Busy"
        await host.pass_time(100)
        await until(lambda: not host.place("slot1_1"), "the lease is over in its time")
