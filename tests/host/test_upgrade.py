"""``slotwise node upgrade`` of several hosts: in turn, until one fails, and on from there, under a running job."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import slotwise

from tests.support.host import needs, network_namespaces, programs
from tests.support.namespaces import Host, wired
from tests.support.waiting import LIMIT_S

pytestmark = [
    pytest.mark.host,
    needs(network_namespaces, programs("dpkg-deb")),
]

#: Takes a host and a command line, as ssh does. What "installs" there is that commands and daemons are of NEW from then
#: on: the package's own scripts are tried where it is installed (packaging/check.py).
SSH = """#!/bin/sh
set -e
host=$1; shift
[ ! -e {root}/$host.closed ] || {{ echo "no route to $host" >&2; exit 255; }}
echo "$host" >> {root}/visited
export SLOTWISE_HOME={root}/${{host%%.*}}/home PATH={root}/bin:$PATH PYTHONPATH={new}
enter='mount --bind {root}/hosts /etc/hosts && hostname "$1" && exec sh -c "$2"'
exec ip netns exec {prefix}${{host%%.*}} unshare -u sh -c "$enter" sh "$host" "$*"
"""
PROGRAM = """#!/bin/sh
set -e
[ "$1 $2 $3" = "node upgrade --package" ] || exec {python} -m slotwise "$@"
[ "$(dpkg-deb -f "$4" Version)" = 9.9.9-1 ]
{python} -m slotwise restart --keep master
{python} -m slotwise restart --keep
"""
#: On the command's own host, where the new version's package is installed without ssh.
APT_GET = """#!/bin/sh
set -e
[ "$1 $2" = "install -y" ] && echo own >> {root}/visited
export PYTHONPATH={new}
{python} -m slotwise restart --keep master
{python} -m slotwise restart --keep
"""
SUDO = """#!/bin/sh
[ "$1" = -n ] && shift && echo "by sudo" >> {root}/visited && exec "$@"
"""


@pytest.fixture
def hosts() -> Iterator[dict[str, Host]]:
    """Three hosts that have joined a pool."""
    with wired(dict.fromkeys(("cm", "ap", "ep"), "")) as made:
        for host in made.values():
            host.config_file.unlink()
            del host.env["CONDOR_CONFIG"]
            host.env |= {"_CONDOR_NUM_CPUS": "2", "_CONDOR_SLOTWISE_START_TIMEOUT": f"{LIMIT_S:g}"}
        cm, *others = made.values()
        cm.run("node", "install", "--role", "cm")
        cm.run("node", "token", "--role", "ap", "--role", "ep", "--uses", "2", "--file", str(cm.root / "join"))
        for host in others:
            host.run("node", "install", "--role", host.name, "--token-file", str(cm.root / "join"))
        yield made


def _package(root: Path) -> Path:
    control = root / "package" / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    control.write_text("Package: slotwise\nVersion: 9.9.9-1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n")
    made = root / "slotwise new.deb"
    subprocess.run(["dpkg-deb", "--build", str(root / "package"), str(made)], check=True, capture_output=True)
    return made


def _next_version(root: Path) -> Path:
    """A copy of the installation that says it is of another version."""
    new = root / "new"
    here = Path(slotwise.__file__).parent
    shutil.copytree(here, new / "slotwise", ignore=shutil.ignore_patterns("__pycache__"))
    file = new / "slotwise" / "__init__.py"
    text = file.read_text()
    assert "from slotwise._native import __version__" in text
    file.write_text(text.replace("from slotwise._native import __version__", '__version__ = "9.9.9"'))
    return new


def test_hosts_are_upgraded_in_turn_until_one_fails_and_on_from_there(hosts: dict[str, Host]) -> None:
    cm, ap, ep = hosts.values()
    root = cm.root.parent
    (root / "bin").mkdir()
    prefix = cm.namespace.removesuffix("cm")
    new, python = _next_version(root), shlex.quote(sys.executable)
    texts = {
        "ssh": SSH.format(root=root, new=new, prefix=prefix),
        "slotwise": PROGRAM.format(python=python),
        "apt-get": APT_GET.format(root=root, new=new, python=python),
        "sudo": SUDO.format(root=root),
    }
    for name, text in texts.items():
        (root / "bin" / name).write_text(text)
        (root / "bin" / name).chmod(0o755)
    package = ("--package", str(_package(root)), "--ssh", str(root / "bin" / "ssh"), "--wait", f"{int(LIMIT_S)}s")
    names = ("ep.example", "ap.example")

    ap.until("there is a machine", lambda: ap.run("status", "-af", "Name", check=False).stdout)
    long = "executable = /bin/sleep\narguments = 1000\nlog = long.log\nrequest_disk = 10M\nqueue\n"
    (ap.root / "long.sub").write_text(long)
    ap.run("submit", "long.sub")
    ap.until("it runs", lambda: "Job executing" in (ap.root / "long.log").read_text())

    planned = cm.run("node", "upgrade", "--all", *package, "--dry-run").stdout.splitlines()
    assert [line.split()[0] for line in planned] == ["cm.example", "ap.example", "ep.example"]
    assert all(line.endswith("-> 9.9.9") for line in planned) and not (root / "visited").exists()
    unknown = cm.run("node", "upgrade", "none.example", *package, check=False)
    assert unknown.returncode and "has admitted no host none.example" in unknown.stderr

    (root / "ep.example.closed").touch()
    failed = cm.run("node", "upgrade", *names, *package, check=False)
    assert failed.returncode == 1, failed
    assert "no route to ep.example" in failed.stderr and "Not upgraded: ep.example." in failed.stderr, failed.stderr
    assert "ap.example:" in failed.stdout and "-> 9.9.9" in failed.stdout
    assert (root / "visited").read_text() == "ap.example\n", "the access point first, whatever the order of the words"

    (root / "ep.example.closed").unlink()
    done = cm.run("node", "upgrade", *names, *package)
    assert "1 hosts run 9.9.9 already." in done.stdout and "ep.example:" in done.stdout, done.stdout
    assert (root / "visited").read_text() == "ap.example\nep.example\n"
    versions = {node["Host"]: node["Version"] for node in cm.json("node", "list")}
    assert versions["ap.example"] == versions["ep.example"] == "9.9.9" != versions["cm.example"]
    assert ap.run("q", "-af", "JobStatus").stdout == "2\n"
    assert (ap.root / "long.log").read_text().count("Job executing") == 1, "it has run on"
    ap.run("rm", "-all")

    # All of them, this one first: what is left is done by the new program. The execution point is empty meanwhile.
    (root / "visited").unlink()
    path = f"{root / 'bin'}:{os.environ['PATH']}"
    everything = cm.run("node", "upgrade", "--all", "--again", "--drain", "--sudo", *package, PATH=path).stdout
    assert (root / "visited").read_text().split("\n") == [
        "own", "ap.example", "by sudo", "ep.example", "by sudo", ""
    ], everything  # fmt: skip
    assert {node["Version"] for node in cm.json("node", "list")} == {"9.9.9"}
    found = [line for line in everything.splitlines() if "-> 9.9.9" in line]
    assert [line.split(":")[0] for line in found] == ["cm.example", "ap.example", "ep.example"], everything
    ap.until("it takes jobs again", lambda: "Unclaimed" in ap.run("status", "-af", "State", check=False).stdout)
    log = ep.home.log / "StartLog"
    ep.until("its log says that it was drained", lambda: "drained gracefully: upgrade" in log.read_text())
    ep.until("and that this was cancelled", lambda: "cancelled by command" in log.read_text())
