"""Filler work in a real pool: a client runs on idle slots, makes room for jobs, and dies with its startd."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pool.test_execution_point import events, slots, submit
from tests.support.pool import Pool


def living(marks: Path) -> list[int]:
    """The clients (and their children) that wrote their ids and still live."""
    found = []
    for mark in marks.glob("pid_*"):
        with contextlib.suppress(OSError):
            pid = int(mark.name.removeprefix("pid_"))
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            # The number of one that has ended may be another program's by now.
            if state not in "ZX" and (bytes(marks) in words or words == b"sleep\x001000\x00"):
                found.append(pid)
    return found


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that the client's owner reaches: those of pytest are closed to other users."""
    with tempfile.TemporaryDirectory(prefix="sw-filler-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o777)
        yield Path(os.path.realpath(directory))


def test_filler_work_makes_room_for_jobs_and_ends_with_its_startd(make_pool: Callable[[str], Pool], home: Path) -> None:
    client = home / "client"
    client.write_text("#!/bin/sh\necho $* $PROJECT\necho no luck >&2\n: > pid_$$\nsleep 1000 &\n: > pid_$!\nwait\n")
    client.chmod(0o755)
    pool = make_pool(
        "NUM_CPUS = 2\nNUM_SLOTS = 2\nRunBenchmarks = false\nPOLLING_INTERVAL = 1\nKILLING_TIMEOUT = 2\n"
        f"ENABLE_BACKFILL = true\nBACKFILL_SYSTEM = BOINC\n"
        f"BOINC_Executable = {client}\nBOINC_InitialDir = {home}\nBOINC_Owner = nobody\n"
        f"BOINC_Output = {home}/out\nBOINC_Error = {home}/err\n"
        "BOINC_Arguments = --attach here\nBOINC_Environment = PROJECT=seti\n"
        "START_BACKFILL = Full =!= true\nEVICT_BACKFILL = Full =?= true\nSTARTD_ATTRS = Full\nFull = false\n"
    )
    pool.up()
    pool.until("both slots are filled", lambda: len(slots(pool, State="Backfill", Activity="Busy")) == 2)
    pool.until("one client and its child run for both slots", lambda: len(living(home)) == 2)
    said = {name: (home / name).read_text().splitlines()[0] for name in ("out", "err")}
    assert said == {"out": "--attach here seti", "err": "no luck"}
    log = submit(pool, 600)
    pool.until("a job takes one slot", lambda: events(log, "001") >= 1)
    pool.until("the other stays filled", lambda: len(slots(pool, State="Backfill", Activity="Busy")) == 1)
    assert len(living(home)) == 2
    log = submit(pool, 600)
    pool.until("another job takes the other", lambda: events(log, "001") >= 2)
    pool.until("the client has gone", lambda: not living(home))
    pool.run("rm", "-all")
    pool.until("filled again once they are gone", lambda: len(slots(pool, State="Backfill", Activity="Busy")) == 2)
    pool.until("the client and its child are back", lambda: len(living(home)) == 2)
    former = living(home)
    pool.kill("startd")
    pool.until("the next startd ends the former client", lambda: not set(former) & set(living(home)))
    pool.until("and runs its own", lambda: len(slots(pool, State="Backfill", Activity="Busy")) == 2 and living(home))
    pool.until("it answers", lambda: pool.answers("startd"))
    pool.config_file.write_text(pool.config_file.read_text() + "Full = true\n")
    pool.run("reconfig", "startd")
    pool.until("evicted", lambda: len(slots(pool, State="Unclaimed")) == 2 and not living(home))
    pool.config_file.write_text(pool.config_file.read_text() + "Full = false\n")
    pool.run("reconfig", "startd")
    pool.until("filled once more", lambda: len(slots(pool, State="Backfill", Activity="Busy")) == 2)
    pool.run("off", "-startd", "-wait")
    assert not living(home)
