"""Hooks and plugins that take their time: they end with their run, with what they have started, also after kill -9."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.host.test_hooks import configured, program
from tests.support.starter_bench import StarterBench, processes_below, starter_bench

pytestmark = pytest.mark.host
EVICTED, EXITED = schedd_pb2.RunEnded.EVICTED, schedd_pb2.RunEnded.EXITED
#: Starts another in a session of its own and waits for ever.
SLOW = "(setsid sleep 600 > /dev/null 2>&1 &); touch here; sleep 600"
PROBED = f"""if [ "$1" = -classad ]; then
  echo 'SupportedMethods = "slow"'
  exit 0
fi
{SLOW}"""


async def with_slow(bench: StarterBench, what: str) -> dict[str, Any]:
    """A starter with a slow program of that kind; returns what a job's ad needs so that it is run."""
    if what == "plugin":
        await configured(bench, FILETRANSFER_PLUGINS=program(bench, "plugin", PROBED))
        return {"TransferInput": "slow://book"}
    hook = {"before": "PREPARE_JOB_BEFORE_TRANSFER", "prepare": "PREPARE_JOB", "exit": "JOB_EXIT"}[what]
    knobs = {f"SITE_HOOK_{hook}": program(bench, "hook", SLOW), "SITE_HOOK_JOB_EXIT_TIMEOUT": 600}
    await configured(bench, STARTER_DEFAULT_JOB_HOOK_KEYWORD="SITE", **knobs)
    return {}


async def begun(bench: StarterBench) -> None:
    """Wait until the program and what it has started are there."""
    await bench.eventually(lambda: list(bench.execute.glob("dir_*/scratch/here")), "the program runs")
    await bench.eventually(lambda: len(processes_below(bench.execute)) >= 2, "both are there")


@pytest.mark.parametrize("what", ["plugin", "before", "prepare"])
@pytest.mark.parametrize("fast", [True, False], ids=["fast", "graceful"])
async def test_a_job_told_to_go_does_not_wait_for_them(what: str, fast: bool) -> None:
    async with starter_bench() as bench:
        ad = await with_slow(bench, what)
        run = bench.submit("/bin/sh", "-c", "exit 0", **ad)
        await begun(bench)
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": fast, "reason": "owner is back", "reason_code": 1011, "vacate_s": 300})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason) == (EVICTED, 1011, "owner is back"), ended
        assert not (await bench.gone(run)).broken
        await bench.clean()
        await bench.eventually(lambda: not processes_below(bench.execute), "nothing of it lives")


async def test_a_job_killed_fast_does_not_wait_for_its_exit_hook() -> None:
    async with starter_bench() as bench:
        await with_slow(bench, "exit")
        run = bench.submit("/bin/sh", "-c", "exit 0")
        await begun(bench)
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True, "reason_code": 1011})
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0), ended  # it had ended before it was told to
        await bench.clean()
        await bench.eventually(lambda: not processes_below(bench.execute), "nothing of it lives")


@pytest.mark.parametrize("what", ["plugin", "before", "prepare", "exit"])
async def test_they_do_not_outlive_a_killed_starter_for_long(what: str) -> None:
    async with starter_bench() as bench:
        ad = await with_slow(bench, what)
        run = bench.submit("/bin/sh", "-c", "exit 0", **ad)
        await begun(bench)
        orphans = processes_below(bench.execute)
        await bench.kill_9()
        assert all(Path(f"/proc/{pid}").exists() for pid in orphans)
        await bench.start()
        assert not set(orphans) & set(processes_below(bench.execute))
        if what == "exit":  # the job itself had ended: its end is told, after the hook's second chance
            await begun(bench)
            assert bench.startd is not None
            bench.startd.command(run, kill={"fast": True})
            await bench.ended(run)
        await bench.clean()
        await bench.eventually(lambda: not processes_below(bench.execute), "nothing of it lives")


async def test_they_end_with_the_pool() -> None:
    async with starter_bench() as bench:
        ad = await with_slow(bench, "plugin")
        bench.submit("/bin/sh", "-c", "exit 0", **ad)
        await begun(bench)
        assert bench.startd is not None and bench.process is not None
        await bench.startd.close()
        bench.startd = None
        bench.process.terminate()
        await bench.eventually(lambda: bench.process is not None and bench.process.poll() is not None, "it stops")
        assert processes_below(bench.execute) == []
        await bench.clean()
