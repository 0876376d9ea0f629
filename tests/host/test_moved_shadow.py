"""Runs whose schedd comes back at another address: the starter looks for their shadows there."""

from __future__ import annotations

import json

import pytest
from slotwise.wire.gen import schedd_pb2, starter_pb2

from tests.support.starter_bench import StarterBench, starter_bench
from tests.support.starter_neighbours import PretendedShadow

pytestmark = pytest.mark.host


async def killed_and_back_elsewhere(bench: StarterBench) -> PretendedShadow:
    """The schedd has been killed, and answers at another address; it knows its runs."""
    former = bench.shadow
    await former.stop()
    back = PretendedShadow(bench.root / "run" / "elsewhere.sock")
    back.runs, back.changed = former.runs, former.changed
    await back.start()
    bench.shadow = back
    return back


def move(bench: StarterBench, *runs: str) -> None:
    """The startd says where the schedd is now."""
    assert bench.startd is not None
    bench.startd.command(shadow_moved=starter_pb2.ShadowMoved(address=bench.shadow.address, run_ids=runs))


async def test_jobs_follow_their_schedd_and_a_restarted_starter_knows_where_it_is(root: None) -> None:
    async with starter_bench() as bench:
        command = "while [ ! -e stop ]; do sleep 0.05; done; cat input; exit 7"
        runs = [bench.submit("/bin/sh", "-c", command, inputs={"input": b"some\n"}) for _ in range(2)]
        for run in runs:
            await bench.running(run)
        back = await killed_and_back_elsewhere(bench)
        move(bench, *runs, "9.0#1")
        await bench.eventually(lambda: all(bench.shadow.runs[run].accepted >= 2 for run in runs), "the runs are back")
        assert back.listed == runs, "all are in the first list, or those that are missing would be lost"

        await bench.kill_9()
        records = [json.loads(path.read_text()) for path in bench.execute.glob("dir_*/htcondor/run.json")]
        assert [record["shadow_address"] for record in records] == [back.address] * 2
        await bench.start()
        await bench.eventually(lambda: all(bench.shadow.runs[run].accepted >= 3 for run in runs), "the runs are back")
        startd = bench.startd
        assert startd is not None
        startd.command(list={})
        listed = (await bench.eventually(lambda: startd.of("", "jobs"), "the starter lists its runs"))[0].jobs
        assert [job.shadow_address for job in listed] == [back.address] * 2
        for path in bench.execute.glob("dir_*/scratch"):
            (path / "stop").touch()
        for run in runs:
            ended = await bench.ended(run)
            assert (ended.how, ended.code) == (schedd_pb2.RunEnded.EXITED, 7)
            assert bench.output(run) == "some\n"
        await bench.clean()


async def test_the_end_of_a_job_reaches_its_schedd_elsewhere(root: None) -> None:
    async with starter_bench() as bench:
        run = bench.submit("/bin/sh", "-c", "while [ ! -e stop ]; do sleep 0.05; done; echo done")
        await bench.running(run)
        back = await killed_and_back_elsewhere(bench)
        (scratch,) = bench.execute.glob("dir_*/scratch")
        (scratch / "stop").touch()
        await bench.gone(run)  # the slot is free: what the job leaves waits for its schedd
        assert not bench.shadow.runs[run].ended
        move(bench, run)
        await bench.ended(run)
        assert bench.output(run) == "done\n" and back.runs[run].ends == 1
        await bench.clean()
        move(bench, run)  # once more, and the run is no longer known
        await bench.facts()  # it is at work still


async def test_a_schedd_that_still_answers_at_the_former_address_hears_no_more_of_the_run(root: None) -> None:
    async with starter_bench() as bench:
        run = bench.submit("/bin/sh", "-c", "while [ ! -e stop ]; do sleep 0.05; done; echo done")
        await bench.running(run)
        former = bench.shadow
        back = PretendedShadow(bench.root / "run" / "elsewhere.sock")
        back.runs[run], back.changed = type(former.runs[run])(former.runs[run].ad, {}), former.changed
        await back.start()
        try:
            bench.shadow = back
            move(bench, run)
            await bench.eventually(lambda: back.runs[run].accepted >= 1, "the run is at the new address")
            (scratch,) = bench.execute.glob("dir_*/scratch")
            (scratch / "stop").touch()
            await bench.ended(run)
            assert bench.output(run) == "done\n"
            assert former.runs[run].ended is None
            await bench.clean()
        finally:
            await former.stop()
