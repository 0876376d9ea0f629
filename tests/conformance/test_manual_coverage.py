"""What the page docs/reference/manual-coverage.md says of the manual's knobs is so."""

from __future__ import annotations

import re

from tests.conformance.test_manual_effects import BY_NAME, functions_of
from tests.support.manual import coverage

ROWS = {
    cells[1].strip(" `"): cells
    for line in coverage.PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `") and len(cells := re.split(r"(?<!\\)\|", line)) == 6
}
MAKE = "run python -m tests.support.manual.coverage"


def test_every_knob_of_the_manual_has_a_row() -> None:
    assert len(coverage.KNOBS) > 100
    assert ROWS.keys() == coverage.KNOBS.keys(), MAKE


def test_rows_say_what_is_honoured_and_why_the_others_are_not() -> None:
    for name, cells in ROWS.items():
        if coverage.is_honoured(name):
            assert "not honoured" not in cells[3] and cells[3].strip(), f"{name}: {MAKE}"
        else:
            assert (why := coverage.reason(name)), f"{name} has no reason in slotwise/config/unsupported.py"
            assert f"**not honoured**: {why}" in cells[3], f"{name}: {MAKE}"


def test_the_files_of_a_row_are_there_and_what_honours_a_knob_is_found() -> None:
    for name, cells in ROWS.items():
        files = [
            word for cell in cells[3:5] for word in re.findall(r"[\w/]+\.(?:py|rs)|tests/conformance/[\w/.-]+", cell)
        ]
        missing = [file for file in files if not (coverage.ROOT / file).exists()]
        assert missing == [], f"{name}: {MAKE}"
        assert not coverage.is_honoured(name) or coverage.honouring(name), f"no file reads {name}"


#: Examples of other chapters: on users' priorities, the negotiator, submissions and draining.
_OF_OTHER_CHAPTERS = {
    "quotas", "dynamic quotas of a hierarchy, with surplus", "defragmentation", "submit requirements",
    "submit warnings", "job transforms",
}  # fmt: skip


def test_every_example_of_the_manual_has_a_row_and_a_test() -> None:
    assert {it["manual"] for it in coverage.EXAMPLES} == {"23.7", "6.8", "6.2"}
    shown = {it["shown"] for it in coverage.EXAMPLES if not it["shown"].startswith("- ")}
    examples = {name for name in shown if "::" not in name}
    assert examples == BY_NAME.keys() - _OF_OTHER_CHAPTERS
    for test in shown - examples:
        file, function = test.split("::")
        assert function in functions_of(file), test
    page = coverage.PAGE.read_text(encoding="utf-8")
    assert [row for it in coverage.EXAMPLES if (row := coverage.example_row(it)) not in page] == [], MAKE
