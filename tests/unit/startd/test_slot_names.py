"""Knobs of one slot where slots are called otherwise than slot1, as HTCondor 25.14.1 reads them.

The colours below are those that ``condor_status -af Name Colour`` shows there, with STARTD_ATTRS = Colour.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.config import Config, load
from slotwise.config.checking import check
from slotwise.config.slot_names import prefixes
from slotwise.startd.policy.slot_config import SlotConfig

_COLOURS = """
Colour = plain
SLOT1_Colour = slot1
vm1_Colour = vm1
SLOT2_Colour = slot2
vm2_Colour = vm2
SLOT3_Colour = slot3
gpu3_Colour = gpu3
SLOT_TYPE_4_Colour = type4
vm_TYPE_4_Colour = vmtype4
"""


def config_of(tmp_path: Path, text: str) -> Config:
    (tmp_path / "knobs").write_text(text)
    return load(str(tmp_path / "knobs"), subsystem="STARTD", env={})


@pytest.mark.parametrize(
    ("knobs", "colours"),
    [
        ("", ["slot1", "slot2", "slot3", "type4"]),
        ("STARTD_RESOURCE_PREFIX = vm", ["vm1", "vm2", "plain", "type4"]),
        ("STARTD_RESOURCE_PREFIX = VM", ["vm1", "vm2", "plain", "type4"]),
        ("SLOT_TYPE_1_NAME_PREFIX = vm\nSLOT_TYPE_3_NAME_PREFIX = gpu", ["vm1", "slot2", "gpu3", "type4"]),
        ("STARTD_RESOURCE_PREFIX = gpu\nSLOT_TYPE_2_NAME_PREFIX = vm", ["plain", "vm2", "gpu3", "type4"]),
    ],
)
def test_the_knobs_of_a_slot_have_its_name(tmp_path: Path, knobs: str, colours: list[str]) -> None:
    config = config_of(tmp_path, _COLOURS + knobs + "\n")
    assert [SlotConfig(config, number, number).get("Colour") for number in (1, 2, 3, 4)] == colours


def test_a_slot_without_a_type_has_the_general_prefix(tmp_path: Path) -> None:
    config = config_of(
        tmp_path, "STARTD_RESOURCE_PREFIX = vm\nSLOT_TYPE_1_NAME_PREFIX = big\nVM1_START = 1\nBIG1_START = 2\n"
    )
    assert (SlotConfig(config, 1).get("START"), SlotConfig(config, 1, 1).get("START")) == ("1", "2")
    assert prefixes(config) == {"vm", "big"}


def test_what_no_slot_is_called_is_told(tmp_path: Path) -> None:
    config = config_of(
        tmp_path, "STARTD_RESOURCE_PREFIX = vm\nSLOT1_START = true\nVM2_START = Cpus >\nVM3_START = false\n"
    )
    found = {problem.name.upper(): (problem.code, problem.hint) for problem in check(config)}
    assert found["SLOT1_START"] == ("config-slot-name", "write VM1_START")
    assert found["VM2_START"][0] != "config-unknown-name"
    assert "VM3_START" not in found
    usual = config_of(tmp_path, "SLOT1_START = true\nSLOT_TYPE_2_NAME_PREFIX = vm\nVM2_START = true\n")
    assert not [problem for problem in check(usual, notes=True) if problem.name.upper().endswith("_START")]
