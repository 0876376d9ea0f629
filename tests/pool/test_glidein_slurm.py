"""The batch script of glide-ins in a real Slurm of one node: what the job has, its end, and the signal before it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.pool.test_glidein import place, pool, status_of, submit, token, user
from tests.support import host
from tests.support.accounts import HostUser
from tests.support.open_installation import opened
from tests.support.pool import Pool
from tests.support.slurm import PROGRAMS, slurm

__all__ = ["place", "pool", "token", "user"]

pytestmark = [
    host.needs(host.root),
    host.needs(host.host_programs(*PROGRAMS)),
]
SCRIPT = Path(__file__).resolve().parents[2] / "packaging" / "glideins" / "slotwise-glidein.sbatch"


def test_a_job_of_the_pool_runs_in_a_job_of_slurm_and_ends_before_it(
    pool: Pool, user: HostUser, place: Path, token: Path
) -> None:
    (place / "bin").mkdir()
    program = place / "bin" / "slotwise"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={os.environ["PYTHONPATH"]} exec {sys.executable} -m slotwise "$@"\n')
    program.chmod(0o755)
    shutil.copy(SCRIPT, place / "glidein.sbatch")
    who = ["setpriv", "--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups"]
    with (
        tempfile.TemporaryDirectory(prefix="sl-", dir="/var/tmp", ignore_cleanup_errors=True) as directory,
        slurm(Path(directory), prefix=opened() or []) as cluster,
    ):
        Path(directory).chmod(0o755)
        long = submit(pool, "outlasts", "sleep 1", "allowed_execute_duration = 1000")
        short = submit(
            pool, "fits", "id -u; sleep 1000", "allowed_execute_duration = 60", "when_to_transfer_output = ON_EXIT"
        )
        began = time.time()
        asked = ["sbatch", "--parsable", "--time=10", "--mem=1000", "--output=glidein.log", "glidein.sbatch"]
        path = f"{place}/bin:{cluster.env['PATH']}"
        number = cluster.run(*asked, who=who, cwd=place, PATH=path, HOME=str(place), SLOTWISE_TOKEN=str(token)).strip()

        def log() -> str:
            found = place / "glidein.log"
            return found.read_text(errors="replace") if found.exists() else ""

        pool.until(f"the job runs\n{log()}", lambda: status_of(pool, short) == "2")
        # The ad follows the job's start.
        (ad,) = pool.until(
            "the job is in the ad",
            lambda: pool.json("status", "-constraint", "PartitionableSlot && size(ChildCpus) == 1"),
        )
        ends = time.mktime(time.strptime(cluster.job(number)["EndTime"], "%Y-%m-%dT%H:%M:%S"))
        assert began + 500 < ends < time.time() + 700
        # The end that it advertises leaves the notice that Slurm gives; memory is that of the job but for the daemons.
        assert ends - 400 < ad["GlideinEnd"] <= ends, (ad["GlideinEnd"], ends)
        assert (ad["GlideinSite"], ad["Cpus"] + ad["ChildCpus"][0], ad["TotalMemory"]) == ("test", 1, 744), ad
        assert pool.run("q", long, "-af", "NumJobStarts", "JobStatus").stdout.split() == ["0", "1"]
        # As --signal has Slurm do it in time before the end: the script, not what it has started.
        cluster.run("scancel", "--batch", "--signal=TERM", number)
        pool.until(
            "the job of Slurm has ended", lambda: cluster.job(number)["JobState"] not in ("RUNNING", "COMPLETING")
        )
        assert cluster.job(number)["JobState"] in ("COMPLETED", "FAILED"), log()
        pool.until("the job waits again", lambda: status_of(pool, short) == "1")
        pool.until("its ads are gone", lambda: not pool.run("status", "-af", "Name").stdout)
        pool.run("rm", "-all")
