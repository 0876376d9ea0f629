"""Mail about real jobs of every universe, and what a user writes to get it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tests.support.pool import Pool

CONFIG = """
NUM_CPUS = 2
UID_DOMAIN = here.test
QUEUE_SUPER_USERS = root
QUEUE_SUPER_USER_MAY_IMPERSONATE = nobody
SENDMAIL =
MAIL = {program}
"""
JOB = """
universe = {universe}
executable = /bin/sh
transfer_executable = false
arguments = "-c 'exit 3'"
batch_name = of the {universe}
notification = {wish}
notify_user = ann@{universe}.org
email_attributes = JobPrio
priority = 7
{owner}
queue
"""


def test_jobs_of_every_universe_mail_their_users() -> None:
    # Where the tests run as root the jobs are another user's: root's do not run, and pytest's directory is closed.
    root = Path(tempfile.mkdtemp(prefix="slotwise-mail-"))
    root.chmod(0o755)
    box, program, work = root / "box", root / "fake-mail", root / "work"
    for directory in (box, work):
        directory.mkdir()
        directory.chmod(0o777)
    program.write_text(f'#!/bin/sh\n{{ echo "$@"; cat; }} > {box}/$$.part && mv {box}/$$.part {box}/$$.mail\n')
    program.chmod(0o755)
    pool = Pool(root / "pool", CONFIG.format(program=program))
    owner = 'My.Owner = "nobody"' if os.geteuid() == 0 else ""
    try:
        pool.up()
        for universe, wish in (("vanilla", "complete"), ("local", "error"), ("scheduler", "always")):
            (root / "job.sub").write_text(JOB.format(universe=universe, wish=wish, owner=owner))
            said = pool.run("submit", str(root / "job.sub"), cwd=work)
            assert "mail" not in said.stderr
        pool.until("three mails", lambda: len(list(box.glob("*.mail"))) == 3)
        mails = {text.partition("\n")[0]: text for text in (path.read_text() for path in box.glob("*.mail"))}
        for number, universe in enumerate(("vanilla", "local", "scheduler"), 1):
            text = mails[f"-s [Condor] Condor Job {number}.0 ann@{universe}.org"]
            assert f"\n\t/bin/sh -c exit' '3\n\tfrom batch of the {universe}\n" in text
            assert "\nexited normally with status 3\n" in text and "\n\n\nJobPrio = 7\n" in text
            assert ("Network:" in text) == (universe == "vanilla")
    finally:
        pool.down()
        shutil.rmtree(root, ignore_errors=True)
