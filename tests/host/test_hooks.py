"""Hooks of the starter and the job wrapper, with real programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.support.starter_bench import StarterBench, starter_bench

pytestmark = pytest.mark.host
EXITED, HELD = schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.HELD
EVICTED, NOT_STARTED = schedd_pb2.RunEnded.EVICTED, schedd_pb2.RunEnded.NOT_STARTED


def program(bench: StarterBench, name: str, script: str) -> str:
    """A program that every account may run."""
    path = bench.root / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


async def configured(bench: StarterBench, **knobs: Any) -> None:
    """The starter with other knobs."""
    bench.configure(**knobs)
    await bench.kill_9()
    await bench.start()


async def test_a_hook_prepares_the_job_and_another_hears_of_its_end() -> None:
    async with starter_bench() as bench:
        last = 'cat > ad; echo "HookSaw = \\"$1\\""; grep -q ^RemoteUserCpu ad && echo "Full = true"'
        leave = program(bench, "leave", last)
        prepare_script = 'grep -c Owner > seen; echo "Arguments = \\"-c \'cat seen; exit 3\'\\""'
        prepare = program(bench, "prepare", prepare_script)
        await configured(
            bench,
            STARTER_DEFAULT_JOB_HOOK_KEYWORD="SITE",
            SITE_HOOK_PREPARE_JOB=prepare,
            SITE_HOOK_JOB_EXIT=leave,
        )
        run = bench.submit("/bin/sh", "-c", "exit 9")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 3), ended
        assert bench.output(run) == "1\n"
        assert bench.shadow.runs[run].end_ad.eval("HookSaw") == "exit"
        assert bench.shadow.runs[run].end_ad.eval("Full") is True


@pytest.mark.parametrize(
    ("script", "how", "code", "subcode"),
    [
        ("exit 7", HELD, 19, 7),
        ("echo 'HookStatusCode = 250'; echo 'HookStatusMessage = \"no licence\"'", HELD, 19, 250),
        ("echo 'HookStatusCode = 300'", EVICTED, 1007, 300),
        ("kill -9 $$", EVICTED, 1007, -9),
    ],
)
async def test_a_hook_that_fails_holds_the_job_or_sends_it_back(script: str, how: int, code: int, subcode: int) -> None:
    async with starter_bench() as bench:
        knobs = {"STARTER_JOB_HOOK_KEYWORD": "site", "SITE_HOOK_PREPARE_JOB": program(bench, "prepare", script)}
        await configured(bench, **knobs)
        run = bench.submit("/bin/true")
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (how, code, subcode)
        assert "HOOK_PREPARE_JOB (prepare) failed" in ended.reason
        assert ("no licence" in ended.reason) == ("licence" in script)
        await bench.clean()


async def test_the_jobs_keyword_counts_where_it_has_hooks() -> None:
    async with starter_bench() as bench:
        await configured(bench, OTHER_HOOK_PREPARE_JOB=program(bench, "prepare", "exit 1"))
        plain, wants, strange = (
            bench.submit("/bin/true", **ad) for ad in ({}, {"HookKeyword": "other"}, {"HookKeyword": "x"})
        )
        assert [(await bench.ended(run)).how for run in (plain, wants, strange)] == [EXITED, HELD, EXITED]


async def test_a_wrapper_runs_the_job_and_may_say_why_it_cannot() -> None:
    async with starter_bench() as bench:
        await configured(bench, USER_JOB_WRAPPER=program(bench, "wrap", 'echo wrapped; exec "$@"'))
        run = bench.submit("/bin/echo", "a b")
        assert (await bench.ended(run)).how == EXITED
        assert bench.output(run) == "wrapped\na b\n"
        failing = program(bench, "fails", 'echo no such thing > "$_CONDOR_WRAPPER_ERROR_FILE"; exit 1')
        await configured(bench, USER_JOB_WRAPPER=failing)
        run = bench.submit("/bin/true")
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code) == (EVICTED, 1007)
        assert ended.reason == "The job wrapper failed to execute the job: no such thing"
        await configured(bench, USER_JOB_WRAPPER=str(Path("/nowhere/wrapper")))
        ended = await bench.ended(bench.submit("/bin/true"))
        assert ended.how == NOT_STARTED and "/nowhere/wrapper cannot be run" in ended.reason


async def test_a_hook_that_never_stops_talking_is_heard_only_so_long() -> None:
    async with starter_bench() as bench:
        assert bench.process is not None
        script = "echo 'HookStatusCode = 250'; head -c 300000000 /dev/zero"
        await configured(bench, STARTER_JOB_HOOK_KEYWORD="site", SITE_HOOK_PREPARE_JOB=program(bench, "talk", script))
        ended = await bench.ended(bench.submit("/bin/true"))
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 19, 250)
        status = Path(f"/proc/{bench.process.pid}/status").read_text()
        peak_kib = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        assert peak_kib < 200_000
