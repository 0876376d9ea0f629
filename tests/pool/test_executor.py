"""Python calls as jobs: results, exceptions, jobs that end without either, cancelled ones."""

from __future__ import annotations

import concurrent.futures
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from slotwise.client import JobExecutor, JobFailedError, Schedd
from slotwise.errors import UsageError

from tests.support import host
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

PYTHON = "/usr/bin/python3"
SMALL = {"request_memory": "50M", "request_disk": "10M"}
pytestmark = host.needs(host.programs(PYTHON))


def test_calls_run_as_jobs(make_pool: Callable[[str], Pool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pool = make_pool("NUM_CPUS = 2\nMEMORY = 4096\n")
    pool.up()
    for name, value in pool.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    with Schedd() as schedd, JobExecutor(SMALL, schedd=schedd, python=PYTHON) as jobs:
        one = jobs.submit(pow, 2, 10)
        assert one.result(LIMIT_S) == 1024
        before = len(schedd.history("", ["ClusterId"]))
        assert list(jobs.map(math.sqrt, range(5), chunksize=2)) == [math.sqrt(n) for n in range(5)]
        clusters = schedd.wait("ClusterId > 1", ["ClusterId"])
        assert len(clusters) == 3 and len({ad["ClusterId"] for ad in clusters}) == 1 and before == 1

        wrong = jobs.submit(math.sqrt, -1)
        with pytest.raises(ValueError, match="math domain error") as raised:
            wrong.result(LIMIT_S)
        assert "call_in_job.py" in str(raised.value.__cause__)
        with pytest.raises(JobFailedError, match="it ended with status 3"):
            jobs.submit(os._exit, 3).result(LIMIT_S)
        with pytest.raises(UsageError, match="cannot be pickled"):
            jobs.submit(lambda: 1)
        with (
            pytest.raises(JobFailedError, match=r"no-such-python.*No such file"),
            JobExecutor(SMALL, schedd=schedd, python="/no-such-python") as others,
        ):
            others.submit(pow, 2, 2).result(LIMIT_S)

        sleepers = [jobs.submit(time.sleep, 600) for _ in range(3)]
        pool.until("two of them run", lambda: sum(job.running() for job in sleepers) == 2)
        waiting = next(job for job in sleepers if not job.running())
        assert (
            waiting.cancel() and waiting.cancelled() and not any(job.cancel() for job in sleepers if job is not waiting)
        )
        assert waiting in concurrent.futures.wait(sleepers, timeout=0).done
        left = schedd.query("", ["ClusterId", "ProcId"])
        assert len(left) == 2, left
        schedd.act("remove", [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in left], reason="enough")
        with pytest.raises(JobFailedError, match="it was removed"):
            next(job for job in sleepers if job is not waiting).result(LIMIT_S)
    with pytest.raises(RuntimeError, match="after shutdown"):
        jobs.submit(pow, 2, 2)
    assert not list(tmp_path.glob("slotwise-calls-*"))
