"""Submissions to a schedd that does not answer, and ones that are killed meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from slotwise.master.watchdog import state

from tests.support.pool import Pool

LATE = "Waiting for the schedd, which has not answered for 10 s"


def described(pool: Pool) -> str:
    path = Path(pool.root, "it.sub")
    path.write_text("executable = /bin/sleep\narguments = 1000\nqueue\n")
    return str(path)


def test_commands_say_what_they_wait_for(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("DAEMON_LIST = MASTER, COLLECTOR, SCHEDD\n")
    pool.up()
    pool.run("submit", described(pool))
    stopped = pool.stop("schedd")
    commands = (
        ("submit", str(pool.root / "it.sub")),
        ("hold", "1"),
        ("prio", "-p", "5", "1"),
        ("qedit", "1", "Extra", "1"),
        ("q",),
        ("q", "-global"),
        ("q", "-totals"),
        ("history",),
        ("release", "7"),
        ("rm", "8"),
        ("qusers",),
        ("tail", "1"),
        ("ssh-to-job", "1"),
    )
    refused = (("release", "7"), ("rm", "8"), ("tail", "1"), ("ssh-to-job", "1"))
    with contextlib.ExitStack() as files:
        started = []
        for number, words in enumerate(commands):
            said = pool.root / f"said.{number}"
            stream = files.enter_context(said.open("w"))
            command = [*pool.command, *words]
            asked = subprocess.Popen(command, env=pool.env, cwd=pool.root, stdout=subprocess.DEVNULL, stderr=stream)
            started.append((words, said, asked))
        for words, said, _ in started:
            pool.until(f"{words} says so", lambda said=said: LATE in said.read_text())
        os.kill(stopped, signal.SIGCONT)
        assert [(words, asked.wait()) for words, _, asked in started if words not in refused] == [
            (words, 0) for words in commands if words not in refused
        ]
        for words, said, asked in started:
            asked.wait()
            assert said.read_text().count(LATE) == 1, words
    assert len(pool.json("q")) == 2
    assert LATE not in pool.run("q").stderr


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
