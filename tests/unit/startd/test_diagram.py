"""The page about states is the one that the table makes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from slotwise.startd.slot import diagram
from slotwise.startd.slot.states import TRANSITIONS

DOCS = Path(__file__).parents[3] / "docs" / "reference"


def test_the_documentation_is_up_to_date() -> None:
    remedy = "run python -m slotwise.startd.slot.diagram docs/reference"
    assert (DOCS / "states.md").read_text() == diagram.markdown(), remedy
    assert (DOCS / "states.svg").read_text() == diagram.svg(), remedy


def test_the_picture_names_every_numbered_row() -> None:
    texts = " ".join(element.text or "" for element in ElementTree.fromstring(diagram.svg()).iter())
    words = set(texts.replace(",", " ").split())
    assert {str(row.number) for row in TRANSITIONS.rows if row.number} <= words
