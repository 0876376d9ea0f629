"""``slotwise node``, from the first host of a pool to its end, on hosts that are network namespaces."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from slotwise.wire import authority
from slotwise.wire.address import lookup

from tests.support.host import needs, network_namespaces
from tests.support.namespaces import Host, wired
from tests.support.several_hosts import kinds, run_job
from tests.support.waiting import LIMIT_S, PATIENCE

pytestmark = [
    pytest.mark.host,
    pytest.mark.timeout(500 * PATIENCE),
    needs(network_namespaces),
]

_ASK = """
import sys
from slotwise.client.schedd import Schedd
from slotwise.errors import SlotwiseError
try:
    with Schedd(address=sys.argv[1]) as schedd:
        print(len(schedd.query()))
except SlotwiseError as error:
    print(error)
"""

_SHOWN = """
import sys
from slotwise.wire import authority
print(authority.certificate_of_server(sys.argv[1], int(sys.argv[2])), end="")
"""


@pytest.fixture
def hosts() -> Iterator[dict[str, Host]]:
    """Three hosts on one wire, without a configuration."""
    with wired(dict.fromkeys(("cm", "ap", "ep"), "")) as made:
        for host in made.values():
            host.config_file.unlink()
            del host.env["CONDOR_CONFIG"]
            host.env |= {"_CONDOR_NUM_CPUS": "2", "_CONDOR_SLOTWISE_START_TIMEOUT": f"{LIMIT_S:g}"}
        yield made


def _joined_by_approval(cm: Host, host: Host, *words: str, typed: str = "") -> str:
    """Have a host ask for its place, and approve it; returns what the host said.

    :param typed: what somebody types at the host's terminal.
    """
    here, there = os.openpty()
    os.write(here, typed.encode())
    with tempfile.TemporaryFile("w+") as output:
        asking = host.start("node", "install", *words, output=output, terminal=there if typed else None)
        try:

            def code() -> str | None:
                output.seek(0)
                found = re.search(r"slotwise node approve (\S+)", output.read())
                assert found or asking.poll() is None, host.logs()
                return found and found[1]

            shown = host.until("a code is shown", code)
            (waiting,) = cm.json("node", "requests")
            assert (waiting["Code"], waiting["Host"]) == (shown, f"{host.name}.example")
            cm.run("node", "approve", shown)
            asking.wait(2 * LIMIT_S)
        finally:
            asking.kill()
            asking.wait()
            os.close(here)
            os.close(there)
        output.seek(0)
        said = output.read()
    assert asking.returncode == 0, f"{said}\n{host.logs()}"
    return said


def _files(host: Host) -> set[str]:
    return {str(path.relative_to(host.home.root)) for path in host.home.root.rglob("*") if path.is_file()}


def _states(cm: Host) -> dict[str, str]:
    return {node["Host"]: node["State"] for node in cm.json("node", "list", "--removed")}


def test_hosts_join_run_a_job_over_tls_and_are_removed(hosts: dict[str, Host]) -> None:
    cm, ap, ep = hosts.values()
    said = cm.run("node", "install", "--role", "cm").stdout
    fingerprint = cm.run("node", "fingerprint").stdout.strip()
    assert fingerprint in said and "slotwise node install --role ep --join cm.example" in said

    # Nothing is told to a central manager that nobody has confirmed, or that is another than the one meant.
    unknown = ap.run("node", "install", "--role", "ap", "--join", "cm.example", check=False)
    assert unknown.returncode and "nobody is here to confirm the fingerprint" in unknown.stderr
    wrong = "SHA256:" + "A" * 43
    other = ap.run("node", "install", "--role", "ap", "--join", "cm.example", "--fingerprint", wrong, check=False)
    assert other.returncode and "is not the central manager that is meant" in other.stderr
    by_address = ap.run("node", "install", "--role", "ap", "--join", "10.77.0.2", check=False)
    assert by_address.returncode and "is an address, not a name" in by_address.stderr
    by_alias = ap.run("node", "install", "--role", "ap", "--join", "cm", "--fingerprint", fingerprint, check=False)
    assert by_alias.returncode and "is not one for cm" in by_alias.stderr
    assert cm.json("node", "requests") == []

    said = _joined_by_approval(cm, ap, "--role", "ap", "--join", "cm.example", typed="yes\n")
    assert "Does it? [yes/no]" in said and fingerprint in said and "ap.example is in the pool." in said
    again = ap.run("node", "install", "--role", "ap", "--join", "cm.example", check=False)
    assert again.returncode and "is installed already" in again.stderr

    # One joins without a person, by a token of one use.
    token = ep.root / "join"
    cm.run("node", "token", "--role", "ep", "--lifetime", "10m", "--file", str(token))
    ep.run("node", "install", "--role", "ep", "--token-file", str(token))
    assert (ep.home.root / "tls" / "host.key").stat().st_mode & 0o777 == 0o600
    key = (ep.home.root / "tls" / "host.key").read_text()
    assert not any(key in path.read_text(errors="replace") for path in cm.home.root.rglob("*") if path.is_file())

    ap.until("all have advertised", lambda: kinds(ap) >= {"Scheduler", "Machine", "Negotiator", "Collector"})
    assert _states(cm) == {"cm.example": "up", "ap.example": "up", "ep.example": "up"}
    assert run_job(ap, "first") == "ep.example\n"
    assert cm.run("node", "drain", "ep.example").returncode == 0
    cm.until("it drains", lambda: _states(cm)["ep.example"] == "draining")
    cm.run("node", "drain", "--cancel", "ep.example")
    ap.until("the machine takes jobs again", lambda: run_job(ap, "second") == "ep.example\n")

    assert "may not call" in _asked(ep, ap)
    long = "executable = /bin/sleep\narguments = 1000\nlog = long.log\nrequest_disk = 10M\nqueue\n"
    (ap.root / "long.sub").write_text(long)
    ap.run("submit", "long.sub")
    ap.until("it runs", lambda: "Job executing" in (ap.root / "long.log").read_text())
    cm.run("node", "remove", "ep.example")
    assert _states(cm)["ep.example"] == "removed"
    assert "Machine" not in kinds(ap)
    refused = ep.run("status", "-any", check=False)
    assert refused.returncode and "has been removed from the pool" in refused.stderr
    ap.until("access points refuse it", lambda: "has been removed" in _asked(ep, ap))
    assert "Machine" not in kinds(ap), "its daemons have not come back"
    # What runs there is given up, and its job waits for another host.
    ap.until("the job is idle", lambda: ap.run("q", "-af", "JobStatus").stdout == "1\n")
    told = (ap.root / "long.log").read_text()
    assert "Job reconnection failed" in told and "The host ep.example was removed from the pool" in told
    assert "Job terminated" not in told
    # Its token is spent, its keys are revoked, and its name is free for what an administrator approves.
    back = ep.run("node", "uninstall")
    assert "is no part of the pool of cm.example:9618 any more" in back.stdout
    used = ep.run("node", "install", "--role", "ep", "--token-file", str(token), check=False)
    assert used.returncode and "has been used" in used.stderr
    _joined_by_approval(cm, ep, "--role", "ep", "--join", "cm.example", "--fingerprint", fingerprint)
    ap.until("it is back", lambda: "Machine" in kinds(ap))
    assert run_job(ap, "third") == "ep.example\n"
    ap.until("the job runs again", lambda: (ap.root / "long.log").read_text().count("Job executing") >= 2)
    ap.run("rm", "-all")

    # The end: each host is as it was, but for its queue and logs.
    refused = cm.run("node", "uninstall", check=False)
    assert refused.returncode and "2 hosts are in this pool" in refused.stderr
    for host in (ep, ap):
        assert f"{host.name}.example has left the pool" in host.run("node", "uninstall").stdout
    assert set(_states(cm).values()) == {"up", "removed"}
    cm.run("node", "uninstall")
    for host in (cm, ap, ep):
        assert host.pids() == {}
        left = {path for path in _files(host) if not path.startswith(("log/", "spool/", "run/"))}
        assert left <= {"secrets/access-point.pem", "config.d/.root.file"}, left
    assert (ap.home.spool / "job_queue.sqlite").exists() or list(ap.home.spool.iterdir())
    # With --purge nothing is left, of a pool that was made on the same host again either.
    cm.run("node", "install", "--role", "cm", "--no-start")
    cm.run("node", "uninstall", "--purge", "--yes")
    assert _files(cm) == set()


def test_certificates_renew_themselves_while_daemons_run_on(hosts: dict[str, Host]) -> None:
    cm, _, ep = hosts.values()
    life = {"_CONDOR_SLOTWISE_HOST_CERTIFICATE_LIFETIME": "15"}
    cm.env |= life
    cm.run("node", "install", "--role", "cm")
    token = ep.root / "join"
    cm.run("node", "token", "--role", "ep", "--file", str(token))
    ep.run("node", "install", "--role", "ep", "--token-file", str(token))
    before = {host: (host.pids(), (host.home.root / "tls" / "host.pem").read_text()) for host in (cm, ep)}
    for host in (cm, ep):
        host.until("its certificate is renewed", lambda at=host: _certificate(at) != before[at][1])
        ends = authority.ends_at(before[host][1])
        host.until("the next one lasts longer", lambda at=host, end=ends: authority.ends_at(_certificate(at)) > end)
    # What was issued first has ended: whoever is called now has shown a later one.
    cm.until("daemons still find each other", lambda: _states(cm) == {"cm.example": "up", "ep.example": "up"})
    # Certificates of 15 seconds may end before a busy host has put the next one in place: it is asked again.
    cm.until("the startd answers", lambda: cm.run("status", "-direct", "ep.example", check=False).returncode == 0)
    assert {host: host.pids() for host in (cm, ep)} == {host: pids for host, (pids, _) in before.items()}
    shown = cm.python(_SHOWN, "cm.example", "9618")
    assert shown.startswith("-----BEGIN") and shown not in before[cm][1]


@dataclass
class SiteAuthority:
    """A site's authority as openssl makes one: a root that everybody trusts, and one below it that signs hosts."""

    directory: Path

    def __post_init__(self) -> None:
        self.directory.mkdir()
        self._make("root", "-x509", "-days", "30", "-subj", "/CN=site root")
        self._request("below", "/CN=site authority")
        self._sign(
            "below", "root", "basicConstraints=critical,CA:true,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign"
        )

    @property
    def trusted(self) -> Path:
        """The root's certificate."""
        return self.directory / "root.pem"

    def give(self, host: Host) -> list[str]:
        """Give a host a certificate and a new key, as the site does it each time; returns options that name them."""
        name = f"{host.name}.example"
        self._request(name, f"/O=site/CN={name}")
        self._sign(name, "below", f"subjectAltName=DNS:{name}\nextendedKeyUsage=serverAuth,clientAuth")
        place = self.directory / host.name
        place.mkdir(exist_ok=True)
        chain = "".join((self.directory / f"{each}.pem").read_text() for each in (name, "below"))
        # Certificate first: for a moment it is that of another key.
        for file, text in (("host.pem", chain), ("host.key", (self.directory / f"{name}.key").read_text())):
            (place / "new").write_text(text)
            (place / "new").chmod(0o600)
            (place / "new").rename(place / file)
        pair = ["--certificate", str(place / "host.pem"), "--key", str(place / "host.key")]
        return ["--ca", "site", *pair, "--ca-file", str(self.trusted)]

    def shown(self, host: Host) -> str:
        """The certificate that was given to a host last, without what is above it."""
        return (self.directory / f"{host.name}.example.pem").read_text()

    def _make(self, name: str, *words: str) -> None:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        out = "pem" if "-x509" in words else "csr"
        self._openssl("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.{out}", *words)

    def _request(self, name: str, subject: str) -> None:
        self._make(name, "-subj", subject)

    def _sign(self, name: str, signer: str, extensions: str) -> None:
        (self.directory / "extensions").write_text(extensions)
        by = ("-CA", f"{signer}.pem", "-CAkey", f"{signer}.key", "-CAcreateserial", "-days", "10")
        self._openssl("x509", "-req", "-in", f"{name}.csr", *by, "-extfile", "extensions", "-out", f"{name}.pem")

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.directory, check=True, capture_output=True)


def test_hosts_with_certificates_of_their_site_join_and_take_over_new_ones(hosts: dict[str, Host]) -> None:
    cm, ap, ep = hosts.values()
    site = SiteAuthority(cm.root.parent / "site")
    said = cm.run("node", "install", "--role", "cm", *site.give(cm)).stdout
    assert "cm.example is in the pool" in said, said
    for words in (("node", "fingerprint"), ("node", "token", "--role", "ep")):
        none = cm.run(*words, check=False)
        assert none.returncode and "certificates of" in none.stderr and "site" in none.stderr, none

    # Nothing is told to a central manager whose certificate another authority has signed.
    other = SiteAuthority(cm.root.parent / "other")
    given, trusted = site.give(ap), str(other.trusted)
    doubted = ap.run("node", "install", "--role", "ap", "--join", "cm.example", *given[:-1], trusted, check=False)
    assert doubted.returncode and cm.json("node", "requests") == [], doubted
    own = ap.run("node", "install", "--role", "ap", "--join", "cm.example", "--fingerprint", "SHA256:x", check=False)
    assert own.returncode and "--ca site" in own.stderr, own
    for host, options in ((ap, given), (ep, site.give(ep))):
        said = _joined_by_approval(cm, host, "--role", host.name, "--join", "cm.example", *options)
        assert f"{host.name}.example is in the pool" in said
    ap.until("all have advertised", lambda: kinds(ap) >= {"Scheduler", "Machine", "Negotiator", "Collector"})
    assert run_job(ap, "first") == "ep.example\n"

    # The site renews certificates with new keys: no daemon is started again, and all show them.
    before = {host: host.pids() for host in hosts.values()}
    for host in hosts.values():
        site.give(host)
        host.until(
            "its new certificate is shown",
            lambda at=host: ap.python(_SHOWN, f"{at.name}.example", "9618") == site.shown(at),
        )
    assert run_job(ap, "second") == "ep.example\n"
    assert cm.run("status", "-direct", "ep.example", check=False).returncode == 0
    assert {host: host.pids() for host in hosts.values()} == before
    cm.run("node", "remove", "ep.example")
    assert "has been removed from the pool" in ep.run("status", "-any", check=False).stderr
    for host in (ep, ap, cm):
        host.run("node", "uninstall")
    assert (site.directory / "ep" / "host.key").exists(), "what is the site's stays"


def _certificate(host: Host) -> str:
    return (host.home.root / "tls" / "host.pem").read_text()


def _asked(host: Host, ap: Host) -> str:
    """What an access point says to another host's daemons, which may not see its queue in any case."""
    return host.python(_ASK, lookup(ap.home, "schedd").reach)
