"""A pool whose central manager, access points and execution points are hosts of their own, with TLS on their wire."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.namespaces import Host
from tests.support.waiting import LIMIT_S

#: What is in the configuration of each host.
COMMON = """
CONDOR_HOST = cm.example
UID_DOMAIN = example
SLOTWISE_LISTEN = 0.0.0.0
NUM_CPUS = 2
AUTH_SSL_SERVER_CERTFILE = {tls}/{host}.pem
AUTH_SSL_SERVER_KEYFILE = {tls}/{host}.key
AUTH_SSL_CLIENT_CAFILE = {tls}/ca.pem
DAEMON_LIST = {daemons}
SLOTWISE_START_TIMEOUT = {start_s:g}
# A job that comes before the slot of the one before is told to be free waits for the next cycle.
NEGOTIATOR_INTERVAL = 5
"""
DAEMONS = {"cm": "MASTER, COLLECTOR, NEGOTIATOR", "ap": "MASTER, SCHEDD", "ep": "MASTER, STARTD"}


def certificates(tls: Path, names: Iterable[str] = DAEMONS) -> None:
    """Fill the directory with what :func:`config` names, for the hosts of these names."""
    authority = Authority(tls)
    for name in names:
        authority.issue(name, host=f"{name}.example")


def config(name: str, daemons: str, tls: Path) -> str:
    """The text of a host's configuration; the central manager is ``cm``."""
    return COMMON.format(tls=tls, host=name, daemons=daemons, start_s=LIMIT_S)


def join(cm: Host, *others: Host) -> None:
    """Start the hosts, and approve them."""
    cm.up()
    for host in others:
        said = host.run("up").stderr
        asked = re.search(r"request (\d+), code", said)
        assert asked, f"{said}\n{host.logs()}"
        cm.run("token", "approve", asked[1])
        host.until("the host has joined", lambda at=host: (at.home.secrets / "host.token").exists())


def kinds(host: Host) -> set[str]:
    """``MyType`` of all ads in the collector, as the host sees them."""
    done = host.run("status", "-any", "-af", "MyType", check=False)
    return set(done.stdout.split())


def run_job(ap: Host, name: str) -> str:
    """What a job's output says on which host it ran."""
    # The usual request of 1 GiB of disk is more than a host with a small /tmp has.
    text = f"executable = /bin/hostname\noutput = {name}.out\nlog = {name}.log\nrequest_disk = 10M\nqueue\n"
    (ap.root / f"{name}.sub").write_text(text)
    ap.run("submit", f"{name}.sub")
    ap.run("wait", "-wait", str(int(LIMIT_S)), f"{name}.log")
    return (ap.root / f"{name}.out").read_text()
