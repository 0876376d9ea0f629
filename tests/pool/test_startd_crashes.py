"""kill -9 of startd and starter at random moments, under random slots and policies: nothing is lost, nothing left."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pool.test_execution_point import events, slots, submit
from tests.support.pool import Pool
from tests.support.starter_bench import groups_of, processes_below
from tests.support.waiting import LIMIT_S

SHAPES = (
    "",
    "NUM_SLOTS = 4\n",
    "SLOT_TYPE_1 = cpus=2\nSLOT_TYPE_1_PARTITIONABLE = true\nNUM_SLOTS_TYPE_1 = 1\n"
    "SLOT_TYPE_2 = cpus=1\nNUM_SLOTS_TYPE_2 = 2\n",
    "MACHINE_RESOURCE_toys = a, b, c, d\nSLOT_TYPE_1 = 100%\nSLOT_TYPE_1_PARTITIONABLE = true\nNUM_SLOTS_TYPE_1 = 1\n",
)
POLICIES = (
    "",
    "CLAIM_WORKLIFE = 0\n",
    'PREEMPT = Activity == "Busy" && time() - EnteredCurrentActivity > 1 && NumJobStarts < 2\n'
    "MachineMaxVacateTime = 1\n",
    "WANT_SUSPEND = true\nSUSPEND = time() % 3 == 0\nCONTINUE = time() % 3 != 0\nPOLLING_INTERVAL = 1\n",
    "MaxJobRetirementTime = 2\nMachineMaxVacateTime = 1\nCLAIM_WORKLIFE = 1\n",
)
JOBS = 24
LONG = int(os.environ.get("SLOTWISE_LONG_CRASHES", "0"))


@pytest.mark.parametrize("seed", range(LONG or 2))
def test_startds_die_at_random(make_pool: Callable[[str], Pool], seed: int) -> None:
    chance = random.Random(seed)
    shape, policy = chance.choice(SHAPES), chance.choice(POLICIES)
    pool = make_pool(
        f"NUM_CPUS = 4\nRunBenchmarks = false\nNEGOTIATOR_INTERVAL = 1\nPOLLING_INTERVAL = 1\n{shape}{policy}"
    )
    pool.up()
    wants = ("request_toys = 1",) if "toys" in shape else ()
    log = submit(pool, 0.4, JOBS, *wants)
    for _ in range(chance.randint(3, 6)):
        time.sleep(chance.uniform(0.05, 1.2))  # the moment is what is random
        for daemon in chance.choice((["startd"], ["startd"], ["startd", "starter"], ["starter"])):
            if pool.pid(daemon) is not None:
                pool.kill(daemon)
        if chance.random() < 0.3 and pool.pid("startd") is not None:
            pool.run("vacate", chance.choice(("-fast", "-graceful")), "localhost", check=False)
    said = f"seed {seed}: {shape}{policy}"
    pool.until(f"all jobs have ended ({said})", lambda: events(log, "005") == JOBS, limit_s=2 * LIMIT_S)
    pool.until(f"the machine is whole ({said})", lambda: whole(pool))
    assert events(log, "005") == JOBS, "no job ended twice"
    execute = Path(pool.run("config", "val", "EXECUTE").stdout.strip())
    pool.until("nothing runs and nothing is left", lambda: tidy(execute))


def whole(pool: Pool) -> bool:
    """All cores are free, none is lost, and no dynamic slot is left."""
    ads = slots(pool)
    free = sum(float(str(ad["Cpus"])) for ad in ads)
    states = {ad["State"] for ad in ads}
    lost = any("BrokenSlotCpus" in ad or "SlotBrokenReason" in ad for ad in ads)
    toys = [ad for ad in ads if "TotalSlottoys" in ad and ad["toys"] != ad["TotalSlottoys"]]
    return (
        not lost and not toys and free == 4 and states == {"Unclaimed"} and not any(ad.get("DynamicSlot") for ad in ads)
    )


def tidy(execute: Path) -> bool:
    """No directory, process or cgroup of a job."""
    return not list(execute.glob("dir_*")) and not processes_below(execute) and not groups_of(execute)
