"""Common input files on a host that two access points share: each user of each has sets of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.accounts import HostUser, host_users
from tests.support.host import needs, network_namespaces
from tests.support.namespaces import Host, wired
from tests.support.open_installation import opened
from tests.support.several_hosts import DAEMONS, certificates, config, join, kinds

pytestmark = [pytest.mark.host, needs(network_namespaces)]

_DAEMONS = {"cm": DAEMONS["cm"], "ap": DAEMONS["ap"], "aq": DAEMONS["ap"], "ep": DAEMONS["ep"]}
_MORE = "KEEP_DATA_CLAIM_IDLE = 3600\nMOUNT_UNDER_SCRATCH =\nSLOTWISE_MIN_UID = 100\nNUM_CPUS = 4\n"
_JOBS = """executable = /bin/cat
arguments = common
transfer_executable = false
should_transfer_files = yes
transfer_common_input = common
output = {ap}.$(Process)
log = {ap}.log
request_memory = 1
request_disk = 1M
queue 2
"""


def _submit(ap: Host, who: HostUser) -> None:
    (who.home / f"{ap.name}.sub").write_text(_JOBS.format(ap=ap.name))
    drop = ["setpriv", "--reuid", str(who.uid), "--regid", str(who.gid), "--clear-groups"]
    env: dict[str, Any] = {"HOME": str(who.home)}
    done = ap.run_by([*(opened() or []), *drop], "submit", f"{ap.name}.sub", check=False, cwd=who.home, **env)
    assert done.returncode == 0, done.stderr


def test_each_user_of_each_access_point_has_a_set_of_its_own() -> None:
    """Files of the same name, and for one user the same files by two access points; all jobs run on one host."""
    with tempfile.TemporaryDirectory(prefix="sw-") as directory, host_users("alice", "bob") as users:
        place = Path(directory)
        place.chmod(0o755)
        tls = place / "tls"
        certificates(tls, _DAEMONS)
        texts = {name: config(name, daemons, tls) + _MORE for name, daemons in _DAEMONS.items()}
        with wired(texts) as hosts:
            cm, ap, aq, ep = hosts.values()
            join(cm, ap, aq, ep)
            ep.until("all have advertised", lambda: kinds(ap) >= {"Scheduler", "Machine", "Negotiator", "Collector"})
            for user in users:
                (user.home / "common").write_text(f"{user.name}'s\n")
                for at in (ap, aq):
                    _submit(at, user)
            outputs = {user.home / f"{at.name}.{proc}": user for user in users for at in (ap, aq) for proc in range(2)}
            ep.until(
                "all have ended",
                lambda: all(
                    (user.home / f"{at.name}.log").read_text().count("Job terminated.") == 2
                    for user in users
                    for at in (ap, aq)
                ),
            )
            assert {path.read_text() for path in outputs} == {f"{user.name}'s\n" for user in users}
            assert all(path.read_text() == f"{user.name}'s\n" for path, user in outputs.items())
            sets = sorted((ep.home.execute / "common_inputs").glob("*"))
            assert sorted((kept / "common").read_text() for kept in sets) == sorted(
                f"{user.name}'s\n" for user in users for _ in (ap, aq)
            ), "a set for each user of each access point"
            for host in hosts.values():
                host.down()
