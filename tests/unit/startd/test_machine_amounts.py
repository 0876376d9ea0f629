"""Amounts that follow the machine, devices that go offline, dates of changes, and what other slots see."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from slotwise.errors import ConfigError
from slotwise.startd.host import machine_amounts
from slotwise.startd.host.outbox import Granted, Refused
from slotwise.startd.journal import Journal
from slotwise.startd.settings import Sampled
from slotwise.startd.slot import events as ev
from slotwise.startd.slot_types.custom import CustomResource

from tests.support.ads import text_of
from tests.support.startd_point import Point, job, point

GPUS = CustomResource("GPUs", 3, ("a", "b", "c"))


def gpus(p: Point, local: str) -> tuple[str, ...]:
    return p[local].free.devices.get("GPUs", ())


def test_swap_and_disk_keep_their_parts() -> None:
    p = point(SLOT_TYPE_1="25%", NUM_SLOTS_TYPE_1="2")
    machine_amounts.resize(p.it.host, disk_kib=2_000_000, swap_kib=1_000_000)
    p.it.validate()
    assert (p["slot1"].total.disk_kib, p["slot2"].free.swap_kib) == (500_000, 250_000)
    assert p.ad("slot1")["TotalDisk"] == 2_000_000


def test_a_partitionable_slot_never_has_less_than_it_gave_out() -> None:
    p = point()
    p.claim(wanted=job(RequestDisk=900_000))
    machine_amounts.resize(p.it.host, disk_kib=500_000)
    p.it.validate()
    assert p["slot1"].free.disk_kib == 0
    assert p["slot1_1"].total.disk_kib >= 900_000


def test_a_disk_that_was_full_is_divided_when_there_is_room() -> None:
    types: Any = {"SLOT_TYPE_1": "25%", "NUM_SLOTS_TYPE_1": "2", "SLOT_TYPE_2": "50%", "NUM_SLOTS_TYPE_2": "1"}
    p = point(**types, SLOT_TYPE_2_PARTITIONABLE="true")
    p.claim("slot3", wanted=job(RequestDisk=1024))
    machine_amounts.resize(p.it.host, disk_kib=0)
    machine_amounts.divide_disk(p.it.host, 4000, {"slot1": 1000, "slot2": 1000, "slot3": 2000})
    p.it.validate()
    assert [p[name].total.disk_kib for name in ("slot1", "slot2", "slot3", "slot3_1")] == [1000, 1000, 2000, 1024]
    assert p["slot3"].free.disk_kib == 976 and p.ad("slot1")["TotalDisk"] == 4000


def test_disk_of_which_jobs_have_parts_is_divided_as_before(tmp_path: Path) -> None:
    p = point()
    machine = replace(p.it.settings.resources, disk_kib=10)
    with closing(Journal(tmp_path / "journal")) as journal:
        journal.save(p.it.slots, ())
        assert machine_amounts.with_disk_in_use(machine, journal.load(), 500).disk_kib == 10, "nothing is claimed"
        p.claim(wanted=job(RequestDisk=900_000))
        journal.save(p.it.slots, ())
        for former, now in ((500, 500), (5, 10), (None, 10)):
            assert machine_amounts.with_disk_in_use(machine, journal.load(), former).disk_kib == now


def test_a_device_that_goes_offline_in_use_stays_until_released() -> None:
    p = point([GPUS])
    claim_id = p.run(wanted=job(RequestGPUs=1))
    p.it.offline_devices.follow({"GPUs": ("a", "b")})
    p.it.validate()
    assert gpus(p, "slot1") == ("c",)
    assert p.ad("slot1_1")["AssignedGPUs"] == "a"
    p.gone()
    p.it.claims.apply(claim_id, 0, ev.Released(), p.now)
    p.it.validate()
    assert gpus(p, "slot1") == ("c",)
    assert p.ad("slot1")["TotalSlotGPUs"] == 1
    p.it.offline_devices.follow({"GPUs": ()})
    p.it.validate()
    assert sorted(gpus(p, "slot1")) == ["a", "b", "c"]


def test_latches_date_the_changes_of_expressions() -> None:
    p = point(NUM_SLOTS="1", STARTD_LATCH_EXPRS="CpuBusy", CpuBusy="LoadAvg > 0.5")
    p.poll()
    since = p.now
    assert (p.ad("slot1")["CpuBusyValue"], p.ad("slot1")["CpuBusyTime"]) == (0, since)
    p.it.settings.sample = Sampled({}, {"slot1@host": (2.0, 0.0)})
    p.poll(60)
    p.poll(60)
    assert (p.ad("slot1")["CpuBusyValue"], p.ad("slot1")["CpuBusyTime"]) == (1, since + 60)


def test_slots_see_each_other_at_once() -> None:
    p = point(NUM_SLOTS="2", STARTD_SLOT_ATTRS="State, Activity")
    p.poll()
    assert p["slot2"].ad["slot1_State"] == "Unclaimed"
    p.run("slot1")
    assert (p["slot2"].ad["slot1_State"], p["slot2"].ad["slot1_Activity"]) == ("Claimed", "Busy")


def test_the_lease_is_the_jobs_or_the_schedds() -> None:
    p = point(MAX_CLAIM_ALIVES_MISSED="4")
    p.claim()
    assert p["slot1_1"].slot.claim.lease_s == 4 * 300  # type: ignore[union-attr]
    p.claim(wanted=job(JobLeaseDuration=77))
    assert p["slot1_2"].slot.claim.lease_s == 77  # type: ignore[union-attr]


def test_knobs_per_slot_type_and_attributes_from_the_configuration() -> None:
    p = point(
        NUM_SLOTS="2",
        STARTD_ATTRS="Rack, Floor",
        Rack='"r7"',
        SLOT2_Rack='"r8"',
        Floor="3",
        SLOT1_START="false",
        SLOT2_STARTD_ATTRS="Window",
        Window="true",
    )
    assert (p.ad("slot1")["Rack"], p.ad("slot2")["Rack"], p.ad("slot1")["Floor"]) == ("r7", "r8", 3)
    assert "Window" not in p.ad("slot1") and p.ad("slot2")["Window"] is True
    assert p.ad("slot1")["Start"] is False and p.ad("slot2")["Start"] is True


def test_former_names_of_lists_of_attributes() -> None:
    """HTCondor 25.14 was given the same."""
    lists: dict[str, Any] = {"STARTD_EXPRS": "Color, Shape", "STARTD_SLOT_EXPRS": "State", "STARTD_JOB_EXPRS": "Probe"}
    p = point(
        NUM_SLOTS="2", **lists, STARTD_ATTRS="Color", STARTD_SLOT_ATTRS="Color", Color='"red"', Shape='"round"',
        SLOT1_Color='"blue"', SLOT2_Shape='"flat"',
    )  # fmt: skip
    p.run("slot1", wanted=job(Probe=7))
    p.poll()
    one, two = p.ad("slot1"), p.ad("slot2")
    assert (one["Color"], one["Shape"], two["Color"], two["Shape"]) == ("blue", "round", "red", "round")
    for ad in (one, two):
        assert (ad["slot1_Color"], ad["slot2_Color"]) == ("blue", "red")
        assert (ad["slot1_State"], ad["slot2_State"]) == ("Claimed", "Unclaimed")
    assert one["Probe"] == 7


def test_requirements_by_state() -> None:
    p = point(
        NUM_SLOTS="1", STARTD_HEALTH_EXPRS="DiskFine", DiskFine="true", SLOT_REQUIREMENTS_CLAUSES="Nice", Nice="true"
    )
    assert "Healthy" in str(p.ad("slot1")["Requirements"]) and "Nice" in str(p.ad("slot1")["Requirements"])
    p.apply("slot1", ev.MatchNoticed())
    assert p.ad("slot1")["Requirements"] is False
    p.apply("slot1", ev.Evaluate(), 200)
    p.apply("slot1", ev.FoundBroken("fan"))
    assert "fan" in text_of(p.ad("slot1"), "Requirements")
    assert p.ad("slot1")["SlotBrokenReason"] == "fan"


def test_an_unhealthy_slot_starts_nothing() -> None:
    p = point(STARTD_HEALTH_EXPRS="DiskFine", DiskFine="Sick =!= true")
    claim_id = p.claim()
    p.it.ads.added["Sick"] = True
    p.ad("slot1_1")
    assert p.activate(claim_id).code == 1036  # type: ignore[union-attr]


def test_times_of_job_and_claim() -> None:
    p = point()
    claim_id = p.run()
    p.poll(100)
    p.apply("slot1_1", ev.SuspendCommanded())
    p.apply("slot1_1", ev.ContinueCommanded(), 50)
    p.poll(10)
    ad = p.ad("slot1_1")
    assert (ad["TotalJobRunTime"], ad["TotalJobSuspendTime"], ad["JobStart"]) == (110, 50, int(p.now) - 160)
    p.gone()
    p.activate(claim_id, "1.1#1")
    p.poll(7)
    ad = p.ad("slot1_1")
    assert (ad["TotalJobRunTime"], ad["TotalClaimRunTime"], ad["TotalClaimSuspendTime"]) == (7, 117, 50)
    assert ad["TotalTimeClaimedSuspended"] == 50
    p.it.claims.apply(claim_id, 0, ev.Released(fast=True), p.now)
    p.gone("1.1#1")
    assert not p.has("slot1_1")


def test_health_is_judged_by_expressions_and_unknown_is_well() -> None:
    p = point(STARTD_HEALTH_EXPRS="DiskFine, Fans > 2, Nobody.Knows", DiskFine="Sick =!= true")
    ad = p.ad("slot1")
    assert ad.eval("Healthy") == 1 and ad.eval("HealthFactor") == pytest.approx(1 / 3)
    p.it.ads.added["Fans"] = 1
    assert p.ad("slot1").eval("Healthy") == 0
    assert isinstance(p.request(), Refused)
    p.it.ads.added["Fans"] = 3
    assert isinstance(p.request(), Granted)
    with pytest.raises(ConfigError, match="STARTD_HEALTH_EXPRS"):
        point(STARTD_HEALTH_EXPRS="1 +")


def test_clauses_are_added_to_requirements_by_kind_of_slot() -> None:
    p = point(
        SLOT_REQUIREMENTS_CLAUSES="Quiet START Nothing", PSLOT_REQUIREMENTS_CLAUSES="Roomy",
        DSLOT_REQUIREMENTS_CLAUSES="Cosy", Quiet="LoadAvg < 3", Roomy="Cpus > 1", Cosy="Cpus == 1",
    )  # fmt: skip
    p.claim()
    texts = {name: str(p.ad(name).lookup("Requirements")) for name in ("slot1", "slot1_1")}
    clauses = {name: [part.strip("() ") for part in text.split("&&")] for name, text in texts.items()}
    assert clauses["slot1"] == ["Quiet", "START", "WithinResourceLimits", "Roomy"]
    assert clauses["slot1_1"] == ["Quiet", "START", "WithinResourceLimits", "Cosy"]
    assert p.ad("slot1_1").eval("Cosy") is True
