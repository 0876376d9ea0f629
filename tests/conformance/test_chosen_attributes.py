"""What ``-af`` and ``-format`` print of every kind of value, as HTCondor's tools print it (25.14.1).

``chosen-attributes.json``: an ad in long form, and options with the text that ``condor_q -jobads`` printed for them.
Left out is what depends on the width of C's integers (``%d`` of 1e20), and ``%d`` of a relative time.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch

SAMPLE = json.loads(Path(__file__).with_name("chosen-attributes.json").read_text())
SOURCES = {"q": "-jobads", "status": "-ads", "history": "-file", "userprio": "-inputfile"}


def printed(command: str, ads: Path, words: list[str]) -> str:
    out, err = io.StringIO(), io.StringIO()
    inv = Invocation(ads.parent, {"SLOTWISE_HOME": str(ads.parent)}, io.StringIO(), out, err)
    assert dispatch([command, SOURCES[command], ads.name, *words], inv) == 0, err.getvalue()
    return out.getvalue()


@pytest.fixture
def ads(tmp_path: Path) -> Path:
    file = tmp_path / "ads"
    file.write_text("\n".join([*SAMPLE["ad"], ""]))
    return file


def test_values_as_condor_q_prints_them(ads: Path) -> None:
    different = [(words, text, found) for words, text in SAMPLE["cases"] if (found := printed("q", ads, words)) != text]
    assert not different


@pytest.mark.parametrize("command", SOURCES)
def test_every_listing_prints_short_reals(command: str, ads: Path) -> None:
    ads.write_text('MyType = "Accounting"\nName = "ann@here"\nLastUsageTime = 0\nPriority = 1.5\nShares = {0.1,2.0}\n')
    words = ["-allusers"] if command == "userprio" else []
    assert printed(command, ads, [*words, "-af", "Priority", "Shares", "Priority * 1.1"]) == "1.5 { 0.1,2.0 } 1.65\n"
