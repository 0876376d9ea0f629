"""How often daemons report to the collector is a knob that a reconfig changes, during a wait of the old length, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.pool import Pool

_LISTS = {"MASTER": "-master", "NEGOTIATOR": "-negotiator", "DEFRAG": "-defrag"}


@pytest.mark.parametrize("daemon", _LISTS)
def test_a_new_interval_counts_after_a_reconfig(make_pool: Callable[[str], Pool], daemon: str) -> None:
    knob = f"{daemon}_UPDATE_INTERVAL"
    pool = make_pool(
        f"DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, DEFRAG\n{knob} = 100000\nNEGOTIATOR_INTERVAL = 100000\n"
        "DEFRAG_INTERVAL = 100000\n"
    )
    pool.up()

    def heard() -> int:
        ads = pool.json("status", _LISTS[daemon])
        return int(ads[0]["LastHeardFrom"]) if ads else 0

    pool.until("it is there", heard)
    with (pool.root / "condor_config").open("a") as config:
        config.write(f"{knob} = 1\n")
    pool.run("reconfig")
    # The reconfig itself makes it report once.
    for _ in range(3):
        last = heard()
        pool.until("it reports again", lambda last=last: heard() > last)
