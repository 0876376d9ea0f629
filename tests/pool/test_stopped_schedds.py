"""Submissions to a schedd that does not answer, and ones that are killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from slotwise.master.watchdog import state

from tests.support.pool import Pool


def described(pool: Pool) -> str:
    path = Path(pool.root, "it.sub")
    path.write_text("executable = /bin/sleep\narguments = 1000\nqueue\n")
    return str(path)


def test_a_submission_says_what_it_waits_for(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("DAEMON_LIST = MASTER, COLLECTOR, SCHEDD\n")
    pool.up()
    stopped = pool.stop("schedd")
    said = pool.root / "said"
    with said.open("w") as stream:
        asked = subprocess.Popen(
            [*pool.command, "submit", described(pool)], env=pool.env, cwd=pool.root, stdout=stream, stderr=stream
        )
    pool.until("it says so", lambda: "Waiting for the schedd, which has not answered for 10 s" in said.read_text())
    os.kill(stopped, signal.SIGCONT)
    assert asked.wait() == 0
    assert len(pool.json("q")) == 1


def test_a_submission_that_is_killed_before_it_was_sent_queues_nothing(make_pool: Callable[[str], Pool]) -> None:
    """The command server does the work for the launcher, which waits for its answer and is killed."""
    pool = make_pool("DAEMON_LIST = MASTER, COLLECTOR, SCHEDD, FRONT\n")
    pool.up()
    path = described(pool)
    pool.run("submit", path)  # by the command server, which has all that it needs from now on
    stopped = pool.stop("front")
    asked = subprocess.Popen([*pool.command, "submit", path], env=pool.env, cwd=pool.root, stderr=subprocess.DEVNULL)
    pool.until("it waits for the answer", lambda: state(asked.pid) == "S")
    asked.kill()
    asked.wait()
    os.kill(stopped, signal.SIGCONT)
    for _ in range(3):
        pool.run("submit", path)
    assert [ad["ClusterId"] for ad in pool.json("q")] == [1, 2, 3, 4]
