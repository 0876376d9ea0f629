"""What a job's neighbours may read of it, and what a job may gain from setuid programs."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.accounts import host_users
from tests.support.starter_bench import starter_bench

pytestmark = pytest.mark.host


async def test_a_users_group_does_not_read_the_job_ad(root: None) -> None:
    """Its environment is in it, and at many sites all users have one group."""
    with host_users("mallory") as (mallory,):
        async with starter_bench() as bench:
            script = "cat $_CONDOR_JOB_AD > mine; head -c1 $_CONDOR_MACHINE_AD >> mine; touch up; sleep 60"
            run = bench.submit("/bin/sh", "-c", script, Env="SECRET=42")
            await bench.running(run)
            await bench.eventually(lambda: list(bench.execute.glob("dir_*/scratch/up")), "the job has read its ad")
            (scratch,) = bench.execute.glob("dir_*/scratch")
            assert "Cmd = " in (scratch / "mine").read_text()
            ad = next(bench.execute.glob("dir_*/htcondor")).resolve() / ".job.ad"
            as_neighbour = ["setpriv", f"--reuid={mallory.uid}", f"--regid={scratch.stat().st_gid}", "--clear-groups"]
            done = subprocess.run([*as_neighbour, "cat", str(ad)], capture_output=True, text=True)
            assert (done.returncode, done.stdout) == (1, "")
            assert "Permission denied" in done.stderr


@pytest.mark.parametrize(("knob", "bit"), [("true", "1"), ("false", "0")])
async def test_jobs_gain_nothing_from_setuid_programs(root: None, knob: str, bit: str) -> None:
    async with starter_bench(DISABLE_SETUID=knob) as bench:
        run = bench.submit("/bin/sh", "-c", "grep NoNewPrivs /proc/self/status")
        await bench.ended(run)
        assert bench.output(run).split() == ["NoNewPrivs:", bit]
