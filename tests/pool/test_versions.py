"""Daemons of the former version and of this one work together, and a pool is upgraded under its running jobs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.daemon import process
from slotwise.wire import address

from tests.support import former, host
from tests.support.certificates import Authority, full_name
from tests.support.former import PoolOf
from tests.support.ports import free_port

pytestmark = [
    host.needs(host.own_name),
]

COMMON = """
UID_DOMAIN = example.org
SLOTWISE_LISTEN = 0.0.0.0
AUTH_SSL_SERVER_CERTFILE = {tls}/server.pem
AUTH_SSL_SERVER_KEYFILE = {tls}/server.key
AUTH_SSL_CLIENT_CAFILE = {tls}/ca.pem
NUM_CPUS = 4
NEGOTIATOR_INTERVAL = 5
"""
CENTRAL = (
    "DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD\nCOLLECTOR_HOST = localhost:0\nSLOTWISE_COLLECTOR_PORT = 0\n"
)
EXECUTES = "DAEMON_LIST = MASTER, STARTD\nCOLLECTOR_HOST = {name}:{port}\nFILESYSTEM_DOMAIN = elsewhere\n"
#: Two pools on one host cannot share port 9618.
SHARED_PORT = "SHARED_PORT_PORT = {port}\n"
JOB = """executable = job.sh
transfer_input_files = input
output = {name}.out
log = {name}.log
should_transfer_files = yes
queue
"""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of the former version."""
    if former.wheel() is None:
        pytest.skip(f"needs a wheel of the former version: {former.VARIABLE}, or make former")
    return former.installed(tmp_path_factory.mktemp("former"))


@pytest.fixture
def root() -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def submit(pool: PoolOf, name: str, script: str) -> str:
    (pool.root / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
    (pool.root / "job.sh").chmod(0o755)
    (pool.root / "input").write_text("some input\n")
    (pool.root / f"{name}.sub").write_text(JOB.format(name=name))
    return pool.run("submit", f"{name}.sub").stdout.rpartition("cluster ")[2].strip(". \n")


def let_go(pool: PoolOf) -> None:
    """Have the job that runs in a pool end."""
    (file,) = pool.home.execute.glob("dir_*/**/input")
    (file.parent / "go").touch()


def status_of(pool: PoolOf, cluster: str) -> str:
    return pool.run("q", cluster, "-af", "JobStatus").stdout.strip()


def port_of_its_own() -> str:
    """Starters of the former version look for a schedd at the address that they know."""
    return f"SLOTWISE_SCHEDD_PORT = {free_port()}\n" + SHARED_PORT.format(port=free_port())


@pytest.mark.parametrize("which", ["access point", "execution point", "neither"])
def test_an_execution_point_serves_an_access_point_of_another_version(
    root: Path, request: pytest.FixtureRequest, which: str
) -> None:
    authority = Authority(root / "tls")
    authority.issue("server")
    common = COMMON.format(tls=authority.directory)
    old = sys.executable if which == "neither" else request.getfixturevalue("old")
    pythons = (old, sys.executable) if which == "access point" else (sys.executable, old)
    ports = port_of_its_own() if which == "execution point" else "USE_SHARED_PORT = false\n"
    ap = PoolOf(root / "ap", common + CENTRAL + ports, pythons[0])
    ep = None
    try:
        ap.up()
        port = address.lookup(ap.home, "collector").tcp.rpartition(":")[2]
        executes = EXECUTES.format(name=full_name(), port=port) + SHARED_PORT.format(port=free_port())
        ep = PoolOf(root / "ep", common + executes, pythons[1])
        asked = re.search(r"request (\d+), code", ep.run("up").stderr)
        assert asked, ep.logs()
        ap.run("token", "approve", asked[1])
        ap.until("there is a slot", lambda: ap.run("status", "-af", "Name").stdout)

        first = submit(ap, "first", "cat input; echo done")
        ap.until("the job has run", lambda: not status_of(ap, first))
        assert (ap.root / "first.out").read_text() == "some input\ndone\n"

        # A job outlives the schedd, and the startd and starter, of either version.
        second = submit(ap, "second", "while ! test -e go; do sleep 0.1; done; cat input")
        ap.until("the job runs", lambda: status_of(ap, second) == "2")
        before = address.lookup(ap.home, "schedd").tcp
        ap.kill("schedd")
        for name in ("startd", "starter"):
            ep.kill(name)
        ap.until("all are back", lambda: ap.answers("schedd") and ep.answers("startd") and ep.answers("starter"))
        ap.until("the slot is claimed again", lambda: "Claimed" in ap.run("status", "-af", "State").stdout)
        let_go(ep)
        ap.until("the job has run", lambda: not status_of(ap, second))
        assert (ap.root / "second.out").read_text() == "some input\n"
        told = (ap.root / "second.log").read_text()
        assert told.count("Job executing") == 1 and "Job was evicted" not in told

        assert (address.lookup(ap.home, "schedd").tcp == before) is (which == "execution point")

        third = submit(ap, "third", "sleep 1000")
        ap.until("the job runs", lambda: status_of(ap, third) == "2")
        ap.run("rm", third)
        ap.until("the slot is free", lambda: not list(ep.home.execute.glob("dir_*")))
    finally:
        for pool in (ep, ap):
            if pool is not None:
                pool.destroy()


def test_a_pool_of_the_former_version_is_upgraded_under_a_running_job(root: Path, old: str) -> None:
    before = PoolOf(root / "pool", "NUM_CPUS = 4\n", old)
    after = PoolOf(root / "pool", "NUM_CPUS = 4\n", sys.executable)
    try:
        before.up()
        cluster = submit(before, "kept", "while ! test -e go; do sleep 0.1; done; cat input")
        before.until("the job runs", lambda: status_of(before, cluster) == "2")
        former_pids = before.pids()
        after.run("restart", "--keep", "master")
        after.run("restart", "--keep")
        assert not any(map(process.alive, former_pids.values())), "no process of the former version is left"
        assert status_of(after, cluster) == "2"
        let_go(after)
        after.until("the job has run", lambda: not status_of(after, cluster))
        told = (after.root / "kept.log").read_text()
        assert told.count("Job executing") == 1 and "Job was evicted" not in told
        assert (after.root / "kept.out").read_text() == "some input\n"
    finally:
        after.destroy()
