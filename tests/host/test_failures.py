"""An exception while the starter processes a message ends the run that it is about: no process, file or slot stays."""

from __future__ import annotations

import os
from typing import Any

import pytest
from slotwise.wire.gen import starter_pb2

from tests.support.starter_bench import StarterBench, processes_below, starter_bench

#: Calls at which a fault is raised; SLOTWISE_FAULT_STEP=1 tries more of them.
_AT = tuple(range(80)) if os.environ.get("SLOTWISE_FAULT_STEP") == "1" else (0, 1, 2, 5, 12, 30, 60)
_KINDS = (
    "startd start",
    "startd kill",
    "startd suspend",
    "startd forget",
    "startd list",
    "shadow Accepted",
    "shadow Input",
    "shadow InputsComplete",
    "shadow KillRun",
    "shadow Ack",
    "shadow Refused",
    "keeper started",
    "keeper ended",
    "action ReportGone",
    "action SendEnd",
    "action SendStarted",
    "action StopSoft",
    "action Launch",
    "action Discard",
)


async def provoke(bench: StarterBench, kind: str) -> str:
    """A job, and what lets the message come."""
    assert bench.startd is not None
    lasts = kind in (
        "startd kill",
        "startd suspend",
        "startd forget",
        "startd list",
        "shadow KillRun",
        "action StopSoft",
    )
    run_id = bench.submit("/bin/sleep", "60" if lasts else "0.02", inputs={"in": b"x" * 1000})
    if kind == "shadow Refused":
        del bench.shadow.runs[run_id]
    if lasts:
        await bench.running(run_id)
    if kind in ("startd kill", "action StopSoft"):
        bench.startd.command(run_id, kill=starter_pb2.KillJob(reason="leave", reason_code=1010))
    elif kind == "startd suspend":
        bench.startd.command(run_id, suspend=starter_pb2.SuspendJob())
    elif kind == "startd forget":
        bench.startd.command(run_id, forget=starter_pb2.ForgetJob())
    elif kind == "startd list":
        bench.startd.command(list=starter_pb2.ListJobs())
    elif kind == "shadow KillRun":
        await bench.shadow.kill(run_id, reason="leave", code=1009)
    return run_id


@pytest.mark.parametrize("kind", _KINDS)
async def test_an_exception_at_any_point_leaves_nothing_behind(kind: str) -> None:
    async with starter_bench(program=["-m", "tests.support.failing_starter"]) as bench:
        raised = bench.root / "raised"
        some = False
        assert bench.startd is not None
        for at in _AT[kind.startswith("startd") :]:
            raised.unlink(missing_ok=True)
            (bench.root / "fault").write_text(f"{kind} {at}")
            run_id = await provoke(bench, kind)
            await bench.eventually(raised.exists, f"{kind} at {at} comes")
            if kind == "startd list":  # a fault ends the stream
                await bench.rejoin()
            if kind in ("startd suspend", "startd list"):
                bench.startd.command(run_id, kill=starter_pb2.KillJob(fast=True))
            await bench.eventually(lambda run_id=run_id: free(bench, kind, run_id), f"the slot is free: {kind} {at}")
            await bench.clean()
            assert not processes_below(bench.execute)
            if not raised.read_text():
                break
            some = True
        assert some, "no fault was raised"
        (bench.root / "fault").unlink(missing_ok=True)
        last = bench.submit("/bin/true")
        assert (await bench.ended(last)).how == 0
        await bench.gone(last)


def free(bench: StarterBench, kind: str, run_id: str) -> Any:
    """Whether the startd has heard that the run holds no slot."""
    assert bench.startd is not None
    if kind == "startd forget":
        return True  # it has said itself that it knows nothing of the run
    return bench.startd.of(run_id, "gone") or bench.startd.of(run_id, "refused")
