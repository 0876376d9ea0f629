"""Matches in a pool whose negotiator tells startds of them (NEGOTIATOR_INFORM_STARTD)."""

from __future__ import annotations

from collections.abc import Callable

from tests.pool.test_execution_point import events, slots, submit
from tests.support.pool import Pool


def test_slots_that_wait_in_matched_are_claimed_and_run_jobs(make_pool: Callable[[str], Pool]) -> None:
    knobs = "NUM_CPUS = 2\nNUM_SLOTS = 2\nRunBenchmarks = false\nNEGOTIATOR_INFORM_STARTD = true\n"
    pool = make_pool(knobs + "SLOTWISE_STARTD_STIMULI_MAX_KIB = 1000\n")
    pool.up()
    pool.until("both slots are there", lambda: len(slots(pool, State="Unclaimed")) == 2)
    log = submit(pool, 0.2, 4)
    pool.until("the jobs have run", lambda: events(log, "005") == 4)
    pool.until("no slot is stuck", lambda: not slots(pool, State="Matched"))
    assert any("MatchNoticed" in found.read_text() for found in pool.root.rglob("startd-stimuli.jsonl"))
