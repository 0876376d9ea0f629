"""Older daemons and tools understand what the present ones send, and the generated classes are those of the protos."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import slotwise.wire.gen
from slotwise.wire.generate import generate

from tests.support.released_protos import RECORDS, ROOT, Wire, breaks, present, version

VERSIONS = sorted(record.stem for record in RECORDS.glob("*.json"))

SMALL = Wire(
    messages={"Note": {"1": "string text", "2": "repeated uint32 ids"}},
    enums={"Kind": {"0": "PLAIN", "1": "LOUD"}},
    services={"Notes": {"Send": "Note returns Empty"}},
    reserved={"Note": [7]},
)


@pytest.mark.parametrize("number", VERSIONS)
def test_nothing_that_a_release_put_on_the_wire_has_another_meaning(number: str) -> None:
    assert breaks(Wire.recorded(number), present()) == [], (
        "see docs/reference/proto-compatibility.md; while a version is not released, "
        "python -m tests.support.released_protos records it again"
    )


def test_the_present_version_is_recorded() -> None:
    assert version() in VERSIONS, "python -m tests.support.released_protos records it"


def test_additions_break_nothing() -> None:
    now = deepcopy(SMALL)
    now.messages["Note"]["3"] = "bool loud"
    now.messages["Other"] = {"1": "string name"}
    now.enums["Kind"]["2"] = "SILENT"
    now.services["Notes"]["Take"] = "Empty returns Note"
    assert breaks(SMALL, now) == []


def test_a_field_that_is_removed_leaves_its_number_reserved() -> None:
    now = deepcopy(SMALL)
    del now.messages["Note"]["2"]
    assert breaks(SMALL, now) == ["message Note: 2 (repeated uint32 ids) is gone: reserve its number"]
    now.reserved["Note"].append(2)
    assert breaks(SMALL, now) == []


@pytest.mark.parametrize("changed", ["bytes text", "repeated string text", "string words", "oneof part: string text"])
def test_a_number_keeps_its_name_and_type(changed: str) -> None:
    now = deepcopy(SMALL)
    now.messages["Note"]["1"] = changed
    assert breaks(SMALL, now) == [f"message Note: 1 was string text, is {changed}: take a new number for it"]


def test_enums_reserved_numbers_and_calls_stay() -> None:
    now = Wire(messages=SMALL.messages, enums={"Kind": {"0": "PLAIN", "1": "QUIET"}}, services={"Notes": {}})
    assert breaks(SMALL, now) == [
        "enum Kind: 1 was LOUD, is QUIET: take a new number for it",
        "Note: 7 was reserved and is not any more",
        "service Notes: Send is gone: keep it while a supported version calls it",
    ]
    now.services["Notes"]["Send"] = "stream Note returns Empty"
    assert "service Notes: Send was Note returns Empty, is stream Note returns Empty" in breaks(SMALL, now)[-1]


def test_the_generated_classes_are_those_of_the_protos(tmp_path: Path) -> None:
    generate(tmp_path, ROOT / "proto")
    gen = Path(slotwise.wire.gen.__file__).parent
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    there = {name: (gen / name).read_text() for name in made if (gen / name).exists()}
    assert made == there, "make generate"
