"""Nodes of parallel jobs that find each other: by the ssh that sshd.sh starts, and an MPI program by way of it."""

from __future__ import annotations

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

CONFIG = """
SCHEDD_NAME = tests@
NUM_CPUS = 3
MEMORY = 2048
RunBenchmarks = false
MOUNT_UNDER_SCRATCH =
NEGOTIATOR_INTERVAL = 2
DedicatedScheduler = "DedicatedScheduler@tests@"
SLOTWISE_USE_GPUS = false
"""
SUBMIT = """
universe = parallel
executable = {program}
arguments = {arguments}
transfer_input_files = {inputs}
machine_count = 3
output = out.$(NODE)
error = err.$(NODE)
log = log
should_transfer_files = yes
request_memory = 100
request_disk = 1000
queue
"""
pytestmark = [
    host.needs(host.root),
    host.needs(host.host_programs("ssh", "sshd")),
]


class Place:
    """A pool of root's, and one who submits to it."""

    def __init__(self, pool: Pool, user: HostUser) -> None:
        self.pool, self.user = pool, user

    def slotwise(self, *words: str) -> str:
        drop = [
            *(opened() or []),
            "setpriv",
            "--reuid",
            str(self.user.uid),
            "--regid",
            str(self.user.gid),
            "--clear-groups",
        ]
        done = subprocess.run(
            [*drop, sys.executable, "-m", "slotwise", *words],
            env=self.pool.env | {"HOME": str(self.user.home), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=self.user.home, capture_output=True, text=True, timeout=2 * LIMIT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, program: str, arguments: str = "", inputs: str = "") -> tuple[str, str]:
        """Run a job to its end; what its node 0 wrote to output and error."""
        (self.user.home / "job.sub").write_text(SUBMIT.format(program=program, arguments=arguments, inputs=inputs))
        self.slotwise("submit", "job.sub")
        log = self.user.home / "log"
        self.pool.until("the job ends", lambda: log.exists() and "\n005 (" in log.read_text(), limit_s=2 * LIMIT_S)
        return (self.user.home / "out.0").read_text(), (self.user.home / "err.0").read_text()


@pytest.fixture
def place() -> Iterator[Place]:
    host.need(host.open_installation)
    with host_users("par") as (user,), tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        pool = Pool(Path(name) / "p", CONFIG)
        pool.root.chmod(0o755)
        words = [*(opened() or []), sys.executable, "-m", "slotwise", "up"]
        try:
            subprocess.run(words, env=pool.env, cwd="/", capture_output=True, check=True, timeout=2 * LIMIT_S)
            yield Place(pool, user)
        finally:
            pool.destroy()


def test_node_0_reaches_the_others(place: Place) -> None:
    script = place.user.home / "work.sh"
    script.write_text(
        """#!/bin/sh
echo "I am $_CONDOR_PROCNO" > name
. "$(condor_config_val libexec)/sshd.sh" "$_CONDOR_PROCNO" "$_CONDOR_NPROCS"
[ "$_CONDOR_PROCNO" -eq 0 ] || { wait; exit 0; }
for node in 0 1 2; do condor_ssh -x -n -l nobody $node cat $_CONDOR_SCRATCH_DIR/name; done
condor_ssh 7 true || echo "no node 7"
cut -d' ' -f1,4,6 contact
sshd_cleanup
ls -a | grep -c ssh
"""
    )
    script.chmod(0o755)
    out, err = place.run("work.sh")
    me = place.user.name
    assert out == f"I am 0\nI am 1\nI am 2\nno node 7\n0 {me} 1\n1 {me} 1\n2 {me} 1\n0\n", err
    assert err == "condor_ssh: 7 is not the number of a node\n"


MPI = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d processes, sum %d\n", size, sum);
    MPI_Finalize();
    return 0;
}
"""


@host.needs(host.programs("mpicc", "mpirun"))
def test_an_mpi_program_runs_over_all_nodes(place: Place) -> None:
    home = place.user.home
    (home / "sum.c").write_text(MPI)
    subprocess.run(["mpicc", "-o", str(home / "sum"), str(home / "sum.c")], check=True)
    (home / "sum").chmod(0o755)
    libexec = place.slotwise("condor-names", "--libexec").strip()
    out, err = place.run(f"{libexec}/openmpiscript", "sum", "sum")
    assert out == "3 processes, sum 3\n", err
