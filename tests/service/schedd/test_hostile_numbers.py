"""Numbers that no column holds, written into a job by qedit, keep no job in the queue."""

from __future__ import annotations

import pytest

from tests.service.schedd.test_commands import run
from tests.support.access_point import RunningAccessPoint


@pytest.mark.parametrize(
    "edits",
    [
        ("CumulativeRemoteUserCpu=1e999", "CumulativeRemoteSysCpu=-1e999"),
        ("CompletionDate=1e999",),
        ("CompletionDate=1e30",),
        ("NumJobCoolDowns=1e999", "CommittedTime=1e999", "JobPrio=1e999"),
    ],
)
async def test_jobs_leave_whatever_numbers_they_have(schedd: RunningAccessPoint, edits: tuple[str, ...]) -> None:
    cluster = await schedd.submit(2)
    await run(schedd, "qedit", f"{cluster}.0", *edits)
    await schedd.act("REMOVE", f"ClusterId == {cluster}")
    await schedd.until_gone()
    assert sorted(ad["ProcId"] for ad in await schedd.history()) == [0, 1]
