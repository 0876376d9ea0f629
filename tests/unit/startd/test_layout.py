"""Slot types in every form, what is left, and what does not fit."""

from __future__ import annotations

from typing import Any

import pytest
from slotwise.config.slot_shares import Amount, Auto, Fraction, Minimal, parse_shares
from slotwise.errors import ConfigError
from slotwise.model.resources import Resources
from slotwise.model.slot import SlotKind
from slotwise.startd.monitor import sampler
from slotwise.startd.settings import machine_resources, slot_types
from slotwise.startd.slot_types.custom import CustomResource, amount_or_devices, custom_resources, parse_inventory
from slotwise.startd.slot_types.layout import PlannedSlot, plan

from tests.support.configured import configured

MACHINE = Resources(4, 256, 1_000_000, 500_000, {"Cogs": 8, "GPUs": 3}, {"GPUs": ("a", "b", "c")})


def slots(machine: Resources = MACHINE, mode: str = "CONTINUE", **knobs: str) -> list[PlannedSlot]:
    return plan(machine, slot_types(configured(**knobs), machine), mode)


def typed(text: str, count: int = 1, **more: Any) -> list[PlannedSlot]:
    return slots(SLOT_TYPE_1=text, NUM_SLOTS_TYPE_1=str(count), **more)


def test_by_default_one_partitionable_slot_has_everything() -> None:
    (slot,) = slots()
    assert (slot.kind, slot.local_name, slot.resources) == (SlotKind.PARTITIONABLE, "slot1", MACHINE)


def test_num_slots_shares_everything_equally() -> None:
    made = slots(NUM_SLOTS="4")
    assert [slot.local_name for slot in made] == ["slot1", "slot2", "slot3", "slot4"]
    assert {(s.kind, s.resources.cpus, s.resources.memory_mib) for s in made} == {(SlotKind.STATIC, 1, 64)}
    assert [slot.resources.custom["GPUs"] for slot in made] == [1, 1, 1, 0]
    assert [slot.resources.devices["GPUs"] for slot in made[:3]] == [("a",), ("b",), ("c",)]


def test_slots_without_a_type_may_be_of_the_other_kind() -> None:
    each = slots(SLOT_TYPE_0_PARTITIONABLE="false")
    assert [(slot.kind, slot.resources.cpus) for slot in each] == [(SlotKind.STATIC, 1)] * 4
    halves = slots(NUM_SLOTS="2", SLOT_TYPE_0_PARTITIONABLE="true")
    assert [(slot.kind, slot.resources.cpus) for slot in halves] == [(SlotKind.PARTITIONABLE, 2)] * 2


def test_more_slots_than_cores_are_refused() -> None:
    with pytest.raises(ConfigError, match="NUM_SLOTS is 5"):
        slots(NUM_SLOTS="5")


@pytest.mark.parametrize(
    "text",
    [
        "cpus=2, ram=128, swap=25%, disk=1/2",
        "cpus=1/2, memory=128, virt=25%, disk=50%",
        "c=1/2, m=50%, v=1/4, disk=1/2",
    ],
)
def test_the_manuals_equal_definitions_are_equal(text: str) -> None:
    (slot,) = typed(text)
    r = slot.resources
    assert (r.cpus, r.memory_mib, r.swap_kib, r.disk_kib) == (2, 128, 125_000, 500_000)


@pytest.mark.parametrize("text", ["c=25%, m=64, v=1/4, d=25%", "25%", "1/4"])
def test_and_so_are_the_quarters(text: str) -> None:
    (slot,) = typed(text)
    r = slot.resources
    assert (r.cpus, r.memory_mib, r.swap_kib, r.disk_kib) == (1, 64, 125_000, 250_000)


def test_a_blanket_value_stands_for_what_is_not_named() -> None:
    shares = parse_shares("cpus=1, disk=auto, 50%", ["Cogs"])
    assert shares.of("memory") == Fraction(0.5) and shares.of("Cogs") == Fraction(0.5)
    assert (shares.of("cpus"), shares.of("disk")) == (Amount(1), Auto())


@pytest.mark.parametrize("text", ["cpus=2\nmem=1G\ndisk=2G", "cpus=2,mem=1G,disk=2G", "cpus=2 mem=1024 disk=2097152"])
def test_lines_commas_and_blanks_separate(text: str) -> None:
    shares = parse_shares(text, [])
    assert (shares.of("cpus"), shares.of("memory"), shares.of("disk")) == (Amount(2), Amount(1024), Amount(2 * 1024**2))


def test_units_are_of_the_resource() -> None:
    shares = parse_shares("mem=2G, swap=1M, disk=1T", [])
    assert [shares.of(name) for name in ("memory", "swap", "disk")] == [Amount(2048), Amount(1024), Amount(1024**3)]


def test_auto_gets_an_equal_part_of_what_is_left() -> None:
    made = slots(
        SLOT_TYPE_1="mem=10%",
        NUM_SLOTS_TYPE_1="1",
        SLOT_TYPE_2="auto",
        NUM_SLOTS_TYPE_2="3",
        SLOT_TYPE_1_PARTITIONABLE="true",
    )
    assert [slot.resources.memory_mib for slot in made] == [25, 77, 77, 77]
    assert [slot.kind for slot in made] == [SlotKind.PARTITIONABLE, *[SlotKind.STATIC] * 3]
    assert [slot.type_number for slot in made] == [1, 2, 2, 2]


def test_minimal_is_one_core_one_mib_and_a_little_disk() -> None:
    assert parse_shares("minimal", []).of("cpus") == parse_shares("min", []).of("cpus") == Minimal()
    (slot,) = typed("minimal")
    assert (slot.resources.cpus, slot.resources.memory_mib, slot.resources.disk_kib) == (1, 1, 1024)


def test_custom_resources_are_named_in_full() -> None:
    (slot,) = typed('cpus=1, cogs=50%, gpus=2:DeviceName=="x"')
    assert slot.resources.custom == {"Cogs": 4, "GPUs": 2}
    assert slot.resources.devices == {"GPUs": ("a", "b")}
    assert parse_shares("gpus=1:Capability>3", ["GPUs"]).constraints == {"GPUs": "Capability>3"}


def test_an_unknown_resource_is_an_error_only_as_an_amount() -> None:
    assert typed("cpus=1, widgets=10%") and typed("cpus=1, widgets=0")
    with pytest.raises(ConfigError, match="widgets"):
        typed("cpus=1, widgets=2")


def test_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        typed("cpus=half, swapp=3, memory=1G, widgets=2")
    assert caught.value.key == "SLOT_TYPE_1"
    assert all(word in str(caught.value) for word in ("'half'", "'swapp'", "'widgets'", "MACHINE_RESOURCE_swapp"))


@pytest.mark.parametrize("text", ["cpus=lots", "mem=10X", "1/0", "%", "cpus=2G", "2", "nan%", "-5%", "2G%"])
def test_what_is_not_a_share_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="SLOT_TYPE_1"):
        typed(text)


def test_what_does_not_fit_is_broken_cleared_or_refused() -> None:
    knobs: dict[str, Any] = {"SLOT_TYPE_1": "mem=100", "NUM_SLOTS_TYPE_1": "3"}
    made = slots(**knobs)
    assert [bool(slot.broken) for slot in made] == [False, False, True]
    assert made[2].broken == "Memory: slot3 (slot type 1) wants 100 MiB, and 56 MiB are left"
    assert slots(mode="CLEAR", **knobs) == []
    with pytest.raises(ConfigError, match="Memory"):
        slots(mode="ABORT", **knobs)
    with pytest.raises(ConfigError, match="CONTINUE, CLEAR, ABORT"):
        slots(mode="CONTINU", **knobs)


def test_a_full_disk_breaks_no_slot() -> None:
    full = Resources(4, 256, 2, 0)
    assert [(slot.resources.disk_kib, slot.broken) for slot in slots(full)] == [(2, None)]
    assert [(slot.resources.disk_kib, slot.broken) for slot in slots(full, NUM_SLOTS="4")] == [(0, None)] * 4


def test_type_zero_may_not_be_set() -> None:
    with pytest.raises(ConfigError, match="SLOT_TYPE_0"):
        slots(SLOT_TYPE_0="25%")
    with pytest.raises(ConfigError, match="NUM_SLOTS_TYPE_0"):
        slots(NUM_SLOTS_TYPE_0="1")


@pytest.mark.parametrize("text", ["-3", "1.5"])
def test_a_number_of_slots_is_whole_and_not_negative(text: str) -> None:
    with pytest.raises(ConfigError, match="NUM_SLOTS_TYPE_1"):
        slots(SLOT_TYPE_1="cpus=1", NUM_SLOTS_TYPE_1=text)
    with pytest.raises(ConfigError, match="NUM_SLOTS"):
        slots(NUM_SLOTS="-1")


def test_a_type_of_which_no_slots_are_made_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert [slot.type_number for slot in slots(SLOT_TYPE_2="cpus=1")] == [0]
    assert "SLOT_TYPE_2" in caplog.text


def test_a_constraint_that_is_no_expression_is_refused_with_its_slot_type() -> None:
    with pytest.raises(ConfigError, match="SLOT_TYPE_1"):
        typed("cpus=1, gpus=1:Capability>")


def test_prefixes_change_names() -> None:
    assert slots(STARTD_RESOURCE_PREFIX="box")[0].local_name == "box1"
    assert typed("25%", SLOT_TYPE_1_NAME_PREFIX="big")[0].local_name == "big1"


def test_overrides_and_reserves_come_off_the_machine() -> None:
    knobs = configured(NUM_CPUS="40", MEMORY="1000", RESERVED_MEMORY="100", RESERVED_DISK="1", RESERVED_SWAP="1")
    found = machine_resources(knobs, {"TotalDisk": 10_000, "TotalVirtualMemory": 2000, "DetectedCpus": 2}, [])
    assert (found.cpus, found.memory_mib, found.disk_kib, found.swap_kib) == (40, 900, 8976, 976)


@pytest.mark.parametrize("knob", ["NUM_CPUS", "MEMORY", "RESERVED_DISK"])
def test_negative_amounts_are_refused(knob: str) -> None:
    with pytest.raises(ConfigError, match=knob):
        machine_resources(configured(**{knob: "-3"}), {"DetectedCpus": 2}, [])


# --------------------------------------------------------------------------------------------------- custom resources


def custom(**knobs: str) -> list[CustomResource]:
    config = configured(**knobs)
    return custom_resources(config, lambda tag, command: f"Detected{tag} = 2\n{command}")


def test_counts_and_lists_of_devices() -> None:
    assert amount_or_devices("4") == (4, ())
    assert amount_or_devices('"a, b"') == (2, ("a", "b"))
    (gears,) = custom(MACHINE_RESOURCE_GEARS="x y z", OFFLINE_MACHINE_RESOURCE_GEARS="y")
    assert (gears.usable, gears.usable_amount) == (("x", "z"), 2)
    assert str(CustomResource("Cogs", 0).usable_amount) == "0"  # as HTCondor prints TotalCogs


def test_reserved_tags_are_refused_and_the_list_of_names_chooses() -> None:
    with pytest.raises(ConfigError, match="MACHINE_RESOURCE_CPUS"):
        custom(MACHINE_RESOURCE_CPUS="4")
    assert [r.tag for r in custom(MACHINE_RESOURCE_A="1", MACHINE_RESOURCE_B="1", MACHINE_RESOURCE_NAMES="B")] == ["B"]


def test_an_inventory_program_tells_count_devices_and_properties() -> None:
    (found,) = custom(MACHINE_RESOURCE_INVENTORY_DISH="ignored")
    assert found.amount == 2
    printed = 'DetectedGPUs="GPU-1, GPU-2"\nGPU_1_Capability=7.5\nGPUs_DriverVersion=12\nOfflineGPUs="GPU-2"\n'
    gpus = parse_inventory("GPUs", printed)
    assert gpus.usable == ("GPU-1",)
    assert gpus.properties == {"GPU-1": {"Capability": "7.5"}, "": {"DriverVersion": "12"}}


NESTED = (
    'DetectedDish = "D-1, D-2"\nCommon = [ Band = "X" ]\nD_1 = [ id = "D-1"; Gain = 40; ]\nD_2 = [ Gain = 50 ]\n'
    'OfflineDish = "D-2"\nSite = [ Id = "elsewhere" ]'
)


def test_nested_ads_tell_the_properties_of_the_device_they_are_about_or_of_all() -> None:
    dish = parse_inventory("Dish", NESTED)
    assert (dish.devices, dish.usable) == (("D-1", "D-2"), ("D-1",))
    assert (dish.properties["D-1"], dish.properties["D-2"]) == ({"Gain": "40"}, {"Gain": "50"})
    assert dish.properties[""] == {"Band": '"X"', "Site": '[ Id = "elsewhere" ]'}


def test_a_resource_of_several_lines_is_an_ad_as_inventory_programs_print_it() -> None:
    assert custom(MACHINE_RESOURCE_DISH=NESTED) == [parse_inventory("DISH", NESTED.replace("Dish", "DISH"))]


def test_slot_types_above_the_highest_number_are_not_read() -> None:
    many: dict[str, Any] = {
        "SLOT_TYPE_11": "cpus=1",
        "NUM_SLOTS_TYPE_11": "2",
        "SLOT_TYPE_1": "cpus=1",
        "NUM_SLOTS_TYPE_1": "1",
    }
    assert [slot.type_number for slot in slots(**many)] == [1]
    assert [slot.type_number for slot in slots(MAX_SLOT_TYPES="11", **many)] == [1, 11, 11]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("/bin/sh -c 'echo no bus >&2; exit 3'", "exit status 3, no bus"),
        ("/nowhere/inventory", "No such file"),
        ("/bin/sh -c 'exit", "No closing quotation"),
    ],
)
def test_an_inventory_program_that_fails_is_named_with_its_knob(command: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"MACHINE_RESOURCE_INVENTORY_DISH: .*{why}"):
        sampler.inventory(configured(MACHINE_RESOURCE_INVENTORY_DISH=command))


def test_bytes_that_are_no_text_do_not_stop_an_inventory() -> None:
    config = configured(
        MACHINE_RESOURCE_INVENTORY_DISH=r"printf '\301\nDetectedDISH = 2\n'", STARTD_DETECT_GPUS="false"
    )
    (dish,) = sampler.inventory(config)
    assert dish.amount == 2
