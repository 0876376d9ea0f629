"""SHARED_MACHINE_RESOURCE_<tag>: devices that several slots have at once."""

from __future__ import annotations

from pathlib import Path

from slotwise.classad import ExprTree
from slotwise.startd.host.outbox import Refused
from slotwise.startd.journal import Journal
from slotwise.startd.slot_types.custom import CustomResource, custom_resources
from slotwise.startd.start_params import limits_of

from tests.support.configured import configured
from tests.support.startd_point import job, point

PROPERTIES = {"genome": {"Size": "3000"}, "weather": {"Size": "100"}}
DATA = [CustomResource("Data", 2, ("genome", "weather"), shared=True, properties=PROPERTIES)]


def test_the_knob_makes_lists_of_devices_shared_and_counts_not() -> None:
    knobs = configured(
        MACHINE_RESOURCE_Data="genome, weather", SHARED_MACHINE_RESOURCE_Data="true",
        MACHINE_RESOURCE_Cogs="8", SHARED_MACHINE_RESOURCE_Cogs="true", MACHINE_RESOURCE_GPUs="a",
    )  # fmt: skip
    found = {r.tag.lower(): r.shared for r in custom_resources(knobs, lambda tag, command: "")}
    assert found == {"data": True, "cogs": False, "gpus": False}


def test_several_dynamic_slots_have_the_same_device() -> None:
    host = point(DATA)
    for number in (1, 2):
        host.run("slot1", f"{number}.0#1", job(ClusterId=number, RequestData=2))
    assert host.ad("slot1")["Data"] == 2
    assert host.ad("slot1_1")["AssignedData"] == host.ad("slot1_2")["AssignedData"] == "genome,weather"
    assert str(host.ad("slot1").lookup("AvailableData")) == "{ Data_genome,Data_weather }"
    assert host.ad("slot1")["MachineResources"] == "Cpus Memory Disk Swap Data"
    assert limits_of(host["slot1_1"], host.knobs, {})["AssignedData"] == "genome,weather"
    host.gone("1.0#1")
    host.it.validate()
    assert host.ad("slot1")["TotalData"] == 2


def test_a_job_may_require_one_by_its_properties() -> None:
    host = point(DATA)
    host.claim(wanted=job(RequestData=1, RequireData=ExprTree("Size < 500")))
    assert host.ad("slot1_1")["AssignedData"] == "weather"
    assert isinstance(host.request(wanted=job(RequestData=2, RequireData=ExprTree("Size < 500"))), Refused)
    assert isinstance(host.request(wanted=job(RequestData=3)), Refused)


def test_each_static_slot_has_all_unless_its_type_says_less() -> None:
    host = point(DATA, NUM_SLOTS_TYPE_1="2", SLOT_TYPE_1="cpus=1", NUM_SLOTS_TYPE_2="1", SLOT_TYPE_2="cpus=1, Data=1")
    assert [host.ad(f"slot{n}")["Data"] for n in (1, 2, 3)] == [2, 2, 1]
    assert host.ad("slot3")["AssignedData"] == "genome"


def test_the_journal_keeps_who_has_what(tmp_path: Path) -> None:
    host = point(DATA)
    host.claim(wanted=job(RequestData=1))
    journal = Journal(tmp_path / "journal")
    journal.save(host.it.slots, [])
    kept = {record.name: record.total for record in journal.load()}
    journal.close()
    assert kept["slot1_1@host"].shared == {"Data": ("genome",)}
