"""The guide on pools of several hosts, followed in network namespaces: hosts that share a wire, and TLS on it."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.accounts import HostUser, host_users
from tests.support.host import needs, network_namespaces
from tests.support.namespaces import Host, wired
from tests.support.open_installation import opened
from tests.support.several_hosts import DAEMONS, certificates, config, join, kinds, run_job
from tests.support.waiting import LIMIT_S

pytestmark = [
    pytest.mark.host,
    needs(network_namespaces),
]


@pytest.fixture
def hosts() -> Iterator[dict[str, Host]]:
    """Three hosts on one wire, nothing started."""
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        place = Path(directory)
        place.chmod(0o755)
        tls = place / "tls"
        certificates(tls)
        with wired({name: config(name, daemons, tls) for name, daemons in DAEMONS.items()}) as made:
            yield made


def test_the_guide_makes_a_pool_that_runs_jobs_over_tls(hosts: dict[str, Host]) -> None:
    cm, ap, ep = hosts.values()
    cm.up()
    for host in (ap, ep):
        said = host.run("up").stderr
        asked = re.search(r"request (\d+), code (\S+)\.", said)
        assert asked, said
        assert f'Code = "{asked[2]}"' in cm.run("token", "requests").stdout
        assert kinds(host) == set(), "a host that nobody has approved sees nothing of the pool"
        cm.run("token", "approve", asked[1])
        host.until("the host has joined", lambda at=host: (at.home.secrets / "host.token").exists())
        assert not (host.home.secrets / "signing").exists()
    ep.until("all have advertised", lambda: kinds(ap) >= {"Scheduler", "Machine", "Negotiator", "Collector"})
    assert run_job(ap, "first") == "ep.example\n"

    # The central manager may go and come back: what runs goes on, what is new waits for it.
    before = cm.pid("collector")
    cm.kill("collector")
    cm.kill("negotiator")
    cm.until("the collector is back", lambda: cm.pid("collector") not in (None, before))
    assert run_job(ap, "second") == "ep.example\n"

    # A host with another key is no part of the pool.
    ep.down()
    (ep.home.secrets / "host.pem").unlink()
    ep.up()
    refused = ep.run("status", "-any", check=False)
    assert refused.returncode == 1 and "not valid in this pool" in refused.stderr
    # Nor is one that trusts another authority.
    ep.config_file.write_text(ep.config_file.read_text().replace("/ca.pem", "/ep.pem"))
    doubted = ep.run("status", "-any", check=False)
    assert doubted.returncode == 1 and "does not answer" in doubted.stderr
    for host in (ap, cm):
        host.down()


def test_users_without_a_token_see_the_pool_from_an_access_point(hosts: dict[str, Host]) -> None:
    cm, ap, _ = hosts.values()
    with host_users("alice", "banned") as (alice, banned):
        ban = f"DENY_READ = {banned.name}@example\n"
        cm.config_file.write_text(cm.config_file.read_text() + ban)
        cm.up()
        said = ap.run("up").stderr
        asked = re.search(r"request (\d+), code (\S+)\.", said)
        assert asked, said
        cm.run("token", "approve", asked[1])
        ap.until("all have advertised", lambda: kinds(ap) >= {"Scheduler", "Negotiator", "Collector"})

        def by(who: HostUser, *words: str) -> subprocess.CompletedProcess[str]:
            drop = ["setpriv", "--reuid", str(who.uid), "--regid", str(who.gid), "--clear-groups"]
            env: dict[str, Any] = {"HOME": str(who.home), "_CONDOR_SLOTWISE_MIN_UID": "100"}
            return ap.run_by([*(opened() or []), *drop], *words, check=False, cwd=who.home, **env)

        (alice.home / "job.sub").write_text("executable = /bin/true\nqueue\n")
        submitted = by(alice, "submit", "job.sub")
        assert submitted.returncode == 0, submitted.stderr
        # Root asks with the host's own proof.
        ap.until("they have a priority", lambda: alice.name in ap.run("userprio", "-allusers").stdout)
        for words, shown in (
            (("status", "-any", "-af", "MyType"), "Scheduler"),
            (("status", "-schedd"), "ap.example"),
            (("q", "-global", "-af", "Owner"), alice.name),
            (("analyze", "1.0"), "Job 1.0"),
            (("q", "-better-analyze", "1.0"), ""),
            (("userprio", "-allusers"), f"{alice.name}@"),
            (("negotiator", "last"), "access points"),
        ):
            done = by(alice, *words)
            told = done.stdout if shown else done.stderr
            assert "carries no token" not in done.stderr and (shown or "no slots to look at") in told, (words, done)

        # The lists of the central manager count for whom the question is asked, and so do those of this host.
        refused = by(banned, "status", "-any")
        assert refused.returncode and f"DENY_READ ({banned.name}@example)" in refused.stderr
        ap.config_file.write_text(ap.config_file.read_text() + f"DENY_READ = {alice.name}@example\n")
        ap.run("reconfig")
        refused = by(alice, "status", "-any")
        assert refused.returncode and f"{alice.name}@example may not call Collector/Query" in refused.stderr
        # Nothing but questions is passed on, and root's own proof is as before.
        (alice.home / "ad").write_text('MyType = "Generic"\nName = "x"\n')
        assert by(alice, "advertise", "UPDATE_AD_GENERIC", "ad").returncode
        assert "Scheduler" in ap.run("status", "-any", "-af", "MyType").stdout
        for host in (ap, cm):
            host.down()


def _key_of(token: str) -> str:
    from slotwise.wire.token import peek

    return str(peek(token.strip())[0]["kid"])


def test_revocations_and_new_keys_reach_all_hosts(hosts: dict[str, Host]) -> None:
    """By id and by expression; and the pool's first key goes, without a stop, once all have asked again."""
    cm, ap, ep = hosts.values()
    join(cm, ap, ep)
    ep.until("all have advertised", lambda: kinds(ap) >= {"Scheduler", "Machine", "Negotiator", "Collector"})
    asked = {"ap": ("q", "-name", "ap.example"), "ep": ("status", "-direct", "ep.example")}

    def said(token: str) -> list[str]:
        """What the hosts say to someone elsewhere who shows a token; nothing where all is well."""
        shown: dict[str, Any] = {"SLOTWISE_TOKEN_FILE": str(cm.root / token)}
        done = [cm.run(*words, check=False, **shown) for words in asked.values()]
        return [each.stderr if each.returncode else "" for each in done]

    def ask_again() -> None:
        for host in (ap, ep):
            host.run("reconfig")  # without, within half a minute

    def make(name: str) -> None:
        user = name.rstrip("123")
        cm.run("token", "create", "--identity", f"{user}@example", "--scope", "READ", "--file", str(cm.root / name))

    for name in ("ann1", "ann2", "bob"):
        make(name)
    assert said("ann1") == said("bob") == ["", ""]
    cm.run("token", "revoke", "-file", str(cm.root / "ann1"))
    with cm.config_file.open("a") as config_file:
        config_file.write('SEC_TOKEN_REVOCATION_EXPR = sub == "bob@example"\n')
    cm.run("reconfig")
    ask_again()
    for name in ("ann1", "bob"):
        ap.until("all refuse it", lambda: all("has been revoked" in why for why in said(name)))  # noqa: B023
    assert said("ann2") == ["", ""]

    (first,) = (cm.home.secrets / "signing").glob("*.pem")
    cm.run("token", "keys", "--rotate")
    (second,) = set((cm.home.secrets / "signing").glob("*.pem")) - {first}
    for path, age_s in ((first, 2000), (second, 1000)):  # all hosts have had the time to hear of it
        os.utime(path, (time.time() - age_s,) * 2)
    cm.run("restart", "collector")
    before = {host: _key_of((host.home.secrets / "host.token").read_text()) for host in (ap, ep)}
    assert set(before.values()) == {first.stem}
    ask_again()
    for host in (ap, ep):
        token = host.home.secrets / "host.token"
        host.until("its token is signed with the new key", lambda at=token: _key_of(at.read_text()) == second.stem)
    everything = {"Scheduler", "Machine", "Negotiator", "Collector"}
    ap.until("all have advertised to the new collector", lambda: kinds(ap) >= everything)
    make("ann3")
    assert _key_of((cm.root / "ann3").read_text()) == second.stem
    assert said("ann2") == said("ann3") == ["", ""]
    pids = {name: host.pids() for name, host in hosts.items()}
    cm.run("token", "keys", "--remove", first.stem)
    ask_again()
    ap.until("all refuse what the former key signed", lambda: all(said("ann2")))
    assert run_job(ap, "third") == "ep.example\n"
    assert {name: hosts[name].pids() for name in ("ap", "ep")} == {name: pids[name] for name in ("ap", "ep")}
    for host in hosts.values():
        host.down()


@pytest.mark.parametrize("shared", [True, False], ids=["one port a host", "a port for each daemon"])
def test_daemons_that_come_back_at_other_ports_find_what_runs(hosts: dict[str, Host], shared: bool) -> None:
    """Ports are of the system's choice, as in the guide: none comes back where it was."""
    cm, ap, ep = hosts.values()
    for host in hosts.values():
        further = f"USE_SHARED_PORT = {shared}\nMOUNT_UNDER_SCRATCH =\nMASTER_BACKOFF_CONSTANT = 1\n"
        host.config_file.write_text(host.config_file.read_text() + further)
    join(cm, ap, ep)
    ep.until("all have advertised", lambda: kinds(ap) >= {"Scheduler", "Machine", "Negotiator", "Collector"})
    for killed in (("schedd",), ("startd",), ("starter",), ("schedd", "startd", "starter")):
        name = "-".join(killed)
        go = Path(ep.root.parent, f"go-{name}")
        (ap.root / f"{name}.sub").write_text(
            f"executable = /bin/sh\narguments = \"-c 'until [ -e {go} ]; do sleep 0.1; done; hostname'\"\n"
            f"output = {name}.$(Process).out\nlog = {name}.log\nrequest_disk = 10M\nqueue 2\n"
        )
        ap.run("submit", f"{name}.sub")
        log = ap.root / f"{name}.log"
        ap.until("both run", lambda log=log: log.read_text().count("Job executing") == 2)
        for daemon in killed:
            (ap if daemon == "schedd" else ep).kill(daemon)
        for daemon in killed:
            at = ap if daemon == "schedd" else ep
            at.until(f"the {daemon} is back", lambda at=at, daemon=daemon: at.answers(daemon))
        go.touch()
        ap.run("wait", "-wait", str(int(LIMIT_S)), f"{name}.log")
        text = log.read_text()
        assert text.count("Job terminated") == 2, (name, text)
        assert text.count("Job executing") == 2, (name, text)
        assert [(ap.root / f"{name}.{number}.out").read_text() for number in (0, 1)] == ["ep.example\n"] * 2
    for host in (ep, ap, cm):
        host.down()


def test_runs_go_on_when_the_addresses_of_hosts_change(hosts: dict[str, Host]) -> None:
    """As with another lease of DHCP: the hosts keep their names, connections to the former addresses are dead."""
    cm, ap, ep = hosts.values()
    for host in hosts.values():
        host.config_file.write_text(host.config_file.read_text() + "MOUNT_UNDER_SCRATCH =\n")
    join(cm, ap, ep)
    ep.until("all have advertised", lambda: kinds(ap) >= {"Scheduler", "Machine", "Negotiator", "Collector"})
    go = Path(ep.root.parent, "go")
    (ap.root / "job.sub").write_text(
        f"executable = /bin/sh\narguments = \"-c 'until [ -e {go} ]; do sleep 0.1; done; hostname'\"\n"
        f"output = job.out\nlog = job.log\nrequest_disk = 10M\nqueue\n"
    )
    ap.run("submit", "job.sub")
    log = ap.root / "job.log"
    ap.until("it runs", lambda: "Job executing" in log.read_text())
    ep.renumber(32)
    ap.renumber(33)
    go.touch()
    # A keepalive finds out, after up to a minute and 20 s.
    ap.run("wait", "-wait", str(int(3 * LIMIT_S)), log.name, timeout=4 * LIMIT_S)
    text = log.read_text()
    assert (text.count("Job executing"), text.count("Job terminated")) == (1, 1), text
    assert (ap.root / "job.out").read_text() == "ep.example\n"
    for host in (ep, ap, cm):
        host.down()
