"""The generated reference pages are those of the present tables, and the tables are sound."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import slotwise
from slotwise.classad.places import page as expressions_page
from slotwise.cli.document import commands_page
from slotwise.config import find_knob, knobs, similar_knobs, templates
from slotwise.config.document import configuration_page
from slotwise.model import hold_explanations
from slotwise.model.hold_explanations import page as hold_codes_page
from slotwise.model.reason_codes import HOLD_NAMES, Hold
from slotwise.submit.document import submit_page
from slotwise.wire.callers_document import FURTHER, callers_page, methods
from slotwise.wire.document import protos_page

from tests.support import coming_from_htcondor

DOCS = Path(__file__).parents[2] / "docs" / "reference"

#: What the reader of the configuration puts there itself.
FACTS = {"FULL_HOSTNAME"}


@pytest.mark.parametrize(
    ("name", "page", "module"),
    [
        ("configuration.md", configuration_page, "config"),
        ("submit.md", submit_page, "submit"),
        ("commands.md", commands_page, "cli"),
        ("hold-codes.md", hold_codes_page, "model.hold_explanations"),
        ("expressions.md", expressions_page, "classad"),
        ("callers.md", callers_page, "wire.callers_document"),
        ("protos.md", lambda: protos_page(DOCS.parents[1] / "proto"), "wire"),
    ],
)
def test_pages_are_up_to_date(name: str, page: Callable[[], str], module: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == page(), f"run make generate: {name} is not what slotwise.{module} has"


def test_what_callers_page_says_of_methods_is_of_methods_that_there_are() -> None:
    assert FURTHER.keys() <= set(methods())


def test_the_page_for_those_who_come_from_htcondor_is_that_of_the_tables() -> None:
    remedy = "run make generate"
    assert coming_from_htcondor.PAGE.read_text(encoding="utf-8") == coming_from_htcondor.page(), remedy


def test_every_hold_code_has_a_cause_and_those_given_here_an_action() -> None:
    explained = hold_explanations.EXPLANATIONS
    assert set(explained) == set(HOLD_NAMES)
    assert {int(code) for code in Hold} <= {code for code, one in explained.items() if one.given}
    assert all(one.cause and one.action for one in explained.values())
    assert hold_explanations.action(34) == explained[34].action and hold_explanations.action(999) == ""


def test_the_table_describes_each_knob_once() -> None:
    table = Path(__file__).parents[2] / "rust" / "config" / "data" / "slotwise.tsv"
    rows = [line.split("\t") for line in table.read_text().splitlines() if line and not line.startswith("#")]
    names = [row[0].lower() for row in rows]
    assert [name for name in names if names.count(name) > 1] == []
    assert [name for name in names if "*" in name] == [], "write <...> for what is chosen"


def test_every_used_knob_says_what_it_does() -> None:
    used = [knob for knob in knobs() if knob.used]
    assert len(used) > 200
    for knob in used:
        assert knob.description.endswith("."), knob.name
        assert knob.daemons, knob.name
        assert knob.applies, knob.name


def test_names_are_found_whatever_their_case_and_prefix() -> None:
    for name in ("START", "start", "STARTD.START", "Slot_Type_3_Partitionable", "JOB_TRANSFORM_Fix"):
        assert find_knob(name) is not None
    assert find_knob("NO_SUCH_KNOB_AT_ALL") is None
    assert similar_knobs("NEGOTIATOR_INTERVL")[0] == "NEGOTIATOR_INTERVAL"


def test_templates_cover_the_categories() -> None:
    assert {row[0] for row in templates()} == {"ROLE", "FEATURE", "POLICY", "SECURITY"}
    assert len(templates()) == 73


def test_every_knob_that_a_daemon_reads_is_in_the_table() -> None:
    getter = re.compile(r'\b(?:config|own)\.(?:get\w*|find_\w+|typed|raw|is_set)\(\s*"([A-Z][A-Z0-9_]{2,})"')
    sources = Path(slotwise.__file__).parent.rglob("*.py")
    read = {name: path.name for path in sources for name in getter.findall(path.read_text(encoding="utf-8"))}
    missing = {name: file for name, file in read.items() if (knob := find_knob(name)) is None or not knob.used}
    assert missing.keys() <= FACTS, "describe these in rust/config/data/slotwise.tsv"
