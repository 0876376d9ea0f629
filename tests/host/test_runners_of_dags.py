"""Runners of several users' DAGs are forks of one process of root's: each has its own user's rights, and nothing of
root's or of another's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import host
from tests.support.accounts import HostUser, host_users
from tests.support.dags import CONFIG, TRUE, runners
from tests.support.open_installation import opened
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

pytestmark = [pytest.mark.host, host.needs(host.root)]


def submitted(pool: Pool, user: HostUser) -> int:
    """The runner of a DAG of the user, in the home that no other account reaches."""
    waits = f"arguments = \"-c 'until test -e {user.home}/go; do sleep 0.1; done'\"\nqueue"
    (user.home / "a.sub").write_text(TRUE.replace("/bin/true", "/bin/sh").replace("queue", waits))
    (user.home / "x.dag").write_text("JOB A a.sub\nSCRIPT POST A post.sh\nJOB B a.sub\nPARENT A CHILD B\n")
    (user.home / "post.sh").write_text("#!/bin/sh\nid > post.out\n")
    (user.home / "post.sh").chmod(0o755)
    drop = ["setpriv", "--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups"]
    subprocess.run(
        [*(opened() or []), *drop, sys.executable, "-m", "slotwise", "dag", "submit", "x.dag"],
        env=pool.env | {"HOME": str(user.home)}, cwd=user.home, capture_output=True, check=True, timeout=2 * LIMIT_S,
    )  # fmt: skip
    return int(pool.until("its DAG runs", lambda: runners(user.home))[0])


def status_of(process: int) -> dict[str, str]:
    return dict(re.findall(r"^(\w+):[ \t]*(.*)$", Path(f"/proc/{process}/status").read_text(), re.M))


def test_a_runner_has_the_rights_of_its_user_alone() -> None:
    host.need(host.open_installation)
    with (
        host_users("bob", "mallory") as users,
        tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp", ignore_cleanup_errors=True) as name,
    ):
        Path(name).chmod(0o755)
        pool = Pool(Path(name) / "p", CONFIG)
        pool.root.chmod(0o755)
        try:
            words = [*(opened() or []), sys.executable, "-m", "slotwise", "up"]
            subprocess.run(words, env=pool.env, cwd="/", capture_output=True, check=True, timeout=2 * LIMIT_S)
            found = [submitted(pool, user) for user in users]
            above = {status_of(int(status_of(process)["PPid"]))["PPid"] for process in found}
            assert len(above) == 1, "they have one zygote"
            assert status_of(int(above.pop()))["Uid"].split() == ["0"] * 4
            for user, other, process in zip(users, reversed(users), found, strict=True):
                status = status_of(process)
                assert status["Uid"].split() == [str(user.uid)] * 4
                assert status["Gid"].split() == [str(user.gid)] * 4
                assert {int(group) for group in status["Groups"].split()} <= {user.gid}
                assert {status[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {""}
                files = [os.readlink(entry) for entry in Path(f"/proc/{process}/fd").iterdir()]  # noqa: PTH115
                paths = [path for path in files if path.startswith("/")]
                assert all(path.startswith((str(user.home), "/dev/null")) for path in paths), paths
                look = f"cat /proc/{process}/environ /proc/{process}/maps"
                assert "_SLOTWISE_FAMILY=" in user.run(look).stdout
                assert not other.run(look, check=False).stdout
                assert other.run(f"kill -0 {process}", check=False).returncode
            for user in users:
                (user.home / "go").write_text("")
            for user in users:
                log = user.home / "x.dag.dagman.out"
                pool.until("the DAG is over", lambda log=log: "EXITING WITH STATUS 0" in log.read_text())
                assert f"uid={user.uid}" in (user.home / "post.out").read_text()
        finally:
            pool.destroy()
