"""Commands that run something as a job, on a real pool: ``condor_run`` ends as its job does, and leaves nothing;
``htcondor snake submit`` runs Snakemake on the access point.

The pool is an ordinary user's, as jobs of root's have no part in root's directories.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import host
from tests.support.accounts import host_users
from tests.support.pool import Pool
from tests.support.users_pool import UsersPool

CONFIG = "NUM_CPUS = 4\nPERIODIC_EXPR_INTERVAL = 1\n"


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        root = Path(directory) / "p"
        if os.geteuid():
            yield from _started(Pool(root, CONFIG))
            return
        host.need(host.open_installation)
        root.mkdir()
        with host_users("run") as (user,):
            yield from _started(UsersPool(user, root, CONFIG))


def _started(made: Pool) -> Iterator[Pool]:
    try:
        made.up()
        made.until("the slot is advertised", lambda: made.json("status"))
        yield made
    finally:
        made.run("down", "--fast", check=False)


@pytest.fixture
def place(pool: Pool) -> Iterator[Path]:
    """A directory of the user's."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=pool.root) as directory:
        owner = pool.root.stat()
        os.chown(directory, owner.st_uid, owner.st_gid)
        yield Path(directory)


def test_output_and_exit_status_are_the_jobs(pool: Pool, place: Path) -> None:
    (place / "in.txt").write_text("b\na\n")
    line = 'sort < in.txt; pwd; echo trouble >&2; echo "[$CHOSEN]"; exit 3'
    done = pool.run("condor_run", line, cwd=place, check=False, CHOSEN="x", SHELL="/bin/sh")
    assert (done.returncode, done.stdout, done.stderr) == (3, f"a\nb\n{place}\n[]\n", "trouble\n")
    words = ("condor_run", "-getenv", "-a", "request_memory = 10M", "echo", '"[$CHOSEN]"; . there')
    (place / "there").write_text("echo found\n")
    assert pool.run(*words, cwd=place, CHOSEN="x", SHELL="/bin/sh").stdout == "[x]\nfound\n"
    assert {path.name for path in place.iterdir()} == {"in.txt", "there"}


def test_jobs_that_do_not_end_by_themselves_are_no_success(pool: Pool, place: Path) -> None:
    done = pool.run("condor_run", "kill -9 $$", cwd=place, check=False)
    assert (done.returncode, done.stderr) == (137, "Condor job killed by signal 9.\n")
    words = ("-a", "hold = true", "-a", "periodic_remove = JobStatus == 5")
    done = pool.run("condor_run", *words, "true", cwd=place, check=False)
    assert (done.returncode, done.stdout) == (1, "") and "The job was aborted" in done.stderr
    done = pool.run("condor_run", "-u", "nosuch", "true", cwd=place, check=False)
    assert done.returncode == 1 and done.stderr.endswith("Failed to submit Condor job.\n")
    assert not list(place.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_the_job_goes_with_the_call(pool: Pool, place: Path, number: signal.Signals) -> None:
    words = (*pool.account, sys.executable, "-m", "slotwise", "condor_run", "echo begun > begun; exec sleep 600")
    call = subprocess.Popen(words, env=pool.env, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pool.until("the job runs", (place / "begun").exists)
    os.kill(call.pid, number)
    _, err = call.communicate()
    assert (call.returncode, err) == (128 + number, f"Killed by {number.name}.\n")
    assert [path.name for path in place.iterdir()] == ["begun"]
    pool.until("the job has left the queue", lambda: not pool.run("q", "-af", "ClusterId").stdout.strip())


def test_snakemake_runs_in_a_job(pool: Pool, place: Path) -> None:
    program = place / "bin" / "snakemake"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor word; do echo "$word"; done\npwd\necho "$CHOSEN"\n')
    program.chmod(0o755)
    (place / "Snakefile").touch()
    words = ("htcondor", "snake", "submit", "--jobdir", "logs of it", "--", "--jobs", "3", "it's $(one)")
    path = f"{program.parent}:{pool.env['PATH']}"
    said = pool.run(*words, cwd=place, PATH=path, CHOSEN="x", _CONDOR_SNAKEMAKE_MANAGER_REQUEST_MEM="64M").stdout
    cluster = said.split("JobID ")[1].split(".")[0]
    pool.until("it has ended", lambda: not pool.run("q", cluster, "-af", "ClusterId").stdout.strip())
    fixed = [
        "-s",
        "Snakefile",
        "--executor",
        "htcondor",
        "--htcondor-jobdir",
        "logs of it",
        "--jobs",
        "3",
        "it's $(one)",
    ]
    out = (place / "logs of it" / f"snakemake-mgmt-{cluster}.out").read_text()
    assert out.splitlines() == [*fixed, str(place), "x"]
    told = pool.run("history", cluster, "-af", "JobBatchName", "RequestMemory", "JobUniverse").stdout
    assert told.split() == [f"snakemake-mgmt-{cluster}", "64", "12"]
