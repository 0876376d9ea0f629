"""The defragmenter of a real pool drains a machine that is in parts, and lets it go when it is whole."""

from __future__ import annotations

from collections.abc import Callable

from tests.pool.test_execution_point import BASE, events, slots, submit
from tests.support.pool import Pool

KNOBS = (
    "DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD, DEFRAG\nDEFRAG_INTERVAL = 1\n"
    "DEFRAG_DRAINING_MACHINES_PER_HOUR = 3600\nDEFRAG_REQUIREMENTS = NumDynamicSlots > 0\n"
)


def test_a_machine_is_made_whole(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(BASE + KNOBS)
    pool.up()
    log = submit(pool, 600)
    pool.until("it runs", lambda: events(log, "001"))
    pool.until("the job has to make room", lambda: events(log, "004"))
    pool.until("the machine is whole, and works again", lambda: events(log, "001") > 1 or slots(pool, Cpus=4))
    ad = pool.until("it tells", lambda: [a for a in pool.json("status", "-defrag") if a.get("DrainSuccesses")])[0]
    assert ad["RecentDrainsList"][0]["what"] == "graceful"
    assert ad["DrainFailures"] == 0
