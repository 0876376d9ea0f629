"""TransferInputFileCounts: the inputs of a job by the means that bring them."""

from __future__ import annotations

import pytest
from slotwise.classad import ClassAd
from slotwise.schedd.transfer.files import input_counts


@pytest.mark.parametrize(
    ("ad", "expected"),
    [
        ({"TransferInput": "/in.text,http://h/a,http://h/b,tok+https://h/c,null://x,debug://y,NULL://z"},
         {"CEDAR": 1, "HTTP": 2, "HTTPS": 1, "NULL": 2, "DEBUG": 1}),
        ({"TransferExecutable": True, "TransferInput": "in1"}, {"CEDAR": 2}),
        ({"TransferExecutable": True, "In": "in", "TransferInput": "exe,in"}, {"CEDAR": 2}),
        ({"TransferPlugins": "x,y=/plug", "TransferInput": "x://1"}, {"CEDAR": 1, "X": 1}),
        ({"TransferExecutable": True, "ShouldTransferFiles": "NO"}, {}),
        ({"CommonInputFiles": "/big,http://h/a", "TransferInput": "in1"}, {"CEDAR": 2, "HTTP": 1}),
        ({"CommonInputCatalogs": "c, d", "_x_catalog_c": "a,b", "_x_catalog_d": "b,c"}, {"CEDAR": 3}),
        ({}, {}),
    ],
)  # fmt: skip
def test_inputs_are_counted_by_their_means(ad: dict[str, object], expected: dict[str, int]) -> None:
    """The first as HTCondor's test_input_file_check has it, the second as HTCondor 25.14.1 answered."""
    whole = {"Cmd": "exe", "Iwd": "/", "ShouldTransferFiles": "YES", "TransferExecutable": False, **ad}
    assert input_counts(ClassAd(whole)) == expected
