"""Whoever starts the pool, and whoever submits, may have files that are closed to all others by default."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import host
from tests.support.accounts import HostUser, host_users
from tests.support.open_installation import opened
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

pytestmark = [pytest.mark.host, host.needs(host.root, host.open_installation)]

_CLOSED = ("sh", "-c", 'umask 077; exec "$0" "$@"')


@pytest.fixture
def pool() -> Iterator[Pool]:
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        made = Pool(Path(name, "pool"), "NUM_CPUS = 2\nNEGOTIATOR_INTERVAL = 2\n")
        made.root.chmod(0o755)
        made.command = (*(opened() or []), *_CLOSED, sys.executable, "-m", "slotwise")
        try:
            yield made
        finally:
            made.destroy()


def as_user(pool: Pool, user: HostUser, *words: str) -> str:
    drop = ["setpriv", "--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups"]
    done = subprocess.run(
        [*(opened() or []), *drop, *_CLOSED, sys.executable, "-m", "slotwise", *words],
        env=pool.env | {"HOME": str(user.home)}, cwd=user.home, capture_output=True, text=True,
        timeout=2 * LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_jobs_of_a_user_run_in_a_pool_of_roots_where_both_close_their_files(pool: Pool) -> None:
    said = pool.run("up").stderr
    assert f"WARNING: users other than root cannot use this pool (`chmod 755 {pool.home.root}` lets them)" in said
    pool.home.root.chmod(0o755)
    assert "WARNING" not in pool.run("up").stderr
    with host_users("bob") as (bob,):
        bob.home.chmod(0o700)
        program = bob.home / "job.sh"
        program.write_text("#!/bin/sh\ncat in; echo new > made\n")
        program.chmod(0o700)
        (bob.home / "in").write_text("what bob has\n")
        (bob.home / "in").chmod(0o600)
        description = bob.home / "job.sub"
        description.write_text(
            "executable = job.sh\ntransfer_input_files = in\noutput = out\nerror = err\nlog = log\n"
            "should_transfer_files = yes\nrequest_memory = 16M\nqueue\n"
        )
        for path in (program, bob.home / "in", description):
            os.chown(path, bob.uid, bob.gid)
        as_user(pool, bob, "submit", "job.sub")
        as_user(pool, bob, "wait", "-wait", str(int(LIMIT_S)), "log")
        assert (bob.home / "err").read_text() == ""
        assert (bob.home / "out").read_text() == "what bob has\n"
        assert (bob.home / "made").read_text() == "new\n"
        assert (bob.home / "made").stat().st_uid == bob.uid
        assert not stat.S_IMODE((bob.home / "log").stat().st_mode) & 0o022
        assert as_user(pool, bob, "history", "-af", "JobStatus", "ExitCode").split() == ["4", "0"]
        assert as_user(pool, bob, "status", "-af", "Name")
