"""What `up` says of limits that a host does not enforce."""

from __future__ import annotations

import pytest
from slotwise.classad import ClassAd
from slotwise.cli.host.unenforced import notes


@pytest.mark.parametrize(
    ("ad", "begins"),
    [
        ({"EnforcesMemory": True, "EnforcesCpuShare": False, "EnforcesDisk": False}, None),
        ({}, None),
        ({"EnforcesMemory": False, "EnforcesCpuShare": True, "EnforcesDisk": True}, "memory limits of jobs"),
        ({"EnforcesMemory": False, "EnforcesCpuShare": False, "EnforcesDisk": True}, "memory and CPU limits"),
        ({"EnforcesMemory": False, "EnforcesCpuShare": False, "EnforcesDisk": False}, "memory, CPU and disk limits"),
    ],
)
def test_memory_that_is_not_enforced_is_told(ad: dict[str, bool], begins: str | None) -> None:
    said = notes([ClassAd(ad)])
    assert [text.startswith(str(begins)) for text in said] == ([True] if begins else [])
    assert all("use POLICY : Hold_If_Memory_Exceeded" in text for text in said)
    assert notes([]) == []
