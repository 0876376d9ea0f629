"""Jobs from submission to history, over real gRPC, with a pretended execution point."""

from __future__ import annotations

from pathlib import Path

import htcondor2

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script


async def test_a_job_runs_and_goes_to_history(
    schedd: RunningAccessPoint, point: ExecutionPoint, tmp_path: Path
) -> None:
    point.script = lambda ad: Script(exit_code=3, outputs={"_condor_stdout": b"hello\n", "made.txt": b"x"})
    cluster = await schedd.submit(Out="out.txt", UserLog="job.log")
    assert await schedd.negotiate(point.address) == 1
    await schedd.until_gone()
    (ad,) = await schedd.history()
    assert (ad["ClusterId"], ad["ProcId"], ad["JobStatus"], ad["ExitCode"]) == (cluster, 0, 4, 3)
    assert ad["Owner"] == schedd.owner
    assert ad["NumJobStarts"] == 1
    root = schedd.home.root
    assert (root / "out.txt").read_bytes() == b"hello\n"
    assert (root / "made.txt").read_bytes() == b"x"


async def test_claims_serve_one_job_after_another(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    await schedd.submit(20)
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    assert len(point.history) == 20
    assert not point.overlaps
    assert len(point.releases) == point.slots


async def test_the_log_tells_of_files_that_moved(schedd: RunningAccessPoint, point: ExecutionPoint) -> None:
    point.script = lambda ad: Script(outputs={"made": b"x"})
    (schedd.home.root / "in").write_text("x")
    await schedd.submit(TransferInput="in", UserLog="job.log")
    await schedd.negotiate(point.address)
    await schedd.until_gone()
    await schedd.point.ledger._idle.wait()
    log = htcondor2.JobEventLog(str(schedd.home.root / "job.log"))
    assert [int(event.type) for event in log.events(stop_after=0)] == [0, 40, 40, 1, 40, 40, 5]
