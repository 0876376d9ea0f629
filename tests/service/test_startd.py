"""The startd's service on real gRPC: claims, activations, reuse, leases, restarts, draining."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import grpc
import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.daemon.history_file import read_ads
from slotwise.startd.fingerprint import disk
from slotwise.startd.fingerprint.x_input import XProbe
from slotwise.startd.journal import Journal
from slotwise.startd.monitor import sampler
from slotwise.startd.slot.replay import replayed
from slotwise.table import pack_ads, unpack_ads
from slotwise.wire.gen import common_pb2, startd_pb2, startd_pb2_grpc, starter_pb2

from tests.support.ads import number_of, text_of
from tests.support.fake_collector import FakeCollector
from tests.support.serving import metadata
from tests.support.startd_host import START, DeafJournal, schedd_at, startd_host
from tests.support.waiting import until


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
        assert next(iter(host.point.slots)).free == host.point.settings.resources


async def test_one_request_carves_as_many_slots_as_fit(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        capability = host.capability()
        granted = (await schedd.claim(capability, num_dynamic_slots=10, want_leftovers=True)).granted
        assert len({slot.claim_id for slot in granted.slots}) == 4
        assert granted.leftover_claim_id == host.capability() != capability
        refused = await schedd.claim(granted.leftover_claim_id)
        assert refused.refused.code == 1027 and "Requirements" in refused.refused.reason


async def test_what_is_left_is_kept_to_itself_where_that_is_wanted(tmp_path: Path) -> None:
    async with startd_host(tmp_path, "CLAIM_PARTITIONABLE_LEFTOVERS = false\n") as host, schedd_at(host) as schedd:
        granted = (await schedd.claim(host.capability(), want_leftovers=True)).granted
        assert len(granted.slots) == 1
        assert (granted.leftover_claim_id, granted.leftover_slot_ad) == ("", b"")


async def test_an_activation_waits_for_the_end_of_the_former_run(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        serial = await schedd.send_activate(claim_id, "1.1#1")
        await until(lambda: "1.0#1" in host.starter.runs)
        host.starter.gone("1.0#1")
        assert (await schedd.answer(serial)).activated.run_id == "1.1#1"


async def test_jobs_that_ended_here_are_in_the_history_of_the_startd(tmp_path: Path) -> None:
    path = tmp_path / "history"
    async with startd_host(tmp_path, f"STARTD_HISTORY = {path}\n") as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        for run_id in ("1.0#1", "1.1#1"):
            await schedd.activate(claim_id, run_id)
            await until(lambda run_id=run_id: run_id in host.starter.runs)
            host.starter.gone(run_id)
            await until(lambda: host.place("slot1_1") == "Claimed/Idle")
    ads = list(read_ads(path, frozenset(), forwards=True))
    assert [(ad["JobStatus"], text_of(ad, "RemoteHost").partition("@")[0]) for ad in ads] == [(4, "slot1_1")] * 2
    assert all(number_of(ad, "CompletionDate") > 0 and ad["RequestCpus"] == 1 for ad in ads)
    text = path.read_text()
    offsets = [int(number) for number in re.findall(r"^\*\*\* Offset = (\d+) ", text, re.M)]
    assert offsets[0] == 0
    assert text[offsets[1] :].startswith("*** Offset = 0 "), "the place of the former banner, as in HTCondor"


async def test_a_killed_startd_finds_its_claims_and_runs_again(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        claims = (await schedd.claim(host.capability(), num_dynamic_slots=3)).granted.slots
        ids = [slot.claim_id for slot in claims]
        await schedd.activate(ids[0], "1.0#1")
        await schedd.activate(ids[1], "1.1#1")
        await until(lambda: len(host.starter.runs) == 2)
        old_capability = host.capability()
        rows = Journal(tmp_path / "spool" / "startd.sqlite").load()
        host.startd.dispatcher.journal = DeafJournal()  # what happens from here on is not known to the next one
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


async def test_a_drain_outlives_a_killed_startd_and_can_be_cancelled(tmp_path: Path) -> None:
    text = "MaxJobRetirementTime = 3600\n"
    admin = {"metadata": metadata("ADMINISTRATOR")}
    async with startd_host(tmp_path, text) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        stub = startd_pb2_grpc.StartdStub(host.channel)
        await stub.Drain(startd_pb2.DrainRequest(reason="kernel", on_completion="resume"), **admin)
        host.startd.dispatcher.journal = DeafJournal()
        clock, starter, runs = host.clock, host.starter, dict(host.starter.runs)
    starter.runs = runs
    clock.advance(100)
    async with startd_host(tmp_path, text, clock=clock, starter=starter) as host:
        assert host.place("slot1") == "Drained/Retiring" and host.place("slot1_1") == "Claimed/Retiring"
        ad = host.point.ads.attributes(host.point.slots[f"slot1@{host.point.settings.name}"], clock.now())
        assert (ad["DrainReason"], ad["DrainingRequestId"], ad["LastDrainStartTime"]) == ("kernel", "1", int(START))
        stub = startd_pb2_grpc.StartdStub(host.channel)
        with pytest.raises(grpc.RpcError, match="drains already"):
            await stub.Drain(startd_pb2.DrainRequest(), **admin)
        await stub.CancelDrain(startd_pb2.CancelDrainRequest(request_id="1"), **admin)
        assert host.place("slot1_1") == "Claimed/Busy" and host.place("slot1") == "Unclaimed/Idle"
        assert (await stub.Drain(startd_pb2.DrainRequest(), **admin)).request_id == "2"
    async with startd_host(tmp_path, text, clock=clock) as host:  # after an orderly stop nothing drains
        assert host.place("slot1") == "Unclaimed/Idle"


async def test_suspend_continue_deactivate(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        await schedd.send(claim_id, suspend=startd_pb2.SuspendClaim())
        await until(lambda: schedd.states(claim_id)[-1:] == ["Claimed/Suspended"])
        await schedd.send(claim_id, suspend=startd_pb2.SuspendClaim(resume=True))
        await until(lambda: schedd.states(claim_id)[-1:] == ["Claimed/Busy"])
        assert [c.suspend.resume for c in host.starter.told("suspend")] == [False, True]
        await schedd.send(
            claim_id, deactivate=startd_pb2.DeactivateClaim(fast=True, reason="removed", reason_code=1023)
        )
        await until(lambda: schedd.states(claim_id)[-1:] == ["Claimed/Idle"])
        assert [(c.kill.fast, c.kill.reason_code) for c in host.starter.told("kill")] == [(True, 1023)]


async def test_what_the_starter_is_told(tmp_path: Path) -> None:
    async with (
        startd_host(tmp_path, "SLOT1_USER = slotty\nJOB_RENICE_INCREMENT = 7\n") as host,
        schedd_at(host) as schedd,
    ):
        claim_id = (await schedd.claim(host.capability(), lease_s=1200)).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1", Cmd="/bin/true")
        await until(lambda: "1.0#1" in host.starter.runs)
        told = host.starter.runs["1.0#1"]
        (slot,), (job,), (limits,) = (unpack_ads(pack) for pack in (told.slot_ad, told.job_ad, told.limits))
        assert (told.run_token, told.shadow_address, told.lease_s) == ("token", "unix:/x", 1200)
        assert (slot["State"], slot["JobId"], job["Cmd"]) == ("Claimed", "1.0", "/bin/true")
        assert (limits["SlotUser"], limits["Memory"], limits["JOB_RENICE_INCREMENT"]) == ("slotty", 128, "7")


async def test_a_run_that_the_starter_refuses_is_given_back(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        await until(lambda: "1.0#1" in host.starter.runs)
        host.starter.tell(starter_pb2.JobEvent(run_id="1.0#1", refused=starter_pb2.JobRefused(reason="no command")))
        refused = await until(
            lambda: next(
                (e.activation_refused for e in schedd.events if e.WhichOneof("what") == "activation_refused"), None
            )
        )
        assert (refused.run_id, refused.code, refused.reason) == ("1.0#1", 1026, "no command")
        assert host.place("slot1_1") == "Claimed/Idle"


async def test_usage_feeds_the_policy(tmp_path: Path) -> None:
    async with startd_host(tmp_path, "use POLICY : Hold_If_Memory_Exceeded\n") as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        await until(lambda: "1.0#1" in host.starter.runs)
        usage = ClassAd({"ResidentSetSize": 300 * 1024, "MemoryUsage": ExprTree("(ResidentSetSize + 1023) / 1024")})
        host.starter.tell(starter_pb2.JobEvent(run_id="1.0#1", usage=common_pb2.AdBatch(pack=pack_ads([usage]))))
        await until(
            lambda: host.point.slots[f"slot1_1@{host.point.settings.name}"].usage.attributes.get("MemoryUsage") == 300
        )
        running = next(record for record in host.point.slots if record.slot.run)
        assert running.activation.job.ad["MemoryUsage"] == 300
        await host.pass_time(5)
        kill = (await until(lambda: host.starter.told("kill")))[0].kill
        assert (kill.hold, kill.reason_code, kill.reason_subcode) == (True, 21, 102)
        host.starter.gone("1.0#1")
        ended = await until(lambda: schedd.ended(claim_id))
        assert (ended.hold, ended.reason_subcode) == (True, 102)


async def test_drain_cancel_vacate_and_query(tmp_path: Path) -> None:
    async with startd_host(tmp_path, "MaxJobRetirementTime = 3600\n") as host, schedd_at(host) as schedd:
        stub = startd_pb2_grpc.StartdStub(host.channel)
        admin = {"metadata": metadata("ADMINISTRATOR")}
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        reply = await stub.Drain(startd_pb2.DrainRequest(reason="kernel"), **admin)
        assert reply.request_id == "1" and host.place("slot1_1") == "Claimed/Retiring"
        with pytest.raises(grpc.RpcError, match="drains already"):
            await stub.Drain(startd_pb2.DrainRequest(), **admin)
        chunks = [c async for c in stub.Query(common_pb2.AdQuery(constraint="Draining", projection=["Name"]), **admin)]
        assert chunks[-1].total == 2 and len(unpack_ads(chunks[0].data)) == 2
        own, end = [c async for c in stub.Query(common_pb2.AdQuery(kind="StartDaemon"), **admin)]
        assert end.done and end.total == 1
        assert [(ad["MyType"], ad["TotalSlots"]) for ad in unpack_ads(own.data)] == [("StartD", 2)]
        await stub.CancelDrain(startd_pb2.CancelDrainRequest(request_id="1"), **admin)
        assert host.place("slot1_1") == "Claimed/Busy"
        await stub.Vacate(startd_pb2.VacateRequest(slots=["slot1_1"], fast=True), **admin)
        ended = await until(lambda: schedd.ended(claim_id))
        assert ended.reason_code == 1010
        with pytest.raises(grpc.RpcError, match="no slot"):
            await stub.Vacate(startd_pb2.VacateRequest(slots=["slot9"]), **admin)
        with pytest.raises(grpc.RpcError):
            await stub.Vacate(startd_pb2.VacateRequest(), metadata=metadata("READ"))


async def test_attributes_from_outside_live_until_a_restart(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host:
        batch = common_pb2.AdBatch(pack=pack_ads([ClassAd({"Temperature": 40})]))
        await startd_pb2_grpc.StartdStub(host.channel).UpdateMachineAd(batch, metadata=metadata("ADMINISTRATOR"))
        host.point.ads.show(next(iter(host.point.slots)), host.clock.now())
        assert next(iter(host.point.slots)).ad["Temperature"] == 40


async def test_ads_reach_a_collector_whole_then_as_changes(tmp_path: Path) -> None:
    collector = FakeCollector()
    async with startd_host(tmp_path, collector=collector) as host, schedd_at(host) as schedd:
        name = host.point.settings.name
        await until(lambda: collector.public.get(f"slot1@{name}"))
        await until(lambda: f"slot1@{name}" in collector.private)
        assert collector.private.value(f"slot1@{name}", "ClaimId") == host.capability()
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await until(lambda: f"slot1_1@{name}" in collector.public)
        assert collector.public.value(f"slot1_1@{name}", "State") == "Claimed"
        await until(lambda: collector.public.value(f"slot1@{name}", "Cpus") == 3)
        assert collector.public.value(f"slot1@{name}", "ChildActivity") == ["Idle"]
        await schedd.activate(claim_id, "1.0#1")
        await until(lambda: collector.public.value(f"slot1@{name}", "ChildActivity") == ["Busy"], "the lists follow")
        host.starter.gone("1.0#1")
        await until(lambda: collector.public.value(f"slot1@{name}", "ChildActivity") == ["Idle"])
        await schedd.send(claim_id, release=startd_pb2.ReleaseClaim())
        await until(lambda: f"slot1_1@{name}" not in collector.public)
        await until(lambda: f"slot1_1@{name}" not in collector.private)
        collector.public.clear()
        host.point.outbox.changed[f"slot1@{name}"] = None
        host.startd.dispatcher.flush()
        again = await until(lambda: collector.public.get(f"slot1@{name}"), "the whole ad is sent again")
        assert again["TotalCpus"] == 4
        assert collector.daemons.value(name, "TotalSlots") == 1
    assert collector.invalidated == [f"slot1@{name}", name]


async def test_requests_without_a_job_ad_are_answered(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        for rubbish in (b"", b"no pack at all"):
            asked = startd_pb2.RequestClaim(job_ad=rubbish)
            refused = (await schedd.answer(await schedd.send(host.capability(), request=asked))).refused
            assert refused.code == 1026
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        empty = startd_pb2.ActivateClaim(run_id="1.0#1")
        answer = await schedd.answer(await schedd.send(claim_id, activate=empty))
        assert answer.activation_refused.code == 1026


async def test_a_start_that_waits_for_the_starter_is_not_taken_for_gone(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        host.starter.hang_up()
        await until(lambda: not host.startd._link.connected)
        await schedd.activate(claim_id, "1.0#1")
        await until(lambda: "1.0#1" in host.starter.runs, "the start reaches the starter after the break")
        assert host.place("slot1_1") == "Claimed/Busy"


async def test_a_lost_order_to_suspend_is_given_again(tmp_path: Path) -> None:
    async with startd_host(tmp_path) as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        await schedd.activate(claim_id, "1.0#1")
        await schedd.send(claim_id, suspend=startd_pb2.SuspendClaim())
        await until(lambda: len(host.starter.told("suspend")) == 1)
        host.starter.hang_up()  # and the starter lists the job as one that runs
        await until(lambda: len(host.starter.told("suspend")) == 2, "the order comes again")
        assert not host.starter.told("suspend")[-1].suspend.resume
        host.starter.suspended.add("1.0#1")
        host.starter.hang_up()
        await schedd.send(claim_id, suspend=startd_pb2.SuspendClaim(resume=True))
        await until(lambda: schedd.states(claim_id)[-1:] == ["Claimed/Busy"])
        await until(lambda: len(host.starter.told("suspend")) >= 3)
        assert host.starter.told("suspend")[-1].suspend.resume


async def test_the_first_look_at_the_policy_knows_how_long_the_keyboard_was_idle(tmp_path: Path) -> None:
    knobs = "START = KeyboardIdle > 600\nIS_OWNER = START =?= False\nDISCONNECTED_KEYBOARD_IDLE_BOOST = 900\n"
    async with startd_host(tmp_path, knobs) as host:
        assert host.place("slot1") == "Unclaimed/Idle"


async def test_a_startd_whose_owner_expression_loses_its_value_stops(tmp_path: Path) -> None:
    knobs = f"IS_OWNER = ifThenElse(time() < {int(START) + 100}, false, undefined)\n"
    async with startd_host(tmp_path, knobs) as host:
        assert not host.startd._context.stop_requested.done()
        await host.pass_time(400)
        await until(lambda: host.startd._context.stop_requested.done(), "the startd asks to be stopped")
        assert host.startd._context.stop_requested.result() == "graceful"


async def test_recorded_stimuli_can_be_replayed_and_stay_bounded(tmp_path: Path) -> None:
    async with startd_host(tmp_path, "SLOTWISE_STARTD_STIMULI_MAX_KIB = 24\n") as host, schedd_at(host) as schedd:
        claim_id = (await schedd.claim(host.capability())).granted.slots[0].claim_id
        path = host.home.log / "startd-stimuli.jsonl"
        for number in range(1, 31):
            await schedd.activate(claim_id, f"{number}.0#1")
            await until(lambda: host.place("slot1_1") == "Claimed/Busy")
            host.starter.gone(f"{number}.0#1")
            await until(lambda: host.place("slot1_1") == "Claimed/Idle")
        old = path.with_name(path.name + ".old")
        assert path.stat().st_size <= 24 * 1024 and old.stat().st_size <= 24 * 1024
        kinds = set()
        text = old.read_text() + path.read_text()
        for line in text.splitlines():
            assert replayed(line).same
            kinds.add(json.loads(line)["stimulus"][""])
        assert claim_id.rpartition("#")[0] in text, "claims can be told apart"
        assert claim_id.rpartition("#")[2] not in text, "but not used"
        assert {stat.S_IMODE(file.stat().st_mode) for file in (path, old)} == {0o600}
        assert {"Activated", "RunGone"} <= kinds
        with pytest.raises(ValueError, match="not a step"):
            replayed("[]")


async def test_a_matched_slot_waits_for_its_schedd_and_for_nobody_else(tmp_path: Path) -> None:
    text = 'NUM_SLOTS = 3\nMATCH_TIMEOUT = 60\nSTART = Owner == "ann"\nIS_OWNER = false\n'
    async with startd_host(tmp_path, text) as host, schedd_at(host) as schedd:
        stub = startd_pb2_grpc.StartdStub(host.channel)
        first, second, third = (host.capability(f"slot{n}") for n in (1, 2, 3))
        notice = startd_pb2.MatchNotice(claim_ids=[first, second, third, "no such claim"])
        await stub.NoticeMatch(notice, metadata=metadata("NEGOTIATOR"))
        assert (host.place("slot1"), host.place("slot2")) == ("Matched/Idle", "Matched/Idle")
        record = host.point.slots[f"slot1@{host.point.settings.name}"]
        assert host.point.ads.attributes(record, host.clock.now())["Requirements"] is False
        assert (await schedd.claim(third, user="bob@test")).refused.code == 1027
        assert host.place("slot3") == "Unclaimed/Idle", "a match that comes to nothing is over"
        assert (await schedd.claim(third)).refused.code == 1034
        assert host.place("slot1") == "Matched/Idle"
        assert (await schedd.claim(first)).granted.slots
        assert host.place("slot1") == "Claimed/Idle"
        await host.pass_time(61)
        await until(lambda: host.place("slot2") == "Unclaimed/Idle", "the match has timed out")
        assert (await schedd.claim(second)).refused.code == 1034, "the id that was handed out is void"


@pytest.mark.parametrize(("knob", "name"), [("", "{}"), ("big", "big@{}"), ("a@b", "a@b")])
async def test_slots_have_the_name_of_their_startd(tmp_path: Path, knob: str, name: str) -> None:
    async with startd_host(tmp_path, f"STARTD_NAME = {knob}\n") as host:
        assert host.point.slots.names() == [f"slot1@{name.format(host.startd._hostname)}"]


@pytest.mark.parametrize("again", [False, True])
async def test_free_disk_is_measured_again_only_if_so_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    measured = {"TotalDisk": 4_000_000}
    monkeypatch.setattr(disk, "read", lambda execute: dict(measured))
    async with startd_host(tmp_path, f"RESERVED_DISK = 0\nSTARTD_RECOMPUTE_DISK_FREE = {again}\n") as host:
        (record,) = host.point.slots
        assert record.total.disk_kib == 4_000_000
        measured["TotalDisk"] = 3_000_000
        sampler.HostSampler(tmp_path, XProbe({}), host.clock.now()).sample(
            host.point.host, host.startd._context.config, host.clock.now()
        )
        assert record.total.disk_kib == (3_000_000 if again else 4_000_000)
