"""The startd's service on real gRPC: claims, activations, reuse, leases, restarts, draining."""

from __future__ import annotations

from pathlib import Path

from slotwise.startd.journal import Journal
from slotwise.table import unpack_ads
from slotwise.wire.gen import startd_pb2

from tests.support.startd_host import schedd_at, startd_host, until


async def test_a_partitionable_slot_is_carved_used_reused_and_whole_again(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        assert host.place("slot1") == "Unclaimed/Idle"
        granted = (await schedd.claim(host.capability())).granted
        assert [slot.slot_name for slot in granted.slots] == [f"slot1_1@{host.point.settings.name}"]
        claim_id = granted.slots[0].claim_id
        (ad,) = unpack_ads(granted.slots[0].slot_ad)
        assert (ad["Cpus"], ad["Memory"], ad["DynamicSlot"], ad["State"]) == (1, 128, True, "Claimed")
        for start in (1, 2):
            run_id = f"1.0#{start}"
            assert (await schedd.activate(claim_id, run_id)).activated.run_id == run_id
            assert host.place("slot1_1") == "Claimed/Busy"
            await until(lambda run_id=run_id: run_id in host.starter.runs)
            host.starter.gone(run_id)
            await until(lambda start=start: schedd.states(claim_id).count("Claimed/Idle") == start)
        await schedd.send(claim_id, release=startd_pb2.ReleaseClaim())
        await until(lambda: not host.place("slot1_1"), "the dynamic slot is gone")
        host.point.validate()
        assert next(iter(host.point.holdings.values())).free == host.point.settings.resources


async def test_one_request_carves_as_many_slots_as_fit(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        capability = host.capability()
        granted = (await schedd.claim(capability, num_dynamic_slots=10, want_leftovers=True)).granted
        assert len({slot.claim_id for slot in granted.slots}) == 4
        assert granted.leftover_claim_id == capability
        refused = await schedd.claim(capability)
        assert refused.refused.code == 1027 and "Requirements" in refused.refused.reason


async def test_an_activation_waits_for_the_end_of_the_former_run(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        serial = await schedd.send_activate(claim_id, "1.1#1")
        await until(lambda: "1.0#1" in host.starter.runs)
        host.starter.gone("1.0#1")
        assert (await schedd.answer(serial)).activated.run_id == "1.1#1"


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


async def test_a_killed_startd_finds_its_claims_and_runs_again(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        claims = (await schedd.claim(host.capability(), num_dynamic_slots=3)).granted.slots
        ids = [slot.claim_id for slot in claims]
        await schedd.activate(ids[0], "1.0#1")
        await schedd.activate(ids[1], "1.1#1")
        await until(lambda: len(host.starter.runs) == 2)
        old_capability = host.capability()
        rows = Journal(tmp_path / "spool" / "startd.sqlite").load()
        host.startd.driver.journal = _Deaf()  # what happens from here on is not known to the next one
        clock, starter = host.clock, host.starter
        runs = dict(starter.runs)
    assert len(rows) == 4
    starter.runs = {"1.0#1": runs["1.0#1"], "9.9#9": runs["1.0#1"]}
    async with startd_host(tmp_path, clock=clock, starter=starter) as host:
        await until(lambda: host.place("slot1_2") == "Claimed/Idle", "the run that is gone has ended")
        assert host.place("slot1_1") == "Claimed/Busy"
        assert host.place("slot1_3") == "Claimed/Idle"
        assert host.capability() != old_capability
        await until(lambda: [c.run_id for c in starter.told("forget")] == ["9.9#9"], "an unknown run is forgotten")
        async with schedd_at(host, claim_ids=[*ids[:2], "gone"]) as schedd:
            known = next(e.known for e in schedd.events if e.WhichOneof("what") == "known")
            assert {one.claim_id: (one.activity, one.run_id) for one in known.claims} == {
                ids[0]: ("Busy", "1.0#1"), ids[1]: ("Idle", ""),
            }  # fmt: skip
            await until(lambda: not host.place("slot1_3"), "a claim that the schedd does not know is freed")
        host.point.validate()


class _Deaf:
    """A journal that writes nothing: the process was killed."""

    def save(self, changed: object, gone: object) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
