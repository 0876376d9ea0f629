"""The page about claims and runs is the one that the tables make."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from slotwise.model.transition_page import Drawing
from slotwise.model.transition_table import name
from slotwise.schedd.lifecycle import diagram

DOCS = Path(__file__).parents[3] / "docs" / "reference"


def test_the_documentation_is_up_to_date() -> None:
    remedy = "run python -m slotwise.schedd.lifecycle.diagram docs/reference"
    assert (DOCS / "claims.md").read_text() == diagram.markdown(), remedy
    assert (DOCS / "claims.svg").read_text() == diagram.CLAIMS.svg(), remedy
    assert (DOCS / "runs.svg").read_text() == diagram.RUNS.svg(), remedy


@pytest.mark.parametrize("drawing", [diagram.CLAIMS, diagram.RUNS])
def test_the_picture_names_every_state_and_every_numbered_row(drawing: Drawing[Any, Any, Any, Any]) -> None:
    texts = " ".join(element.text or "" for element in ElementTree.fromstring(drawing.svg()).iter())
    words = set(texts.replace(",", " ").split())
    assert {name(state) for state in drawing.table.states} <= words
    assert {str(number) for row in drawing.table.rows if (number := row.number)} <= words
