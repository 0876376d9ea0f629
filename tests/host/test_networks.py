"""The guide on networks, tried with hosts in network namespaces whose firewalls let in what it says and no more."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.host.test_several_hosts import hosts
from tests.support.host import firewall, need, needs, network_namespaces, programs
from tests.support.namespaces import Host
from tests.support.several_hosts import join, kinds
from tests.support.waiting import LIMIT_S

__all__ = ["hosts"]


pytestmark = [
    pytest.mark.host,
    needs(network_namespaces, programs("nft")),
]

FIREWALL = """
table inet guard {{
  chain incoming {{
    type filter hook input priority 0; policy drop;
    iifname lo accept
    ct state established,related accept
    icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept
    {accepted}
  }}
}}
"""
#: What comes to the port of a gate goes to that of a host behind it.
ROUTER = """
table ip gate {{
  chain arriving {{
    type nat hook prerouting priority -100;
    ip daddr {gate} tcp dport 9618 dnat to {host}
  }}
  chain leaving {{
    type nat hook postrouting priority 100;
    ip daddr {host} tcp dport 9618 masquerade
  }}
}}
"""
_REACHES = """
import socket
import sys
try:
    socket.create_connection((sys.argv[1], 9618), 2).close()
    print("there is a way")
except OSError:
    print("no way")
"""
#: Who is behind the router calls as the router, and nobody calls in.
MASQUERADE = """
table ip nat {
  chain leaving { type nat hook postrouting priority 100; oifname eth0 masquerade; }
}
table ip guard {
  chain passing {
    type filter hook forward priority 0; policy drop;
    ct state established,related accept
    iifname inner accept
  }
}
"""
ALL = {"Scheduler", "Machine", "Negotiator", "Collector"}


def _inside(host: Host, *words: str, input: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in a host's network."""
    words = ("ip", "netns", "exec", host.namespace, *words)
    return subprocess.run(words, input=input, text=True, capture_output=True)


def _nft(host: Host, rules: str) -> None:
    need(firewall(rules))
    done = _inside(host, "nft", "-f", "-", input=rules)
    assert done.returncode == 0, done.stderr


def _guard(host: Host, port: int | None, beside: str = "") -> None:
    """A firewall that lets in connections to one port, or none at all; ``beside``: a rule in front of that."""
    accepted = f"tcp dport {port} accept" if port else ""
    _nft(host, FIREWALL.format(accepted=f"{beside}\n    {accepted}"))


def _ipv6_only(made: dict[str, Host]) -> None:
    """Take the IPv4 addresses of all hosts away and give them IPv6 ones."""
    lines = []
    for n, (name, host) in enumerate(made.items(), 2):
        ip = ["ip", "-n", host.namespace, "addr"]
        subprocess.run([*ip, "flush", "dev", "eth0", "scope", "global"], check=True)
        subprocess.run([*ip, "add", f"fd77::{n}/64", "dev", "eth0", "nodad"], check=True)
        lines.append(f"fd77::{n} {name}.example {name}\n")
    root = next(iter(made.values())).root.parent
    (root / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n" + "".join(lines))


def _configure(host: Host, text: str) -> None:
    host.config_file.write_text(host.config_file.read_text() + text)


@contextlib.contextmanager
def _behind_a_router(*inside: Host) -> Iterator[None]:
    """Hosts in a private network whose router masquerades them, at 10.77.0.99 on the wire."""
    router, pid = f"sw{os.getpid()}nat", os.getpid()

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    ip("netns", "add", router)
    try:
        ip("link", "add", f"swn{pid}", "type", "veth", "peer", "name", "eth0", "netns", router)
        ip("link", "set", f"swn{pid}", "master", f"swb{pid}", "up")
        ip("-n", router, "addr", "add", "10.77.0.99/24", "dev", "eth0")
        ip("-n", router, "link", "add", "inner", "type", "bridge", "forward_delay", "0")
        ip("-n", router, "addr", "add", "192.168.7.1/24", "dev", "inner")
        for device in ("lo", "eth0", "inner"):
            ip("-n", router, "link", "set", device, "up")
        root = inside[0].root.parent
        listed = (root / "hosts").read_text()
        for n, host in enumerate(inside, 2):
            outer = f"sw{pid}{host.name}"
            ip("link", "set", outer, "netns", router)
            ip("-n", router, "link", "set", outer, "master", "inner", "up")
            (line,) = [line for line in listed.splitlines() if f"{host.name}.example" in line]
            listed = listed.replace(line, f"192.168.7.{n} {host.name}.example {host.name}")
            ip("-n", host.namespace, "addr", "flush", "dev", "eth0")
            ip("-n", host.namespace, "addr", "add", f"192.168.7.{n}/24", "dev", "eth0")
            ip("-n", host.namespace, "route", "add", "default", "via", "192.168.7.1")
        (root / "hosts").write_text(listed)
        enter = ["ip", "netns", "exec", router]
        subprocess.run([*enter, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        need(firewall(MASQUERADE))
        subprocess.run([*enter, "nft", "-f", "-"], input=MASQUERADE, text=True, check=True)
        yield
    finally:
        ip("netns", "del", router)


def _callers(host: Host, port: int) -> set[str]:
    """Who has connections to a port of a host, by IPv4 address."""
    found = set()
    for line in _inside(host, "cat", "/proc/net/tcp", "/proc/net/tcp6").stdout.splitlines():
        words = line.split()
        if len(words) > 3 and words[3] == "01" and words[1].endswith(f":{port:04X}"):
            address = words[2].rpartition(":")[0][-8:]
            found.add(".".join(str(int(address[at : at + 2], 16)) for at in (6, 4, 2, 0)))
    return found


def test_an_execution_point_behind_nat_runs_jobs_that_can_be_visited(hosts: dict[str, Host]) -> None:
    """It only calls outward, and as its router; the others have no way to its address."""
    cm, ap, ep = hosts.values()
    with _behind_a_router(ep):
        _configure(ep, "CCB_ADDRESS = $(COLLECTOR_HOST)\n")
        join(cm, ap, ep)
        ep.until("all have advertised", lambda: kinds(ap) >= ALL)
        assert "10.77.0.99" in _callers(cm, 9618) and "192.168.7.2" not in _callers(cm, 9618)
        assert ap.python(_REACHES, "ep.example") == "no way\n"
        assert _transfer(ap) == "ep.example\n" + "x" * 100_000
        text = "executable = /bin/sh\narguments = \"-c 'echo began; until test -e go; do sleep 0.2; done'\"\n"
        (ap.root / "long.sub").write_text(text + "log = long.log\noutput = long.out\nrequest_disk = 10M\nqueue\n")
        ap.run("submit", "long.sub")
        ap.until("it runs", lambda: ap.run("tail", "2.0", check=False).stdout == "began\n")
        assert ap.run("ssh-to-job", "2.0", "hostname").stdout == "ep.example\n"
        cm.run("drain", "ep.example")
        cm.run("drain", "-cancel", "ep.example")

        def ended() -> bool:  # the job's end ends the visit; the drain may have evicted it, and it begins anew
            ap.run("ssh-to-job", "2.0", "touch go", check=False)
            return "Normal termination" in (ap.root / "long.log").read_text()

        ap.until("it has ended", ended)
        for host in hosts.values():
            host.down()


def test_hosts_behind_one_nat_call_each_other_and_the_rest_of_the_pool_their_broker(hosts: dict[str, Host]) -> None:
    cm, ap, ep = hosts.values()
    with _behind_a_router(ap, ep):
        for host in (ap, ep):
            _configure(host, "CCB_ADDRESS = $(COLLECTOR_HOST)\nPRIVATE_NETWORK_NAME = lab.example\n")
        join(cm, ap, ep)
        ep.until("all have advertised", lambda: kinds(ap) >= ALL)
        address = ap.run("status", "-startd", "-af", "MyAddress").stdout
        assert "CCBID=cm.example:9618" in address and "PrivNet=lab.example&PrivAddr=ep.example:9618" in address
        # The negotiator calls the access point by the broker, which calls the execution point directly.
        assert _transfer(ap) == "ep.example\n" + "x" * 100_000
        text = "executable = /bin/sleep\narguments = 1000\nlog = long.log\nrequest_disk = 10M\nqueue\n"
        (ap.root / "long.sub").write_text(text)
        ap.run("submit", "long.sub")
        ap.until("it runs", lambda: "Job executing" in (ap.root / "long.log").read_text())
        assert _callers(ep, 9618) == {"192.168.7.2"} and "192.168.7.3" in _callers(ap, 9618)
        # The host may have registered with its broker after its daemons had advertised.
        cm.until("by the broker", lambda: cm.run("status", "-direct", "ep.example", check=False).returncode == 0)
        for host in hosts.values():
            host.down()


def test_one_open_port_a_host_is_enough_with_ipv6_alone(hosts: dict[str, Host]) -> None:
    cm, ap, ep = hosts.values()
    _ipv6_only(hosts)
    for host in hosts.values():
        _guard(host, 9618)
        _configure(host, "SLOTWISE_LISTEN = ::\n")
    join(cm, ap, ep)
    ep.until("all have advertised", lambda: kinds(ap) >= ALL)
    shown = ap.run("status", "-any", "-af", "MyAddress").stdout.split()
    shown = [at for at in shown if at != "undefined"]  # ads that are no daemon's
    assert "ep.example:9618?sock=startd" in shown and all(":9618" in at for at in shown), shown
    assert _transfer(ap) == "ep.example\n" + "x" * 100_000
    # Lists of addresses see the caller, and not the daemon that passes the connection on.
    token = str(cm.root / "ann")
    cm.run("token", "create", "--identity", "ann@example", "--scope", "READ", "--file", token)
    ask = ("status", "-direct", "ep.example")
    cm.run(*ask, SLOTWISE_TOKEN_FILE=token)
    _configure(ep, "DENY_READ = */fd77::/126\n")
    ep.run("reconfig")
    refused = cm.run(*ask, check=False, SLOTWISE_TOKEN_FILE=token)
    assert refused.returncode and "DENY_READ" in refused.stderr, refused
    for host in hosts.values():
        host.down()


def test_hosts_that_let_nothing_in_run_jobs_through_their_broker(hosts: dict[str, Host]) -> None:
    """Neither the access point nor the execution point can be connected to: all goes through the central manager."""
    cm, ap, ep = hosts.values()
    _guard(cm, 9618)
    for host in (ap, ep):
        _guard(host, None)
        _configure(host, "CCB_ADDRESS = $(COLLECTOR_HOST)\nSHARED_PORT_PORT = 0\n")
    join(cm, ap, ep)
    ep.until("all have advertised", lambda: kinds(ap) >= ALL)
    address = ap.run("status", "-startd", "-af", "MyAddress").stdout
    assert "CCBID=cm.example:9618" in address, address
    assert _transfer(ap) == "ep.example\n" + "x" * 100_000

    text = "executable = /bin/sh\narguments = \"-c 'echo began; until test -e go; do sleep 0.2; done'\"\n"
    (ap.root / "long.sub").write_text(text + "log = long.log\noutput = long.out\nrequest_disk = 10M\nqueue\n")
    ap.run("submit", "long.sub")
    ap.until("it runs", lambda: ap.run("tail", "2.0", check=False).stdout == "began\n")
    # The broker goes and comes back, and so does what it passes on.
    before = cm.pid("shared_port")
    cm.kill("shared_port")
    cm.until("the broker is back", lambda: cm.pid("shared_port") not in (None, before))
    ap.until("the job is visited", lambda: ap.run("ssh-to-job", "2.0", "echo here", check=False).stdout == "here\n")
    ap.run("ssh-to-job", "2.0", "touch go", check=False)  # the job's end ends the visit
    ap.run("wait", "-wait", str(int(LIMIT_S)), "long.log")
    assert "evicted" not in (ap.root / "long.log").read_text()
    # A command of another host reaches the startd by its broker, too.
    cm.until("it drains", lambda: cm.run("drain", "ep.example", check=False).returncode == 0)
    cm.run("drain", "-cancel", "ep.example")
    for host in hosts.values():
        host.down()


def test_a_forwarded_port_is_called_from_outside_and_the_host_itself_from_inside(hosts: dict[str, Host]) -> None:
    """The central manager is the router of a private network; the access point is outside of it."""
    cm, ap, ep = hosts.values()
    gate = "10.77.0.99"
    listed = cm.root.parent / "hosts"
    listed.write_text(listed.read_text() + f"{gate} gate.example gate\n")
    _inside(cm, "ip", "addr", "add", f"{gate}/32", "dev", "eth0")
    _inside(cm, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    _nft(cm, ROUTER.format(gate=gate, host="10.77.0.4"))
    _guard(ep, 9618, beside="ip saddr 10.77.0.3 ct state new drop")  # the access point does not reach it
    inside = "PRIVATE_NETWORK_NAME = lab.example\n"
    _configure(cm, inside)
    _configure(ep, inside + "TCP_FORWARDING_HOST = gate.example\n")
    join(cm, ap, ep)
    ep.until("all have advertised", lambda: kinds(ap) >= ALL)
    address = ap.run("status", "-startd", "-af", "MyAddress").stdout
    assert address == ("gate.example:9618?alias=ep.example&PrivNet=lab.example&PrivAddr=ep.example:9618&sock=startd\n")
    assert _transfer(ap).startswith("ep.example\n")
    # Inside nobody needs the router's rule.
    _inside(cm, "nft", "flush", "ruleset")
    cm.run("drain", "ep.example")
    for host in hosts.values():
        host.down()


def test_a_glide_in_that_nobody_can_connect_to_runs_jobs_through_the_broker(hosts: dict[str, Host]) -> None:
    cm, ap, ep = hosts.values()
    _guard(cm, 9618)
    _guard(ap, 9618)
    _guard(ep, None)
    join(cm, ap)
    token = ep.root / "glidein.token"
    cm.run("token", "glidein", "--file", str(token))
    assert "cm.example:9618" in token.read_text()
    words = ("glidein", "--token", str(token), "--broker", "--idle", "12s", "--site", "far")
    with ThreadPoolExecutor(1) as beside:
        glidein = beside.submit(ep.run, *words, check=False, timeout=4 * LIMIT_S, TMPDIR="/tmp")
        ap.until("it has advertised", lambda: kinds(ap) >= ALL)
        address = ap.run("status", "-startd", "-af", "MyAddress").stdout
        assert "CCBID=cm.example:9618" in address and "key=" in address, address
        assert _transfer(ap) == "ep.example\n" + "x" * 100_000
        done = glidein.result()
    assert done.returncode == 0, done.stdout + done.stderr
    for host in (ap, cm):
        host.down()


def _transfer(ap: Host) -> str:
    """What a job says on whose host it runs, and the contents of a file that goes there and back."""
    (ap.root / "data").write_text("x" * 100_000)
    text = "executable = /bin/sh\narguments = \"-c 'hostname; cat data'\"\ntransfer_input_files = data\n"
    (ap.root / "carry.sub").write_text(
        text + "should_transfer_files = yes\noutput = carry.out\nlog = carry.log\nrequest_disk = 10M\nqueue\n"
    )
    ap.run("submit", "carry.sub")
    ap.run("wait", "-wait", str(int(LIMIT_S)), "carry.log")
    return (ap.root / "carry.out").read_text()
