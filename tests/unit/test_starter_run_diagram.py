"""The page about a run's life cycle is the one that the table makes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from slotwise.starter.run import diagram
from slotwise.starter.run.lifecycle import TRANSITIONS
from slotwise.starter.run.states import Phase

DOCS = Path(__file__).parents[2] / "docs" / "reference"


def test_the_documentation_is_up_to_date() -> None:
    remedy = "run python -m slotwise.starter.run.diagram docs/reference"
    assert (DOCS / "starter-run.md").read_text() == diagram.markdown(), remedy
    assert (DOCS / "starter-run.svg").read_text() == diagram.RUN.svg(), remedy


def test_the_picture_names_every_phase_and_every_numbered_row() -> None:
    texts = " ".join(element.text or "" for element in ElementTree.fromstring(diagram.RUN.svg()).iter())
    words = set(texts.replace(",", " ").split())
    assert {str(phase) for phase in Phase} <= words
    assert {str(number) for row in TRANSITIONS.rows if (number := row.number)} <= words
