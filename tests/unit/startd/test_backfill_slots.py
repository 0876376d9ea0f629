"""Backfill slots: the machine divided a second time, for jobs that run where no primary slot is in use."""

from __future__ import annotations

from typing import Any

import pytest
from slotwise.startd.host import backfill_amounts
from slotwise.startd.host.outbox import Kill, Refused
from slotwise.startd.publish.daemon_ad import daemon_attributes
from slotwise.startd.slot_types.custom import CustomResource

from tests.support.startd_point import Point, job, point

TWICE: dict[str, Any] = {
    "SLOT_TYPE_1": "100%", "NUM_SLOTS_TYPE_1": "1", "SLOT_TYPE_1_PARTITIONABLE": "true",
    "SLOT_TYPE_2": "100%", "NUM_SLOTS_TYPE_2": "1", "SLOT_TYPE_2_PARTITIONABLE": "true", "SLOT_TYPE_2_BACKFILL": "true",
}  # fmt: skip
GPUS = [CustomResource("GPUs", 3, ("a", "b", "c"))]


def of_both(**knobs: str) -> Point:
    return point(**{**TWICE, **knobs})


def settle(host: Point) -> None:
    """What follows from what was asked before."""
    host.it.backfill_slots.settle(host.now)
    host.it.validate()


def amounts(host: Point, local: str) -> tuple[Any, ...]:
    ad = host.ad(local)
    return ad["Cpus"], ad["Memory"], ad["Disk"]


def test_both_kinds_of_slots_have_all_of_the_machine() -> None:
    host = of_both()
    assert amounts(host, "slot1") == amounts(host, "slot2") == (4, 4096, 1_000_000)
    assert host.ad("slot2")["BackfillSlot"] is True
    assert "BackfillSlot" not in host.ad("slot1")
    assert not host["slot2"].slot.broken


def test_static_types_share_their_own_division() -> None:
    host = point(NUM_SLOTS_TYPE_1="2", SLOT_TYPE_1="auto", NUM_SLOTS_TYPE_2="4", SLOT_TYPE_2="auto",
                 SLOT_TYPE_2_BACKFILL="true")  # fmt: skip
    assert [host[f"slot{n}"].total.cpus for n in range(1, 7)] == [2, 2, 1, 1, 1, 1]


def test_devices_are_bound_from_the_end_for_backfill() -> None:
    host = point(GPUS, **TWICE)
    assert host.ad("slot1")["AssignedGPUs"] == "a,b,c"
    assert host.ad("slot2")["AssignedGPUs"] == "c,b,a"
    assert host.ad("slot1")["GPUs"] == host.ad("slot2")["GPUs"] == 3


def test_backfill_slots_offer_what_primary_slots_leave() -> None:
    host = point(GPUS, **TWICE)
    host.claim("slot1", job(RequestCpus=3, RequestMemory=1024, RequestGPUs=1))
    settle(host)
    assert host.ad("slot2")["Cpus"] == 1
    assert host.ad("slot2")["Memory"] == 3072
    assert host.ad("slot2")["GPUs"] == 2
    assert str(host.ad("slot2").lookup("AvailableGPUs")) == "{ GPUs_c,GPUs_b }"
    assert host.ad("slot2")["TotalSlotCpus"] == 4
    assert isinstance(host.request("slot2", job(RequestCpus=2)), Refused)
    assert isinstance(host.request("slot2", job(RequestGPUs=3)), Refused)
    host.claim("slot2", job(RequestGPUs=2))
    assert host["slot2_1"].total.devices == {"GPUs": ("c", "b")}
    settle(host)
    assert host["slot2_1"].conflict == ""


def test_backfill_use_does_not_shrink_primary_slots() -> None:
    host = of_both()
    host.claim("slot2", job(RequestCpus=4))
    settle(host)
    assert amounts(host, "slot1") == (4, 4096, 1_000_000)
    assert host.ad("slot2")["Cpus"] == 0


def test_a_primary_claim_evicts_as_many_backfill_jobs_as_it_needs() -> None:
    host = of_both()
    for number in (1, 2, 3, 4):
        host.run("slot2", f"{number}.0#1", job(ClusterId=number))
    settle(host)
    host.forget()
    host.claim("slot1", job(RequestCpus=2))
    settle(host)
    assert [host.place(f"slot2_{n}") for n in (1, 2, 3, 4)] == ["Preempting/Vacating"] * 2 + ["Claimed/Busy"] * 2
    assert host.ad("slot2_1")["ResourceConflict"] == "Cpus"
    assert "ResourceConflict" not in host.ad("slot2_3")
    (first, _) = host.told(Kill)
    assert first.cause.code == 1011
    assert not first.cause.hold
    assert "Cpus" in first.cause.reason
    host.gone("1.0#1")
    host.gone("2.0#1")
    settle(host)
    assert host["slot2_3"].conflict == ""
    assert not host.has("slot2_1")


def test_a_job_on_a_primary_slots_device_is_the_one_to_go() -> None:
    host = point(GPUS, **TWICE)
    host.run("slot2", "1.0#1", job(RequestGPUs=1))
    host.run("slot2", "2.0#1", job(ClusterId=2, RequestGPUs=2))
    host.claim("slot1", job(RequestGPUs=1))
    settle(host)
    assert host["slot2_2"].total.devices == {"GPUs": ("b", "a")}
    assert host.ad("slot2_2")["ResourceConflict"] == "GPUs,a"
    assert (host.place("slot2_1"), host.place("slot2_2")) == ("Claimed/Busy", "Preempting/Vacating")


def test_an_idle_backfill_claim_ends_too() -> None:
    host = of_both()
    host.claim("slot2", job(RequestCpus=4))
    host.claim("slot1", job(RequestCpus=1))
    settle(host)
    assert not host.has("slot2_1")
    settle(host)
    assert host.ad("slot2")["Cpus"] == 3


def test_retirement_is_honoured() -> None:
    host = of_both(SLOT_TYPE_2_MAXJOBRETIREMENTTIME="600", MACHINEMAXVACATETIME="60")
    host.run("slot2", "1.0#1", job(RequestCpus=4))
    host.claim("slot1")
    settle(host)
    assert host.place("slot2_1") == "Claimed/Retiring"
    host.poll(after=541)
    assert host.place("slot2_1") == "Preempting/Vacating"


def test_the_owners_own_rule_about_conflicts_is_the_only_one() -> None:
    host = of_both(SLOT_TYPE_2_PREEMPT='stringListMember("Memory", ResourceConflict ?: "")')
    host.run("slot2", "1.0#1", job(RequestCpus=4, RequestMemory=3000))
    host.claim("slot1")
    settle(host)
    assert (host.ad("slot2_1")["ResourceConflict"], host.place("slot2_1")) == ("Cpus", "Claimed/Busy")
    host.claim("slot1", job(RequestMemory=2000))
    settle(host)
    assert host.place("slot2_1") == "Preempting/Vacating"


def test_wanting_to_suspend_does_not_keep_a_job_on_anothers_cores() -> None:
    host = of_both(WANT_SUSPEND="true")
    host.run("slot2", "1.0#1", job(RequestCpus=4))
    host.claim("slot1")
    settle(host)
    assert host.place("slot2_1") == "Preempting/Vacating"


def test_static_slots_of_both_kinds() -> None:
    host = point(NUM_SLOTS_TYPE_1="1", SLOT_TYPE_1="100%", NUM_SLOTS_TYPE_2="2", SLOT_TYPE_2="50%",
                 SLOT_TYPE_2_BACKFILL="true")  # fmt: skip
    host.run("slot2", "1.0#1")
    settle(host)
    assert host.ad("slot3")["Cpus"] == 2
    host.claim("slot1")
    settle(host)
    assert host.place("slot2") == "Preempting/Vacating"
    assert host.ad("slot3")["Cpus"] == 0
    assert isinstance(host.request("slot3"), Refused)
    host.gone("1.0#1")
    assert host.place("slot2") == "Unclaimed/Idle"


def test_more_backfill_than_machine_is_no_conflict() -> None:
    """ExcessBackfill: cores that only backfill slots have are nobody else's."""
    host = of_both(SLOT_TYPE_1="cpus=2, memory=50%, disk=50%", SLOT_TYPE_2="100%")
    host.run("slot2", "1.0#1", job(RequestCpus=2))
    host.claim("slot1", job(RequestCpus=2))
    settle(host)
    assert host["slot2_1"].conflict == ""
    own = daemon_attributes(host.it, host.now)
    assert (own["ExcessBackfillCpus"], own["TotalInUseCpus"], own["TotalBackfillInUseCpus"]) == (2, 2, 2)
    assert own["ExcessBackfillMemory"] == 2048


def test_without_backfill_slots_nothing_is_said() -> None:
    host = point()
    host.claim()
    settle(host)
    own = daemon_attributes(host.it, host.now)
    assert (own["TotalInUseCpus"], own["TotalBackfillInUseCpus"], own["ExcessBackfillCpus"]) == (1, 0, 0)
    assert "ResourceConflict" not in host.ad("slot1_1")


@pytest.mark.parametrize("primary", [1, 2, 3, 4])
def test_nothing_is_in_use_twice_once_the_jobs_have_gone(primary: int) -> None:
    host = of_both()
    for number in (1, 2, 3, 4):
        host.run("slot2", f"{number}.0#1", job(ClusterId=number))
    host.claim("slot1", job(RequestCpus=primary))
    settle(host)
    for number in (1, 2, 3, 4):
        if host.place(f"slot2_{number}").startswith("Preempting"):
            host.gone(f"{number}.0#1")
    settle(host)
    assert len(host["slot2"].children) == 4 - primary
    assert backfill_amounts.spare(host.it.slots).cpus == 0
