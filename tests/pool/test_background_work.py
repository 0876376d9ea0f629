"""The background work of all daemons of a pool fails once, and goes on."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

from slotwise.master.policy import START_ORDER

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

CONFIG = """
DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD STARTD DEFRAG ROOSTER LIBRARIAN WEB
SLOTWISE_HTTP_PORT = 0
"""
#: What all daemons do in the background.
OF_ALL = {
    "counting connections",
    "looking for changed keys and revocations",
    "measuring the lag of the event loop",
    "writing what debug() says",
}
#: What each does beside that.
WORK = {
    "Collector": {"expiring ads"},
    "Defrag": {"choosing machines to drain"},
    "Front": set[str](),
    "Librarian": {"bringing the library up to date"},
    "Master": {
        "answering the watchdog of the service manager",
        "keeping the pool's token fresh",
        "renewing the certificate of this host",
        "sending mail",
        *(f"keeping {name} up" for name in START_ORDER if name != "shared_port"),
    },
    "Negotiator": {"charging usage", "negotiating"},
    "Rooster": {"looking for machines to be woken"},
    "Sched": {
        "adapting transfers to the load of the disk",
        "carrying out actions on many jobs",
        "checking leases and idle claims",
        "counting daily usage",
        "deleting checkpoints",
        "evaluating periodic policies",
        "looking for dedicated slots",
        "pruning the history",
        "removing files of jobs that have left",
        "renewing credentials",
        "requesting negotiation cycles",
        "sending mail",
        "sending renewed credentials",
        "sending renewed proxies",
        "starting jobs on the access point",
        "trimming memory",
        "writing HISTORY",
        "writing SCHEDD_DAEMON_HISTORY",
        "writing event logs",
    },
    "Start": {"asking for devices", "evaluating policies", "looking at HIBERNATE"},
    "Starter": {"looking at jobs", "removing leftovers", "renewing the lease of jobs"},
    "Web": {"looking at the pool"},
}
LINE = re.compile(r"ERROR: (.+) failed, and goes on in 1 s: RuntimeError: broken by a test")


def test_an_error_costs_a_round_of_each(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(CONFIG)
    master = subprocess.Popen([sys.executable, "-m", "tests.support.breaking_master"], env=pool.env)

    def missing() -> dict[str, set[str]]:
        logs = {daemon: pool.home.log / f"{daemon}Log" for daemon in WORK}
        said = {daemon: log.read_text() if log.exists() else "" for daemon, log in logs.items()}
        return {
            daemon: left
            for daemon, work in WORK.items()
            if (left := (work | OF_ALL) - {match[1] for match in LINE.finditer(said[daemon])})
        }

    try:
        pool.until("each loop has failed", lambda: not missing())
        (pool.root / "job.sub").write_text("executable = /bin/true\nlog = job.log\nqueue\n")
        pool.until("the schedd answers", lambda: pool.answers("schedd"))
        pool.run("submit", "job.sub")
        pool.run("wait", "job.log")
        words = ("status", "-schedd", "-af", "BackgroundFailures", "LastBackgroundFailure")
        count, _, latest = pool.until("the schedd's ad says it", lambda: pool.run(*words).stdout).partition(" ")
        assert int(count) == len(WORK["Sched"] | OF_ALL)
        assert latest.endswith(": RuntimeError: broken by a test\n")
    finally:
        pool.run("down", "--fast", check=False)
        master.wait(LIMIT_S)
