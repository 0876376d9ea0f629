"""What other accounts, and a job itself, try at the way into a running job and at the ssh of parallel jobs."""

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

pytestmark = [pytest.mark.host, host.needs(host.root)]

CONFIG = """
SCHEDD_NAME = tests@
NUM_CPUS = 4
MEMORY = 2048
RunBenchmarks = false
MOUNT_UNDER_SCRATCH =
NEGOTIATOR_INTERVAL = 2
DedicatedScheduler = "DedicatedScheduler@tests@"
"""
#: Modules that an interpreter started beside the job would find in its directory, and files that a shell reads.
_TRAPS = """#!/bin/bash
for name in os site resource shutil ctypes fcntl termios pathlib encodings sitecustomize usercustomize; do
    echo 'import os; open("trapped", "a").write("%s\\\\n" % os.getresuid().__str__())' > $name.py
done
echo 'id -u >> $_CONDOR_SCRATCH_DIR/read' > rc
cp rc .bashrc; cp rc .profile
echo ready
sleep 600
"""
_SUBMIT = """
executable = traps.sh
output = out
error = err
log = log
should_transfer_files = yes
environment = "BASH_ENV=rc ENV=rc PYTHONPATH=. PYTHONSTARTUP=os.py PYTHONHOME=. LD_PRELOAD=./none.so"
request_memory = 16M
queue
"""
#: Calls the schedd as this account, for the job of another, with none of the checks of our commands.
_VISIT = """
import sys, grpc
from slotwise.wire import login
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc

sock, job = sys.argv[1:]
shown = [("authorization", f"Bearer {login.obtain(sock)}")]
peek = schedd_pb2.Peek(files=[schedd_pb2.PeekFile(which=schedd_pb2.PeekFile.OUTPUT)])
for what in ({"open": schedd_pb2.OpenShell(command=["id"])}, {"peek": peek}):
    with grpc.insecure_channel(f"unix:{sock}") as channel:
        stub = schedd_pb2_grpc.ScheddStub(channel)
        try:
            print("SAID", list(stub.Visit(iter([schedd_pb2.JobVisit(job=job, **what)]), metadata=shown, timeout=20)))
        except grpc.RpcError as error:
            print(error.code().name)
"""
_NODES = """#!/bin/sh
# The keys of the others wait at the access point until node 0 begins.
[ "$_CONDOR_PROCNO" -ne 0 ] || while ! condor_chirp fetch go - 2>/dev/null; do sleep 2; done
. "$(condor_config_val libexec)/sshd.sh" "$_CONDOR_PROCNO" "$_CONDOR_NPROCS"
[ "$_CONDOR_PROCNO" -eq 0 ] || { wait; exit 0; }
cp contact told
condor_chirp put told told
while ! condor_chirp fetch end - 2>/dev/null; do sleep 2; done
condor_ssh 1 cat name
sshd_cleanup
"""
_PARALLEL = """
universe = parallel
executable = nodes.sh
machine_count = 2
output = out.$(NODE)
error = err.$(NODE)
log = log
should_transfer_files = yes
request_memory = 100
request_disk = 1000
queue
"""


class Place:
    """A pool of root's, whose jobs are bob's, and mallory."""

    def __init__(self, pool: Pool, bob: HostUser, mallory: HostUser) -> None:
        self.pool, self.bob, self.mallory = pool, bob, mallory

    def run(self, user: HostUser, *words: str) -> subprocess.CompletedProcess[str]:
        drop = ["setpriv", "--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups"]
        return subprocess.run(
            [*(opened() or []), *drop, sys.executable, *words],
            env=self.pool.env | {"HOME": str(user.home), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=user.home, capture_output=True, text=True, errors="replace", timeout=2 * LIMIT_S, check=False,
        )  # fmt: skip

    def slotwise(self, user: HostUser, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(user, "-m", "slotwise", *words)

    def submitted(self, program: str, text: str, description: str) -> str:
        """The cluster of a job of bob's."""
        path = self.bob.home / program
        path.write_text(text)
        path.chmod(0o755)
        (self.bob.home / "job.sub").write_text(description)
        done = self.slotwise(self.bob, "submit", "-terse", "job.sub")
        assert done.returncode == 0, done.stderr
        return done.stdout.split(".")[0].strip()


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    host.need(host.open_installation)
    with (
        host_users("bob", "mallory") as (bob, mallory),
        tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as name,
    ):
        Path(name).chmod(0o755)
        pool = Pool(Path(name) / "p", CONFIG)
        pool.root.chmod(0o755)
        words = [*(opened() or []), sys.executable, "-m", "slotwise", "up"]
        try:
            subprocess.run(words, env=pool.env, cwd="/", capture_output=True, check=True, timeout=2 * LIMIT_S)
            yield Place(pool, bob, mallory)
        finally:
            pool.destroy()


def test_nobody_enters_anothers_job_and_a_job_lays_no_trap_for_who_enters_its_own(place: Place) -> None:
    job = place.submitted("traps.sh", _TRAPS, _SUBMIT) + ".0"
    bob, mallory = place.bob, place.mallory
    place.pool.until("the job is ready", lambda: "ready" in place.slotwise(bob, "tail", job).stdout)
    for words in (("ssh-to-job", job, "id"), ("ssh-to-job", job), ("tail", job), ("tail", "-f", job, "rc")):
        done = place.slotwise(mallory, *words)
        assert done.returncode and "uid=" not in done.stdout and "ready" not in done.stdout, words
        assert f"job {job} is {bob.name}@" in done.stderr, words
    raw = place.run(mallory, "-c", _VISIT, str(place.pool.home.run / "schedd.sock"), job)
    assert raw.stdout.split() == ["PERMISSION_DENIED"] * 2, raw.stderr
    # What the job has planted runs as the job's user, in the shell, and never before.
    done = place.slotwise(
        bob, "ssh-to-job", job, "id -u; cat read; cat trapped; readlink /proc/self/fd/[3-9]; echo end"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(bob.uid), str(bob.uid), "end"], done.stderr
    assert "none.so" in done.stderr and done.stderr.count("trapped") == 1
    # Other accounts reach neither its directory nor its processes.
    found = mallory.run(
        f"ls {place.pool.home.execute}/*/scratch {place.pool.home.execute}/*/htcondor", check=False
    ).stdout
    assert "traps.sh" not in found and ".job.ad" not in found
    assert place.slotwise(bob, "rm", job).returncode == 0


@host.needs(host.host_programs("ssh", "sshd", "ss"))
def test_the_keys_of_a_parallel_job_and_its_sshd_are_its_users_alone(place: Place) -> None:
    bob, mallory = place.bob, place.mallory
    cluster = place.submitted("nodes.sh", _NODES, _PARALLEL)
    spool = place.pool.home.root / "sandboxes"

    def left(what: str) -> list[Path]:
        return list(spool.glob(f"**/{what}"))

    (contact,) = place.pool.until("node 1 has left its keys", lambda: left("1.contact"), limit_s=2 * LIMIT_S)
    kept = [*contact.parent.glob("1.*")]
    assert {path.name for path in kept} == {"1.key", "1.host", "1.contact"}
    assert {(path.stat().st_mode & 0o777, path.stat().st_uid) for path in kept} == {(0o600, bob.uid)}
    text = contact.read_text()
    _, address, port, user, directory, _ = text.split()
    assert user == bob.name
    read = f"cat {contact} {contact.parent}/1.key {directory}/.condor_ssh/1.key {directory}/.condor_ssh/host"
    assert "PRIVATE" not in (tried := mallory.run(read, check=False)).stdout and tried.returncode
    assert mallory.run(f"echo forged > {contact}", check=False).returncode
    own = "test -e own || ssh-keygen -q -t ed25519 -N '' -f own </dev/null >/dev/null; "
    login = f"ssh -F /dev/null -o StrictHostKeyChecking=no -o BatchMode=yes -i own -p {port}"
    for who in (bob.name, mallory.name, "root"):
        tried = mallory.run(f"{own}{login} {who}@{address} id", check=False)
        assert tried.returncode and "uid=" not in tried.stdout, who
        assert "Permission denied" in tried.stderr, who
    bob.run("touch go")
    place.pool.until("node 0 knows the others", (bob.home / "told").exists, limit_s=2 * LIMIT_S)
    assert not left("*.key") and not left("*.contact"), "they are gone once they have been read"
    bob.run("touch end")
    log = bob.home / "log"
    place.pool.until("the job ends", lambda: f"005 ({int(cluster):03d}" in log.read_text(), limit_s=2 * LIMIT_S)
    listening = subprocess.run(["ss", "-tln"], capture_output=True, text=True, check=True).stdout
    assert f":{port} " not in listening, "its sshd ends with the job"
