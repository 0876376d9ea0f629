"""Jobs that write checkpoints and ask to be started again (``checkpoint_exit_code``), under a real starter."""

from __future__ import annotations

from typing import Any

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.support.starter_bench import StarterBench, starter_bench

pytestmark = pytest.mark.host
EXITED = schedd_pb2.RunEnded.EXITED
EVICTED = schedd_pb2.RunEnded.EVICTED
HELD = schedd_pb2.RunEnded.HELD
#: Counts its starts in a file; writes a checkpoint at each but the third.
COUNTS = "n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; echo start $n; [ $n -ge 3 ] || exit 85; echo x > x"
RULES: dict[str, Any] = {"WantFTOnCheckpoint": True, "SuccessCheckpointExitCode": 85, "TransferCheckpoint": "n"}


def counting(bench: StarterBench, script: str = COUNTS, **ad: object) -> str:
    """Start a job that counts."""
    return bench.submit("/bin/sh", "-c", script, **{**RULES, **ad})


async def test_a_job_goes_on_from_each_checkpoint_until_it_ends() -> None:
    async with starter_bench() as bench:
        run = counting(bench)
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0)
        # Each checkpoint came with the listed file and what was written so far, before the job went on.
        kept = bench.shadow.runs[run].checkpoints
        assert [files["n"] for files in kept] == [b"1\n", b"2\n"]
        assert [files["_condor_stdout"] for files in kept] == [b"start 1\n", b"start 1\nstart 2\n"]
        assert bench.output(run) == "start 1\nstart 2\nstart 3\n"
        assert bench.output(run, "x") == "x\n"
        assert "JobDuration" in bench.shadow.runs[run].end_ad
        await bench.gone(run)
        await bench.clean()


async def test_the_job_waits_until_its_checkpoint_is_safe() -> None:
    async with starter_bench() as bench:
        bench.shadow.keeps_checkpoints = False
        run = counting(bench)
        await bench.eventually(lambda: bench.shadow.runs[run].checkpoints, "the checkpoint is there")
        # The starter is killed while it waits; the next one sends the checkpoint again.
        await bench.kill_9()
        await bench.start()
        await bench.eventually(lambda: len(bench.shadow.runs[run].checkpoints) >= 2, "it is there once more")
        assert [files["n"] for files in bench.shadow.runs[run].checkpoints] == [b"1\n", b"1\n"]
        bench.shadow.keeps_checkpoints = True
        await bench.shadow.checkpoint_kept(run)
        assert (await bench.ended(run)).how == EXITED
        await bench.clean()


async def test_a_job_told_to_leave_at_its_checkpoint_leaves() -> None:
    async with starter_bench() as bench:
        bench.shadow.keeps_checkpoints = False
        run = counting(bench)
        await bench.eventually(lambda: bench.shadow.runs[run].checkpoints, "the checkpoint is there")
        assert bench.startd is not None
        bench.startd.command(run, kill={"reason_code": 1010, "vacate_s": 30})
        bench.startd.command(list={})
        await bench.eventually(lambda: bench.startd and bench.startd.of("", "jobs"), "the command is through")
        await bench.shadow.checkpoint_kept(run)
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (EVICTED, 1010)
        await bench.clean()


async def test_a_missing_checkpoint_file_holds_the_job() -> None:
    async with starter_bench() as bench:
        run = counting(bench, TransferCheckpoint="n, nowhere")
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 12, 2)
        await bench.clean()


async def test_a_signal_may_be_the_sign_of_a_checkpoint() -> None:
    async with starter_bench() as bench:
        script = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; [ $n -ge 1 ] || kill -USR1 $$; exit 4"
        rules = {"SuccessCheckpointExitBySignal": True, "SuccessCheckpointExitSignal": 10}
        run = counting(bench, script, **rules)
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 4)
        assert len(bench.shadow.runs[run].checkpoints) == 1
