"""HTCondor's own condor_dagman on a pool with nothing configured for it, or with HTCondor's default written out."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.host import needs, programs
from tests.support.pool import Pool

DAG = """
JOB A node.sub
JOB B node.sub
JOB C node.sub
VARS A name="A"
VARS B name="B"
VARS C name="C"
PARENT A CHILD B C
"""
NODE = """
executable = /bin/sh
arguments = "-c 'test $(name) = A || test -e A.out; echo $(name)'"
output = $(name).out
request_memory = 16M
request_disk = 1M
queue
"""


def ordinary_account() -> str:
    return "needs an account other than root's, whose jobs do not run on access points" if os.geteuid() == 0 else ""


@pytest.fixture
def not_in_tmp() -> Iterator[Path]:
    """condor_dagman refuses DAGs whose log would be below /tmp."""
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@needs(programs("condor_submit_dag", "condor_dagman"), ordinary_account)
@pytest.mark.parametrize("said", ["", "DAGMAN_USE_DIRECT_SUBMIT = True\n"], ids=["nothing", "HTCondor's default"])
def test_a_dag_runs_to_its_end(not_in_tmp: Path, said: str) -> None:
    pool = Pool(not_in_tmp / "pool", f"NUM_CPUS = 2\nNEGOTIATOR_INTERVAL = 1\n{said}")
    work = not_in_tmp / "work"
    work.mkdir()
    (work / "x.dag").write_text(DAG)
    (work / "node.sub").write_text(NODE)
    try:
        pool.up()
        pool.run("condor-names")
        made = subprocess.run(
            ["condor_submit_dag", "-no_submit", "x.dag"], cwd=work, env=pool.env, capture_output=True, text=True
        )
        assert made.returncode == 0, made.stderr
        pool.run("submit", "x.dag.condor.sub", cwd=work)
        (total,) = set(pool.run("q", "-af", "DAG_NodesTotal", "JobBatchName").stdout.splitlines())
        assert total == "3 x.dag+1"
        log = work / "x.dag.dagman.out"
        pool.until("the DAG is over", lambda: log.exists() and "EXITING WITH STATUS" in log.read_text())
        assert "EXITING WITH STATUS 0" in log.read_text()
        assert {path.name for path in work.glob("*.out")} >= {"A.out", "B.out", "C.out"}
        pool.until("it has left the queue", lambda: not pool.run("q", "-af", "ClusterId").stdout)
        past = pool.run("history", "1", "-af", "DAG_NodesDone", "DAG_JobsCompleted", "JobBatchName").stdout
        assert past == "3 3 x.dag+1\n"
        nodes = pool.run("history", "-constraint", "DAGManJobId == 1", "-af", "JobBatchName").stdout
        assert nodes == "x.dag+1\n" * 3
    finally:
        pool.down()
