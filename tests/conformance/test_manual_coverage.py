"""What the page docs/reference/manual-coverage.md says of the manual's knobs is so."""

from __future__ import annotations

import re

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
