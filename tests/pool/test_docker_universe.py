"""Docker universe from `submit` to the end in a real pool: services, `tail`, `ssh-to-job`, and why no slot matches."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import host
from tests.support.containers import IMAGE, Engine, docker_daemon
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

_JOB = """
universe = docker
docker_image = {image}
executable = /bin/sh
transfer_executable = false
arguments = "-c 'echo out; echo inner > here; head -c 200000 /dev/zero | nc -l -p 8080; \\
while [ ! -e over ]; do sleep 0.1; done; cat here; exit 4'"
container_service_names = web, ssh
web_container_port = 8080
ssh_container_port = 22
output = out
error = err
log = log
request_memory = 16M
queue
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    host.need(host.docker_with_network)
    with docker_daemon(bridge=True) as found:
        yield found


@pytest.fixture(scope="module")
def pool(engine: Engine) -> Iterator[Pool]:
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        made = Pool(
            Path(directory) / "p",
            "NUM_CPUS = 2\nDOCKER_TRUST_LOCAL_IMAGES = true\nSTARTER_UPDATE_INTERVAL = 1\n"
            f"STARTER_INITIAL_UPDATE_INTERVAL = 1\nDOCKER = {engine.program}\n",
        )
        made.env |= engine.env
        (made.root / "job.sub").write_text(_JOB.format(image=IMAGE))
        made.up()
        try:
            yield made
        finally:
            made.destroy()


def test_a_docker_job_from_submit_to_its_end(pool: Pool, engine: Engine) -> None:
    job = pool.run("submit", "-terse", "job.sub").stdout.split()[0]
    pool.until("the job printed", lambda: "out" in pool.run("tail", "-auto-retry", job).stdout)

    def port(name: str) -> str:
        return pool.run("q", job, "-af", f"{name}_HostPort").stdout.strip()

    pool.until("the ports are told", lambda: port("web").isdigit() and port("ssh").isdigit())
    assert port("web") != port("ssh")
    assert len(engine.receive(int(port("web")))) == 200_000, "the service is reached"

    def network(way: str) -> float:
        said = pool.run("q", job, "-af", f"Network{way}Mb").stdout.strip()
        return 0.0 if said == "undefined" else float(said)

    pool.until("what went over the network is told", lambda: network("Output") >= 0.2)
    assert 0.0 < network("Input") < 0.2
    inside = subprocess.run(
        [sys.executable, "-m", "slotwise", "ssh-to-job", job, "ls /bin/busybox; id -u; hostname; touch over"],
        env=pool.env, cwd=pool.root, input="", capture_output=True, text=True, timeout=2 * LIMIT_S, check=False,
    )  # fmt: skip
    lines = inside.stdout.split()
    assert lines[0] == "/bin/busybox" and lines[1] != "0", inside.stderr
    pool.until("the job has ended", lambda: pool.run("q", job, "-af", "ClusterId").stdout.strip() == "")
    (ended,) = pool.json("history", job)
    assert ended["ExitCode"] == 4 and ended["DockerImage"] == IMAGE and ended.get("web_HostPort") is None
    assert ended["NetworkOutputMb"] >= 0.2
    assert (pool.root / "out").read_text() == "out\ninner\n"
    assert engine.containers() == []


def test_why_no_slot_has_docker(pool: Pool) -> None:
    text = (pool.root / "job.sub").read_text().replace("queue", "docker_network_type = private\nqueue")
    (pool.root / "other.sub").write_text(text)
    job = pool.run("submit", "-terse", "other.sub").stdout.split()[0]
    said = pool.run("q", "-better-analyze", job, check=False).stdout + pool.run("analyze", job, check=False).stdout
    assert "DockerNetworks" in said
    pool.run("rm", job)
