"""Outputs wait for their turn at the access point (MAX_CONCURRENT_DOWNLOADS)."""

from __future__ import annotations

import pytest
from slotwise.model.reason_codes import Vacate
from slotwise.wire.gen import schedd_pb2

from tests.support.starter_bench import starter_bench

pytestmark = pytest.mark.host
LARGE = "head -c 3000000 /dev/zero > large"


async def test_large_outputs_wait_for_their_turn_and_small_ones_do_not() -> None:
    async with starter_bench() as bench:
        bench.shadow.offers_turns = True
        small = bench.submit("/bin/sh", "-c", "echo hi > small")
        await bench.ended(small)
        assert bench.output(small, "small") == "hi\n" and not bench.shadow.waiting_outputs
        large = bench.submit("/bin/sh", "-c", LARGE)
        await bench.eventually(lambda: bench.shadow.waiting_outputs.get(large), "it asks for a turn")
        assert bench.shadow.waiting_outputs[large] >= 3_000_000
        assert bench.shadow.runs[large].ended is None and "large" not in bench.shadow.runs[large].outputs
        await bench.shadow.give_turn(large)
        await bench.ended(large)
        assert len(bench.shadow.runs[large].outputs["large"]) == 3_000_000


async def test_a_run_that_waits_for_its_turn_asks_again_after_a_restart_of_its_starter() -> None:
    async with starter_bench() as bench:
        bench.shadow.offers_turns = True
        run = bench.submit("/bin/sh", "-c", LARGE)
        await bench.eventually(lambda: bench.shadow.waiting_outputs.get(run), "it asks for a turn")
        bench.shadow.waiting_outputs.clear()
        await bench.kill_9()
        await bench.start()
        await bench.eventually(lambda: bench.shadow.waiting_outputs.get(run), "it asks again")
        await bench.shadow.give_turn(run)
        await bench.ended(run)
        assert len(bench.shadow.runs[run].outputs["large"]) == 3_000_000


async def test_a_killed_run_sends_its_outputs_when_they_are_wanted() -> None:
    async with starter_bench() as bench:
        run = bench.submit("/bin/sh", "-c", "echo so far > part; sleep 100")
        await bench.running(run)
        await bench.eventually(lambda: list(bench.execute.glob("dir_*/**/part")), "it has written")
        await bench.shadow.kill(run, code=int(Vacate.JOB_REMOVED), want_outputs=True)
        ended = await bench.ended(run)
        assert (ended.how, bench.output(run, "part")) == (schedd_pb2.RunEnded.EVICTED, "so far\n")
