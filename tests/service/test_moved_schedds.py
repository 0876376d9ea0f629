"""A schedd that comes back at another address finds its runs again, and nobody else can have them."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from slotwise.startd.journal import Journal
from slotwise.wire.gen import startd_pb2, startd_pb2_grpc

from tests.support.serving import metadata
from tests.support.startd_host import DeafJournal, Host, Schedd, schedd_at, startd_host
from tests.support.waiting import until

HERE, ELSEWHERE = "10.0.0.1:4001", "10.0.0.1:4002"


async def claimed(host: Host, schedd: Schedd, *runs: str) -> list[str]:
    """Claims with these runs, as their schedd at HERE has made them."""
    granted = (await schedd.claim(host.capability(), num_dynamic_slots=len(runs))).granted.slots
    for slot, run_id in zip(granted, runs, strict=True):
        await schedd.activate(slot.claim_id, run_id, shadow=HERE)
    await until(lambda: set(runs) <= set(host.starter.runs), "the starter has the runs")
    return [slot.claim_id for slot in granted]


def moves(host: Host) -> list[tuple[str, list[str]]]:
    """Where the starter was told to look for the shadows of which runs."""
    told = (command.shadow_moved for command in host.starter.told("shadow_moved"))
    return [(moved.address, list(moved.run_ids)) for moved in told]


async def test_runs_follow_their_schedd_and_stay_with_it_after_a_restart_of_the_startd(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host:
        async with schedd_at(host, address=HERE) as schedd:
            claims = await claimed(host, schedd, "1.0#1", "1.1#1")
        async with schedd_at(host, address=HERE, claim_ids=claims):
            assert moves(host) == [], "it is where it was"
        async with schedd_at(host, address=ELSEWHERE, claim_ids=claims):
            await until(lambda: moves(host), "the starter is told")
        assert moves(host) == [(ELSEWHERE, ["1.0#1", "1.1#1"])], "all at once"
        saved = [slot for slot in Journal(tmp_path / "spool" / "startd.sqlite").load() if slot.activation]
        assert [(slot.terms.schedd_address, slot.activation[2]) for slot in saved if slot.activation] == [
            (ELSEWHERE, ELSEWHERE)
        ] * 2
        host.startd.dispatcher.journal = DeafJournal()
        clock, starter = host.clock, host.starter
        runs = dict(starter.runs)
    starter.runs = runs  # they outlive the startd
    starter.commands.clear()
    starter.runs["1.1#1"].shadow_address = HERE  # a starter that was killed before it had written down the new one
    async with startd_host(tmp_path, clock=clock, starter=starter) as host:
        await until(lambda: moves(host), "the starter is told again")
        assert moves(host) == [(ELSEWHERE, ["1.1#1"])]


async def test_a_repeated_activation_names_the_new_address(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host, address=HERE) as schedd:
        (claim,) = await claimed(host, schedd, "1.0#1")
        await schedd.send_activate(claim, "1.0#1", shadow=HERE)
        await schedd.send_activate(claim, "1.0#1", shadow="10.0.0.9:1", token="a guess")
        await schedd.send_activate(claim, "1.0#1", shadow=ELSEWHERE)
        await until(lambda: moves(host), "the starter is told")
        assert moves(host) == [(ELSEWHERE, ["1.0#1"])]


async def test_a_run_that_waits_starts_at_the_new_address(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host:
        async with schedd_at(host, address=HERE) as schedd:
            (claim,) = await claimed(host, schedd, "1.0#1")
            await schedd.send_activate(claim, "2.0#1", shadow=HERE)
        async with schedd_at(host, address=ELSEWHERE, claim_ids=[claim]):
            await until(lambda: moves(host), "the starter is told")
            host.starter.gone("1.0#1")
            await until(lambda: "2.0#1" in host.starter.runs, "the run that waited starts")
        assert host.starter.runs["2.0#1"].shadow_address == ELSEWHERE


async def test_the_end_of_a_run_follows_its_schedd_too_but_no_other_claims(tmp_path: Path) -> None:
    static = "SLOT_TYPE_1 = 100%\nNUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1_PARTITIONABLE = false\n"
    async with startd_host(tmp_path, static) as host:
        async with schedd_at(host, address=HERE) as schedd:
            (claim,) = await claimed(host, schedd, "1.0#1")
        host.starter.gone("1.0#1")  # the slot is free; its end waits for the schedd
        await until(lambda: host.place("slot1") == "Claimed/Idle", "the run is over")
        async with schedd_at(host, address=ELSEWHERE, claim_ids=[claim]) as schedd:
            await until(lambda: moves(host), "the starter is told")
            assert moves(host) == [(ELSEWHERE, ["1.0#1"])]
            await schedd.send(claim, release=startd_pb2.ReleaseClaim())
            await until(lambda: host.place("slot1").startswith("Unclaimed"), "the claim is given back")
        async with schedd_at(host, "other@ap", address=HERE, identity="condor@other") as other:
            claim = (await other.claim(host.capability())).granted.slots[0].claim_id
        async with schedd_at(host, "other@ap", claim_ids=[claim], address="10.0.0.9:1", identity="condor@other"):
            assert host.place("slot1") == "Claimed/Idle"
        await host.pass_time(0)
        assert len(moves(host)) == 1, "the former run is none of its"


async def test_a_copy_of_a_schedd_gets_no_claims_while_the_original_is_connected(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host:
        async with schedd_at(host, address=HERE) as schedd:
            older, newer = await claimed(host, schedd, "1.0#1", "1.1#1")
            # A backup was made between the two. Its schedd would take the first, and release what it does not know.
            with pytest.raises(ConnectionError):
                async with schedd_at(host, address=ELSEWHERE, claim_ids=[older]):
                    pass
            refused = startd_pb2_grpc.StartdStub(host.channel).Claims(metadata=metadata("DAEMON", identity="condor@ap"))
            hello = startd_pb2.ScheddHello(schedd_name="schedd@ap", schedd_address=ELSEWHERE, claim_ids=[older])
            await refused.write(startd_pb2.ClaimRequest(hello=hello))
            assert await refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert f"connected from {HERE}" in await refused.details()
            assert moves(host) == []
            await schedd.send(older, release=startd_pb2.ReleaseClaim())
            host.starter.gone("1.0#1")
            await until(lambda: schedd.ended(older) is not None, "the original is obeyed")
        async with schedd_at(host, address=ELSEWHERE, claim_ids=[newer]):
            await until(lambda: moves(host) == [(ELSEWHERE, ["1.1#1"])], "it is gone, and the other goes on")


@pytest.mark.parametrize(
    ("name", "identity", "knows_the_claim"),
    [
        pytest.param("schedd@ap", "condor@other", False, id="it does not know the claim"),
        pytest.param("other@ap", "condor@ap", True, id="another name"),
        pytest.param("schedd@ap", "condor@other", True, id="the name alone"),
    ],
)
async def test_nobody_moves_the_runs_of_another_schedd(
    tmp_path: Path, name: str, identity: str, knows_the_claim: bool
) -> None:
    async with startd_host(tmp_path) as host:
        async with schedd_at(host, address=HERE) as schedd:
            (claim,) = await claimed(host, schedd, "1.0#1")
        named = claim if knows_the_claim else f"{claim}0"
        async with schedd_at(host, name, [named], address=ELSEWHERE, identity=identity) as hostile:
            await hostile.answer(await hostile.send(keep_alive=startd_pb2.KeepAlive(claim_ids=[named])))
            if knows_the_claim:
                await hostile.send_activate(claim, "1.0#1", shadow=ELSEWHERE)
                await hostile.answer(await hostile.send(keep_alive=startd_pb2.KeepAlive(claim_ids=[named])))
        assert moves(host) == []
        record = host.point.slots.of_run("1.0#1")
        assert record is not None and record.activation.shadow_address == HERE


async def test_another_access_point_that_takes_a_schedds_name_does_not_take_its_place(tmp_path: Path) -> None:
    """It said hello with that name; the schedd's requests were dropped from then on, and its messages went there."""
    async with startd_host(tmp_path) as host, schedd_at(host, address=HERE) as schedd:
        (claim,) = await claimed(host, schedd, "1.0#1")
        async with schedd_at(host, identity="condor@other", address=ELSEWHERE) as hostile:
            host.starter.gone("1.0#1")
            await until(lambda: schedd.states(claim)[-1:] == ["Claimed/Idle"], "the schedd is told of its claim")
            assert (await schedd.activate(claim, "1.1#1")).WhichOneof("what") == "activated"
            told = {event.WhichOneof("what") for event in hostile.events}
            assert told == {"known"} and not any(event.known.claims for event in hostile.events)
        await schedd.send(claim, release=startd_pb2.ReleaseClaim())
        host.starter.gone("1.1#1")
        await until(lambda: schedd.ended(claim) is not None, "its stream goes on after the other's end")


async def test_a_schedd_that_means_another_startd_is_told_so_and_its_claims_stay(tmp_path: Path) -> None:
    """Both were started again, and this one got the port of the other, whose claims the hello names."""
    async with startd_host(tmp_path) as host:
        name = host.point.settings.name
        async with schedd_at(host, address=HERE) as schedd:
            claims = await claimed(host, schedd, "1.0#1")
        call = startd_pb2_grpc.StartdStub(host.channel).Claims(metadata=metadata("DAEMON", identity="condor@ap"))
        hello = startd_pb2.ScheddHello(
            schedd_name="schedd@ap", schedd_address=HERE, claim_ids=["one of the other's"], startd_name="other.test"
        )
        await call.write(startd_pb2.ClaimRequest(hello=hello))
        answer = await call.read()
        assert (answer.known.startd_name, list(answer.known.claims)) == (name, [])
        assert await call.read() is grpc.aio.EOF
        assert host.place("slot1_1") == "Claimed/Busy"
        async with schedd_at(host, address=HERE, claim_ids=claims) as schedd:
            (known,) = [event.known for event in schedd.events if event.WhichOneof("what") == "known"]
            assert [one.claim_id for one in known.claims] == claims and known.startd_name == name


async def test_a_startd_with_another_name_than_before_is_known_by_a_claim(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host:
        async with schedd_at(host, address=HERE) as schedd:
            claims = await claimed(host, schedd, "1.0#1")
        call = startd_pb2_grpc.StartdStub(host.channel).Claims(metadata=metadata("DAEMON", identity="condor@ap"))
        hello = startd_pb2.ScheddHello(
            schedd_name="schedd@ap", schedd_address=HERE, claim_ids=claims, startd_name="as.it.was.named"
        )
        await call.write(startd_pb2.ClaimRequest(hello=hello))
        answer = await call.read()
        assert [one.claim_id for one in answer.known.claims] == claims
        call.cancel()
