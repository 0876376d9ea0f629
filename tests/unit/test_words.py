"""Words that stand for truth values."""

from __future__ import annotations

import pytest
from slotwise.model.words import truth


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *((word, True) for word in ("true", "TRUE", "t", "yes", "Y", "1", " true\n")),
        *((word, False) for word in ("false", "False", "F", "no", "n", "0", "\t0 ")),
        *((word, None) for word in ("", "auto", "2", "truee", "-1", "on", "t rue")),
    ],
)
def test_what_a_word_says(text: str, found: bool | None) -> None:
    assert truth(text) is found
