"""``skip_if_dataflow``: which jobs need not run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.schedd.transfer.dataflow import dataflow_files, is_up_to_date
from slotwise.schedd.user_files.owner_rights import SCHEDD


@pytest.mark.parametrize(
    ("changes", "times", "expected"),
    [
        ({}, {}, True),
        ({}, {"in": 8}, False),
        ({}, {"exe": 8}, False),
        ({}, {"out2": 2}, False),
        ({}, {"in": 5, "out": 5, "out2": 5}, False),
        ({}, {"out2": 0}, False),
        ({}, {"exe": 0}, False),
        ({}, {"in": 0}, True),
        ({"In": "stdin"}, {}, False),
        ({"In": "stdin"}, {"stdin": 3}, True),
        ({"In": "stdin"}, {"stdin": 8}, False),
        ({"In": "/dev/null"}, {}, True),
        ({"TransferInput": "in, sub/in"}, {"sub/in": 8}, False),
        ({"TransferInput": "http://far/in"}, {"in": 8}, True),
        ({"TransferOutput": ""}, {}, False),
    ],
)
def test_results_that_are_newer_than_all_they_are_made_of_are_kept(
    tmp_path: Path, changes: dict[str, str], times: dict[str, int], expected: bool
) -> None:
    """Times: when each file was changed; 0: it is not there."""
    (tmp_path / "sub").mkdir()
    for name, changed in {"exe": 1, "in": 2, "out": 6, "out2": 5, **times}.items():
        if changed:
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (changed, changed))
    ad = {"Iwd": str(tmp_path), "Cmd": "exe", "TransferInput": "in", "TransferOutput": "out,out2", **changes}
    assert is_up_to_date(dataflow_files(ClassAd(ad), SCHEDD, "nobody")) is expected
