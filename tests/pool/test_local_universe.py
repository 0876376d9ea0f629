"""Jobs on the access point of a real pool: they outlive a schedd that is killed, and nothing outlives the pool."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import tempfile
from pathlib import Path

from slotwise.daemon import lock

from tests.support.pool import Pool

CONFIG = """
DAEMON_LIST = MASTER COLLECTOR SCHEDD
UID_DOMAIN = here.test
QUEUE_SUPER_USERS = root
QUEUE_SUPER_USER_MAY_IMPERSONATE = nobody
"""
JOB = """
universe = {universe}
executable = /bin/sh
arguments = "-c 'echo $$ >> {name}.pids; trap ""touch {name}.left; exit 0"" TERM; while true; do sleep 0.05; done'"
log = {name}.log
{owner}
queue
"""


def test_a_schedd_is_killed_and_the_pool_goes_down() -> None:
    # Where the tests run as root the jobs are another user's: root's do not run, and pytest's directory is closed.
    root = Path(tempfile.mkdtemp(prefix="slotwise-local-"))
    root.chmod(0o755)
    is_root = os.geteuid() == 0
    work = root / "work"
    work.mkdir()
    if is_root:
        shutil.chown(work, "nobody")
    pool = Pool(root / "pool", CONFIG)
    try:
        pool.up()
        for universe in ("scheduler", "local"):
            text = JOB.format(universe=universe, name=universe, owner='My.Owner = "nobody"' if is_root else "")
            (root / f"{universe}.sub").write_text(text)
            pool.run("submit", str(root / f"{universe}.sub"), cwd=work)
        pids = [work / "scheduler.pids", work / "local.pids"]
        pool.until("both jobs run", lambda: all(path.exists() and path.read_text().endswith("\n") for path in pids))
        running = [int(path.read_text()) for path in pids]
        owner = "nobody" if is_root else pwd.getpwuid(os.geteuid()).pw_name
        assert {Path(f"/proc/{pid}").owner() for pid in running} == {owner}

        schedd = lock.holder(pool.home, "schedd")
        assert schedd is not None
        os.kill(schedd, signal.SIGKILL)
        pool.until("a new schedd", lambda: lock.holder(pool.home, "schedd") not in (None, schedd))
        pool.until(
            "the new schedd knows them",
            lambda: pool.run("q", "-af", "JobStatus", check=False).stdout.split() == ["2", "2"],
        )
        assert [int(path.read_text()) for path in pids] == running, "neither was started again"

        pool.run("down")
        assert not any(Path(f"/proc/{pid}").exists() for pid in running)
        assert {path.name for path in work.glob("*.left")} == {"scheduler.left", "local.left"}, "they were asked first"
        assert "\n004 (001.000" in (work / "scheduler.log").read_text()
    finally:
        pool.down()
        shutil.rmtree(root, ignore_errors=True)
