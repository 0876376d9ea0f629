"""The rows of runs: what is written is read again, and so are rows that a former version wrote."""

from __future__ import annotations

import pytest
from slotwise.schedd.storage.run_rows import StoredLocalRun, StoredRun, stored_run


@pytest.mark.parametrize(
    "run",
    [
        StoredRun(12, 0, "12.0#1", "token", "<h:1>#1#1#s", 1795449276.125, 1795449277.5, disconnect_logged=True),
        StoredRun(12, 0, "12.0#1", "token", "<h:1>#1#1#s", 1795449276.125),
        StoredLocalRun(13, 7, "13.7#2", 1795449276.125, 1795449277.5, "/run/user/0/a directory with blanks"),
        StoredLocalRun(13, 7, "13.7#2", 1795449276.125),
    ],
)
def test_a_row_is_read_as_it_was_written(run: StoredRun | StoredLocalRun) -> None:
    assert stored_run(run.columns()) == run


@pytest.mark.parametrize(
    ("facts", "born_at", "executing_at", "logged"),
    [
        ("1795449276.125 1795449277.500 1", 1795449276.125, 1795449277.5, True),
        ("1795449276.125 1795449277.500 0", 1795449276.125, 1795449277.5, False),
        ("1795449276.125 0.000", 1795449276.125, 0.0, False),
        ("1795449276.125", 1795449276.125, 0.0, False),
    ],
)
def test_a_run_on_a_slot_of_a_former_version(facts: str, born_at: float, executing_at: float, logged: bool) -> None:
    read = stored_run((12, 0, "12.0#1", "token", "claim", facts))
    assert read == StoredRun(12, 0, "12.0#1", "token", "claim", born_at, executing_at, logged)


@pytest.mark.parametrize(
    ("facts", "run"),
    [
        ("", StoredLocalRun(13, 7, "13.7#2", 0.0)),
        ("5.000 6.000 ", StoredLocalRun(13, 7, "13.7#2", 5.0, 6.0)),
        ("5.000 6.000 /run/keepers", StoredLocalRun(13, 7, "13.7#2", 5.0, 6.0, "/run/keepers")),
    ],
)
def test_a_run_on_the_access_point_of_a_former_version(facts: str, run: StoredLocalRun) -> None:
    assert stored_run((13, 7, "13.7#2", "", "", facts)) == run
