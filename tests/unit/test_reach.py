"""Where daemons listen and how they are reached, as the configuration says."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.config import Config, load
from slotwise.daemon import interfaces, reach
from slotwise.daemon.reach import Place, SharedPort, places
from slotwise.errors import ConfigError
from slotwise.master.policy import daemons_of
from slotwise.wire.address import configured_collector

TLS = "AUTH_SSL_SERVER_CERTFILE = /x.pem\n"
OPEN = TLS + "SLOTWISE_LISTEN = 0.0.0.0\n"


def config(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "config"
    file.write_text(text)
    return load(str(file), subsystem="STARTD", env={"CONDOR_CONFIG": str(file)})


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("", None),
        (TLS, None),
        (OPEN, SharedPort(9618, "collector")),
        (OPEN + "USE_SHARED_PORT = false\n", None),
        ("SLOTWISE_LISTEN = 0.0.0.0\nSLOTWISE_ALLOW_CLEARTEXT = true\n", None),
        (OPEN + "DAEMON_LIST = MASTER, STARTD\nSHARED_PORT_PORT = 10000\n", SharedPort(10000, "startd")),
        (OPEN + "DAEMON_LIST = STARTD SCHEDD\nSHARED_PORT_DEFAULT_ID = startd\n", SharedPort(9618, "startd")),
        (OPEN + "COLLECTOR_USES_SHARED_PORT = false\nSHARED_PORT_PORT = 9700\n", SharedPort(9700, "schedd")),
        (OPEN + "CCB_ADDRESS = cm.example\nDAEMON_LIST = STARTD\n", SharedPort(9618, "startd", "cm.example:9618")),
        # A host that listens nowhere is reached through its broker alone.
        (TLS + "CCB_ADDRESS = cm.example:7000\nDAEMON_LIST = STARTD\n", SharedPort(0, "startd", "cm.example:7000")),
        (OPEN + "CCB_ADDRESS = $(FULL_HOSTNAME)\n", SharedPort(9618, "collector")),
        (OPEN + "CCB_ADDRESS = [fd00::1]:9618\nDAEMON_LIST = STARTD\n", SharedPort(9618, "startd", "[fd00::1]:9618")),
    ],
)
def test_which_hosts_have_a_shared_port(tmp_path: Path, text: str, shared: SharedPort | None) -> None:
    assert reach.shared_port(config(tmp_path, text)) == shared


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OPEN + "SHARED_PORT_PORT = 0\n", "SHARED_PORT_PORT"),
        ("CCB_ADDRESS = cm.example\n", "CCB_ADDRESS needs"),
        (OPEN + "USE_SHARED_PORT = false\nCCB_ADDRESS = cm.example\n", "CCB_ADDRESS needs"),
        (OPEN + "CCB_ADDRESS = cm.example:x\n", "not an address"),
        (OPEN + "SHARED_PORT_DEFAULT_ID = ../startd\n", "not the name of a daemon"),
    ],
)
def test_what_cannot_be_honoured_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        reach.shared_port(config(tmp_path, text))


def test_the_address_that_a_daemon_advertises(tmp_path: Path) -> None:
    def shown(text: str, broker: str = "") -> str:
        found = SharedPort(9618, "startd", broker)
        return str(reach.contact_of("startd", "ep.example", config(tmp_path, OPEN + text), found, "a" * 40))

    assert shown("") == "ep.example:9618?sock=startd"
    assert shown("", "cm:9618") == f"ep.example:9618?CCBID=cm:9618%23{'a' * 40}&sock=startd"
    assert shown("TCP_FORWARDING_HOST = gate.example\n") == "gate.example:9618?alias=ep.example&sock=startd"
    inside = "PRIVATE_NETWORK_NAME = lab\n"
    assert shown(inside) == "ep.example:9618?sock=startd"
    assert shown(inside + "TCP_FORWARDING_HOST = gate.example\n") == (
        "gate.example:9618?alias=ep.example&PrivNet=lab&PrivAddr=ep.example:9618&sock=startd"
    )
    assert shown(inside + "PRIVATE_NETWORK_INTERFACE = lo\n") == (
        "ep.example:9618?PrivNet=lab&PrivAddr=127.0.0.1:9618&sock=startd"
    )
    assert shown("NETWORK_INTERFACE = 127.0.0.*\n") == "127.0.0.1:9618?alias=ep.example&sock=startd"
    with pytest.raises(ConfigError, match="NETWORK_INTERFACE"):
        shown("NETWORK_INTERFACE = 203.0.113.77\n")


def test_a_daemon_with_a_port_of_its_own_does_not_share(tmp_path: Path) -> None:
    assert not reach.has_own_port("collector", config(tmp_path, OPEN))
    assert reach.has_own_port("collector", config(tmp_path, OPEN + "COLLECTOR_USES_SHARED_PORT = false\n"))
    assert reach.has_own_port("startd", config(tmp_path, OPEN + "SLOTWISE_STARTD_PORT = 9700\n"))


@pytest.mark.parametrize(
    ("hosts", "ipv4", "ipv6", "found"),
    [
        (["127.0.0.1"], None, None, [Place("127.0.0.1")]),
        (["*"], None, None, [Place("0.0.0.0", optional=True), Place("::", v6only=True, optional=True)]),
        (["*"], False, True, [Place("::", v6only=True)]),
        (["*"], True, False, [Place("0.0.0.0")]),
        (["::"], None, None, [Place("::")]),
        (["::"], False, None, [Place("::", v6only=True)]),
        (["0.0.0.0", "::"], None, None, [Place("0.0.0.0"), Place("::", v6only=True)]),
        (["10.0.0.1", "fd00::1"], None, None, [Place("10.0.0.1"), Place("fd00::1", v6only=True)]),
        (["10.0.0.1", "fd00::1"], False, None, [Place("fd00::1", v6only=True)]),
        (["ep.example"], False, None, [Place("ep.example")]),
    ],
)
def test_where_daemons_listen(hosts: list[str], ipv4: bool | None, ipv6: bool | None, found: list[Place]) -> None:
    assert places(hosts, ipv4, ipv6) == found


def test_no_family_is_left() -> None:
    with pytest.raises(ConfigError, match="names no address"):
        places(["0.0.0.0"], False, None)


HAS = [("lo", "127.0.0.1"), ("lo", "::1"), ("eth0", "10.1.2.3"), ("eth0", "fe80::1"), ("eth1", "198.51.100.7")]


@pytest.mark.parametrize(
    ("wanted", "address"),
    [
        (["10.1.*"], "10.1.2.3"),
        (["eth0"], "10.1.2.3"),
        (["eth1"], "198.51.100.7"),
        (["lo"], "127.0.0.1"),
        (["[::1]"], "::1"),
        (["eth7", "10.*"], "10.1.2.3"),
        (["192.168.*"], ""),
    ],
)
def test_the_address_that_a_pattern_means(wanted: list[str], address: str) -> None:
    assert interfaces.select(wanted, HAS) == address


def test_the_daemon_of_the_shared_port_comes_where_the_host_has_one() -> None:
    assert daemons_of(["STARTD"], shares_port=True)[0] == ["shared_port", "starter", "startd"]
    assert daemons_of(["STARTD", "SHARED_PORT"])[0] == ["starter", "startd"]
    assert "shared_port" in daemons_of([], shares_port=True)[0]


def test_a_collector_is_named_by_address_and_parameters(tmp_path: Path) -> None:
    for text, meant in (
        ("cm.example", "cm.example:9618"),
        ("cm.example:9700", "cm.example:9700"),
        ("<cm.example:9618?sock=collector>", "cm.example:9618?sock=collector"),
        ("[fd00::1]:9618", "[fd00::1]:9618"),
        ("fd00::1", "[fd00::1]:9618"),
        ("cm.example:0", None),
    ):
        assert configured_collector(config(tmp_path, f"COLLECTOR_HOST = {text}\n")) == meant
