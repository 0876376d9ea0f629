"""Authorization lists: entries, levels, and what the server keeps of them.

HTCondor's own answers are in tests/conformance.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from slotwise.authorization import settings
from slotwise.authorization.authorizer import Authorizer
from slotwise.authorization.entries import Peer, parse_entry, parse_network, split
from slotwise.authorization.policy import Decision
from slotwise.config import Config, load, require_sound
from slotwise.errors import ConfigError
from slotwise.wire.token import Identity, with_implied


def config_of(tmp_path: Path, text: str, subsystem: str = "SCHEDD") -> Config:
    path = tmp_path / "condor_config"
    path.write_text(text)
    return load(str(path), subsystem=subsystem, env={})


def token(name: str, *levels: str) -> Identity:
    return Identity(name, with_implied(levels))


def local(name: str, *levels: str) -> Identity:
    return Identity(name, with_implied(levels or ("WRITE",)), method="FS")


AWAY = Peer(("128.105.14.2",), ("node2.cs.wisc.edu",))


def decide(tmp_path: Path, text: str, caller: Identity, level: str, peer: Peer = AWAY) -> Decision:
    return settings.read(config_of(tmp_path, text), "SCHEDD").decide(caller, level, peer)


@pytest.mark.parametrize(
    ("entry", "user", "host"),
    [
        ("bob@example.org", "bob@example.org", "*"),
        ("bob@example.org/*", "bob@example.org", "*"),
        ("node.example.org", "*", "node.example.org"),
        ("128.105.0.0/16", "*", "128.105.0.0/16"),
        ("128.105.0.0/255.255.0.0", "*", "128.105.0.0/255.255.0.0"),
        ("bob@example.org/128.105.0.0/16", "bob@example.org", "128.105.0.0/16"),
        ("*/node.example.org", "*", "node.example.org"),
        ("fe80::/10", "*", "fe80::/10"),
        ("bob/node", "bob", "node"),
        ("*", "*", "*"),
    ],
)
def test_parts_of_an_entry(entry: str, user: str, host: str) -> None:
    assert split(entry) == (user, host)


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        ("128.105.0.0/16", "128.105.255.1", "128.106.0.1"),
        ("128.105.0.0/255.255.0.0", "128.105.255.1", "128.106.0.1"),
        ("128.105.*", "128.105.255.1", "128.106.0.1"),
        ("128.105.14.2", "128.105.14.2", "128.105.14.3"),
        ("0.0.0.0/0", "1.2.3.4", "::1"),
        ("2001:db8::/32", "2001:db8:1::5", "2001:db9::"),
        ("2001:db8:*", "2001:db8:1::5", "2001:db9::"),
        ("::ffff:128.105.14.2", "128.105.14.2", "128.105.14.3"),
        ("128.105.14.2", "::ffff:128.105.14.2", "::2"),
    ],
)
def test_networks(network: str, inside: str, outside: str) -> None:
    entry = parse_entry(f"*/{network}")
    assert entry.fits("bob@example.org", Peer((inside,)))
    assert not entry.fits("bob@example.org", Peer((outside,)))


@pytest.mark.parametrize(
    "text", ["node", "1.2.3.4.5", "256.1.1.1", "128.105.*.1", "1.2.3.4/255.0.255.0", "fe80::1*", ""]
)
def test_what_is_no_network(text: str) -> None:
    assert parse_network(text) is None


def test_one_line_bans_one_user_and_nobody_else(tmp_path: Path) -> None:
    ban = "DENY_WRITE = bob@example.org\n"
    denied = decide(tmp_path, ban, token("bob@example.org", "WRITE"), "WRITE")
    assert not denied.allowed
    assert denied.by == f"DENY_WRITE (bob@example.org) in {tmp_path}/condor_config, line 1"
    assert decide(tmp_path, ban, token("bob@example.org", "WRITE"), "READ").allowed
    assert decide(tmp_path, ban, token("bob@other.edu", "WRITE"), "WRITE").allowed
    assert decide(tmp_path, ban, local("alice@example.org"), "WRITE").allowed
    assert not decide(tmp_path, ban, local("bob@example.org"), "WRITE").allowed


def test_a_token_limits_what_lists_allow(tmp_path: Path) -> None:
    lists = "ALLOW_ADMINISTRATOR = alice@example.org\nALLOW_WRITE = *\n"
    limited = decide(tmp_path, lists, token("alice@example.org", "READ"), "WRITE")
    assert not limited.allowed
    assert "limited to" in limited.reason
    assert decide(tmp_path, lists, token("alice@example.org", "ADMINISTRATOR"), "ADMINISTRATOR").allowed
    # Who logs in here is limited by the lists alone.
    assert decide(tmp_path, lists, local("alice@example.org"), "ADMINISTRATOR").allowed
    assert not decide(tmp_path, lists, local("bob@example.org"), "ADMINISTRATOR").allowed


def test_without_lists_the_proof_decides(tmp_path: Path) -> None:
    assert decide(tmp_path, "", token("alice@example.org", "ADMINISTRATOR"), "WRITE").allowed
    assert not decide(tmp_path, "", token("alice@example.org", "WRITE"), "DAEMON").allowed
    assert decide(tmp_path, "", local("alice@example.org"), "WRITE").allowed
    assert not decide(tmp_path, "", local("alice@example.org"), "ADMINISTRATOR").allowed


def test_no_list_parts_the_daemons_of_a_host(tmp_path: Path) -> None:
    daemon = Identity("condor@vm", with_implied(["ADMINISTRATOR"]), method="FAMILY")
    lists = "ALLOW_ADMINISTRATOR = root@*\nDENY_WRITE = *\n"
    assert decide(tmp_path, lists, daemon, "ADMINISTRATOR").allowed
    assert not decide(tmp_path, lists, daemon, "NEGOTIATOR").allowed


def test_lists_of_the_negotiator_are_about_its_parts(tmp_path: Path) -> None:
    defrag = token("condor@cm", "DRAIN")
    assert decide(tmp_path, "", defrag, "DRAIN").allowed
    assert not decide(tmp_path, "", defrag, "NEGOTIATOR").allowed
    assert not decide(tmp_path, "", defrag, "WAKEUP").allowed
    assert decide(tmp_path, "", token("condor@cm", "NEGOTIATOR"), "DRAIN").allowed
    assert not decide(tmp_path, "DENY_NEGOTIATOR = condor@cm\n", defrag, "DRAIN").allowed
    assert not decide(tmp_path, "ALLOW_NEGOTIATOR = condor@cm/10.0.0.1\n", defrag, "DRAIN").allowed
    assert decide(tmp_path, "ALLOW_NEGOTIATOR = condor@cm/128.105.14.2\n", defrag, "DRAIN").allowed


_DAEMONS = [
    "DAEMON", "NEGOTIATOR", "ADVERTISE_STARTD", "ADVERTISE_SCHEDD", "ADVERTISE_MASTER", "CONFIG", "ADMINISTRATOR",
]  # fmt: skip


@pytest.mark.parametrize("entry", ["*", "*/*", "128.105.14.2", "*/128.105.14.2", "*.wisc.edu", "128.105.*", "*@*/*"])
@pytest.mark.parametrize("level", _DAEMONS)
def test_a_host_gives_its_accounts_no_level_of_daemons(tmp_path: Path, entry: str, level: str) -> None:
    """Configurations of HTCondor name hosts there; each account of these could act as a daemon."""
    lists = f"ALLOW_{level} = {entry}\n"
    decision = decide(tmp_path, lists, local("mallory@example.org"), level)
    assert not decision.allowed and "gives no local account this level" in decision.reason
    assert decide(tmp_path, lists, token("condor@example.org", level), level).allowed, "what has proved to be a daemon"
    assert decide(tmp_path, lists, local("root@example.org", level), level).allowed, "where root may be"
    assert decide(tmp_path, f"ALLOW_{level} = mallory@*\n", local("mallory@example.org"), level).allowed
    assert decide(tmp_path, f"ALLOW_{level} = {entry} mallory@*\n", local("mallory@example.org"), level).allowed
    assert decide(tmp_path, lists, local("mallory@example.org"), "READ").allowed
    (told,) = require_sound(config_of(tmp_path, lists))
    assert told.code == "config-host-entry" and "condor@*/" in told.hint
    assert require_sound(config_of(tmp_path, f"ALLOW_{level} = condor@*/128.105.14.2\nALLOW_READ = *\n")) == []


@pytest.mark.parametrize(
    "lists", ["use SECURITY : HOST_BASED\n", "ALLOW_WRITE = *\nALLOW_DAEMON = $(ALLOW_WRITE)\n", "ALLOW_DEFAULT = *\n"]
)
def test_lists_of_hosts_as_they_are_written(tmp_path: Path, lists: str) -> None:
    here = Peer(("127.0.0.1",), ("localhost",), local=True)
    for level in _DAEMONS:
        assert not decide(tmp_path, lists, local("mallory@example.org"), level, here).allowed
    assert "config-host-entry" in {told.code for told in require_sound(config_of(tmp_path, lists))}
    assert decide(tmp_path, lists, local("mallory@example.org"), "READ", here).allowed


def test_the_template_user_based_admits_the_daemons_of_the_pool(tmp_path: Path) -> None:
    text = "use SECURITY : user_based\n"
    daemon = token("condor@node2.cs.wisc.edu", "DAEMON", "NEGOTIATOR", "ADVERTISE_STARTD")
    for level in ("DAEMON", "NEGOTIATOR", "ADVERTISE_STARTD"):
        assert decide(tmp_path, text, daemon, level).allowed, level
    assert not decide(tmp_path, text, token("bob@cs.wisc.edu", "DAEMON"), "DAEMON").allowed
    # No more than the token says, whatever its name.
    assert not decide(tmp_path, text, token("condor@node2.cs.wisc.edu", "WRITE"), "DAEMON").allowed


def test_an_account_that_is_called_condor_has_not_shown_the_pools_password(tmp_path: Path) -> None:
    text = "ALLOW_DAEMON = condor@password\n"
    assert not decide(tmp_path, text, local("condor@cs.wisc.edu"), "DAEMON").allowed
    assert decide(tmp_path, text, token("condor@cs.wisc.edu", "DAEMON"), "DAEMON").allowed


def test_a_netgroup_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"condor_config, line 2: DENY_READ: the netgroup \+staff"):
        settings.read(config_of(tmp_path, "# staff\nDENY_READ = +staff\n"), "SCHEDD")


@pytest.mark.parametrize("entry", [".", ".*", "bob@example.org/."])
@pytest.mark.parametrize("knob", ["ALLOW_WRITE", "DENY_WRITE"])
def test_an_entry_whose_host_is_empty_is_refused_with_its_place(tmp_path: Path, knob: str, entry: str) -> None:
    """An address with none of its parts was every address."""
    with pytest.raises(ConfigError, match=f"condor_config, line 1: {knob}: .* names no host"):
        settings.read(config_of(tmp_path, f"{knob} = node1 {entry}\n"), "SCHEDD")


@pytest.mark.parametrize("entry", ["300.1.2.3", "300.1.2.3/99", "bob@example.org/10.1.2.3.4", "*/10.0.0.256"])
def test_a_list_of_who_is_kept_out_has_no_addresses_that_are_none(tmp_path: Path, entry: str) -> None:
    with pytest.raises(ConfigError, match=r"condor_config, line 1: DENY_WRITE: .* would keep nobody out"):
        settings.read(config_of(tmp_path, f"DENY_WRITE = node1 {entry}\n"), "SCHEDD")
    assert settings.read(config_of(tmp_path, f"ALLOW_WRITE = node1 {entry}\n"), "SCHEDD")


@pytest.mark.parametrize(
    "entry", ["bob/node1", "<128.105.1.2:9618>", "*@a*b*.org", "300.1.2.3/99", "a@b/10.1.2.300", "10.1.2.3/33"]
)
def test_doubtful_entries_are_reported_with_their_place(tmp_path: Path, entry: str) -> None:
    (found,) = require_sound(config_of(tmp_path, f"# lists\nALLOW_WRITE = node1 *@b.org/10.* {entry} 10.0.0.0/8\n"))
    assert str(found).startswith(f"{tmp_path}/condor_config:2: warning: ALLOW_WRITE: ")
    assert entry in found.message or entry.split("/")[0] in found.message
    with pytest.raises(ConfigError, match=r"condor_config:1: DENY_READ_SCHEDD: the netgroup \+staff cannot"):
        require_sound(config_of(tmp_path, "DENY_READ_SCHEDD = bob@example.org, +staff\n"))


async def follow(authorizer: Authorizer, config: Config) -> list[str]:
    return authorizer.follow(await authorizer.read(config))


class NameService:
    """Answers as told, and counts questions."""

    def __init__(self) -> None:
        self.names: dict[str, tuple[str, ...]] = {}
        self.addresses: dict[str, tuple[str, ...]] = {}
        self.asked: list[str] = []
        self.time = 0.0

    def authorizer(self) -> Authorizer:
        return Authorizer("SCHEDD", now=lambda: self.time, names_of=self.names_of, addresses_of=self.addresses_of)

    def names_of(self, address: str) -> tuple[str, ...]:
        self.asked.append(address)
        return self.names.get(address, ())

    def addresses_of(self, name: str) -> tuple[str, ...]:
        self.asked.append(name)
        return self.addresses.get(name, ())


def test_a_broker_gives_its_callers_no_more_than_it_may_do_itself(tmp_path: Path) -> None:
    """A broker says from where its callers call: any address that a list allows, if it lies."""

    async def run() -> None:
        authorizer = NameService().authorizer()
        await follow(authorizer, config_of(tmp_path, "ALLOW_WRITE = */10.0.0.0/8\nDENY_READ = */192.0.2.66\n"))
        bob = token("bob@example.org", "WRITE")

        async def may(level: str, caller: str, broker: str) -> bool:
            found = await authorizer.grants(bob, f"ipv4:{caller}:7", f"ipv4:{broker}:0" if broker else "")
            assert (level in found.caller.levels) == found.one_of([level]).allowed
            return found.one_of([level]).allowed

        assert await may("WRITE", "10.1.1.1", "") and await may("WRITE", "10.1.1.1", "10.0.0.2")
        assert not await may("WRITE", "10.1.1.1", "192.0.2.1"), "the broker's own address is not allowed"
        assert not await may("WRITE", "192.0.2.1", "10.0.0.2")
        assert not await may("WRITE", "127.0.0.1", "192.0.2.1"), "nor is it this host"
        assert await may("READ", "10.1.1.1", "192.0.2.1")
        assert not await may("READ", "10.1.1.1", "192.0.2.66") and not await may("READ", "192.0.2.66", "10.0.0.2")

    asyncio.run(run())


def test_names_are_asked_for_once_in_a_while(tmp_path: Path) -> None:
    async def run() -> None:
        service = NameService()
        service.names["128.105.14.2"] = ("node2.cs.wisc.edu",)
        authorizer = service.authorizer()
        assert await follow(authorizer, config_of(tmp_path, "ALLOW_WRITE = *.cs.wisc.edu\n")) == []
        bob = token("bob@example.org", "WRITE")
        for port in range(3):
            found = await authorizer.grants(bob, f"ipv4:128.105.14.2:{4000 + port}")
            assert found.one_of(["WRITE"]).allowed
        assert service.asked == ["128.105.14.2"]
        service.names.clear()
        service.time = 601.0
        found = await authorizer.grants(bob, "ipv4:128.105.14.2:4000")
        assert not found.one_of(["WRITE"]).allowed
        assert found.caller.levels == with_implied(["READ"])
        assert len(service.asked) == 2

    asyncio.run(run())


def test_host_names_of_lists_stand_for_their_addresses(tmp_path: Path) -> None:
    async def run() -> None:
        service = NameService()
        service.addresses["submit.example.org"] = ("128.105.14.2", "2001:db8::5")
        authorizer = service.authorizer()
        doubts = await follow(authorizer, config_of(tmp_path, "ALLOW_WRITE = submit.example.org gone.example.org\n"))
        assert doubts == ["the name service knows no address of the host gone.example.org"]
        bob = token("bob@example.org", "WRITE")
        for source in ("ipv4:128.105.14.2:4000", "ipv6:[2001:db8::5]:4000", "ipv6:%5B2001:db8::5%5D:4000"):
            assert (await authorizer.grants(bob, source)).one_of(["WRITE"]).allowed, source
        assert not (await authorizer.grants(bob, "ipv4:128.105.14.3:4000")).one_of(["WRITE"]).allowed

    asyncio.run(run())


@pytest.mark.parametrize("source", ["unix:", "unix:/run/schedd.sock", "ipv4:127.0.0.1:4000", "ipv6:%5B::1%5D:4000"])
def test_a_local_caller_has_all_addresses_of_this_host(tmp_path: Path, source: str) -> None:
    async def run() -> None:
        authorizer = NameService().authorizer()
        bob = local("bob@example.org")
        for host in ("127.0.0.1", "::1", "localhost", "{:local_ips:}", "$(FULL_HOSTNAME)", "$(IPV4_ADDRESS)"):
            await follow(authorizer, config_of(tmp_path, f"ALLOW_WRITE = {host}\n"))
            assert (await authorizer.grants(bob, source)).one_of(["WRITE"]).allowed, host
        await follow(authorizer, config_of(tmp_path, "DENY_WRITE = 127.0.0.1\n"))
        assert not (await authorizer.grants(bob, source)).one_of(["WRITE"]).allowed

    asyncio.run(run())


def test_lists_that_are_refused_leave_the_former(tmp_path: Path) -> None:
    async def run() -> None:
        authorizer = NameService().authorizer()
        bob = token("bob@example.org", "WRITE")
        await follow(authorizer, config_of(tmp_path, "DENY_WRITE = bob@*\n"))
        with pytest.raises(ConfigError):
            await authorizer.read(config_of(tmp_path, "DENY_WRITE = +staff\n"))
        assert not (await authorizer.grants(bob, "unix:")).one_of(["WRITE"]).allowed
        await follow(authorizer, config_of(tmp_path, ""))
        assert (await authorizer.grants(bob, "unix:")).one_of(["WRITE"]).allowed

    asyncio.run(run())
