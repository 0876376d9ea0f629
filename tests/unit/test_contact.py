"""Addresses of daemons: what their parameters mean, and by which way a daemon is reached."""

from __future__ import annotations

import pytest
from slotwise.errors import DeniedError
from slotwise.wire.contact import (
    Asked,
    Contact,
    Way,
    asked_for,
    audience_of,
    back_name,
    divide,
    key_of,
    parse,
    target_of,
    way_to,
    with_port,
)
from slotwise.wire.credential import Places, TokenCredential

ID = "0123456789" * 4


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("ep.example:9618", Contact("ep.example", 9618)),
        ("<10.0.0.1:9618?addrs=10.0.0.1-9618&noUDP&sock=startd_1_a>", Contact("10.0.0.1", 9618, sock="startd_1_a")),
        ("[fd00::2]:9618?sock=schedd", Contact("fd00::2", 9618, sock="schedd")),
        ("10.0.0.1:9618?alias=ep.example", Contact("10.0.0.1", 9618, alias="ep.example")),
        (
            f"ep:0?CCBID=cm.example:9618%23{ID}&sock=startd",
            Contact("ep", 0, sock="startd", broker="cm.example:9618", broker_id=ID),
        ),
        (
            "1.2.3.4:9618?PrivNet=lab&PrivAddr=%3c10.0.0.5:9618%3fsock%3dx%3e",
            Contact("1.2.3.4", 9618, private_network="lab", private_address="10.0.0.5:9618"),
        ),
        # Names that lead anywhere else are none.
        ("ep:9618?sock=../secrets", Contact("ep", 9618)),
        ("unix:/run/x.sock", None),
        ("ep.example", None),
        ("fd00::2:9618", None),
        ("ep:99999", None),
    ],
)
def test_an_address_is_read(text: str, meant: Contact | None) -> None:
    assert parse(text) == meant
    if meant is not None:
        assert parse(str(meant)) == meant


@pytest.mark.parametrize(
    "given",
    [
        f"CCBID=evil:1%23{ID}%0d%0aSET%20x",
        # gRPC decodes what it is given once more.
        f"CCBID=evil:1%23{ID}%250d%250aSET%2520x",
        "CCBID=evil:1%23a.ccb.slotwise:1/x",
        f"CCBID=user:password@evil:1%23{ID}",
        f"CCBID=evil:1/path%23{ID}",
        "PrivNet=lab&PrivAddr=user@evil:1",
        "alias=ep.example%0d%0aX:1",
        "alias=cm.example:9618?sock=collector",
    ],
)
def test_an_ad_cannot_have_callers_send_words_of_its_own(given: str) -> None:
    """What goes into a CONNECT, or says to whom it goes, has the form of a host, a port, an id, or does not count."""
    for network in ("", "lab"):
        assert way_to(f"ep:9618?{given}&sock=startd", network) == Way("startd.sock.slotwise:1", "ep:9618", "ep:9618")
    assert audience_of(f"ep:9618?{given}&sock=startd") == "ep:9618?sock=startd"


@pytest.mark.parametrize("host", ["ep%0d%0aX", "user@ep", "ep/x", "dns:///ep", "a b", "*"])
def test_an_address_with_an_odd_host_is_none(host: str) -> None:
    assert parse(f"{host}:9618?sock=startd") is None


def test_a_daemon_behind_a_shared_port_is_asked_for_by_name() -> None:
    assert way_to("ep:9618?sock=startd") == Way("startd.sock.slotwise:1", "ep:9618", "ep:9618")
    assert way_to("[::1]:9618?sock=startd").via == "[::1]:9618"
    assert way_to("ep:9618") == Way("ep:9618", "ep:9618")
    assert way_to("unix:/x") == Way("unix:/x", "unix:/x")


def test_a_broker_is_asked_for_hosts_that_nobody_can_connect_to() -> None:
    at = f"ep:0?CCBID=cm:9618%23{ID}&sock=startd"
    assert way_to(at) == Way(f"startd.{ID}.ccb.slotwise:1", "ep:0", "cm:9618")
    assert asked_for(way_to(at).target) == Asked("startd", ID)


def test_inside_of_its_private_network_a_host_is_reached_directly() -> None:
    at = f"public:9618?alias=ep&PrivNet=lab&PrivAddr=10.0.0.5:9618&CCBID=cm:9618%23{ID}&sock=startd"
    assert way_to(at, "lab") == Way("startd.sock.slotwise:1", "ep:9618", "10.0.0.5:9618")
    assert way_to(at, "other").via == way_to(at).via == "cm:9618"
    assert way_to("public:9618?PrivNet=lab&PrivAddr=10.0.0.5:9618", "lab").target == "10.0.0.5:9618"


def test_a_proof_is_for_the_daemon_by_whichever_way_it_is_reached() -> None:
    far = f"public:9618?alias=ep&PrivNet=lab&PrivAddr=10.0.0.5:9618&CCBID=cm:9618%23{ID}&sock=startd"
    assert audience_of(far) == audience_of("ep:9618?sock=startd") == "ep:9618?sock=startd"
    assert audience_of("unix:/x") == "unix:/x"


def test_whoever_chooses_the_key_of_an_address_gets_no_proof_for_another_daemon() -> None:
    """An ad may name any host in front of its own key, and a broker of its own that leads elsewhere."""
    real = "cm.example:9618?sock=collector"
    hostile = f"cm.example:9618?CCBID=evil.example:1%23{ID}&sock=collector&key=mine"
    assert way_to(hostile).via == "evil.example:1"
    assert audience_of(hostile) == f"{audience_of(real)}&key=mine" != audience_of(real)
    assert audience_of("cm.example:9618?key=mine") == "cm.example:9618?key=mine"


def test_a_bearers_token_goes_to_no_key_that_only_an_ad_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may advertise a slot chooses the key of its address, and would have the token of whoever calls there."""
    places = Places()
    monkeypatch.setattr("slotwise.wire.credential.places", places)
    advertised, named = "ep.example:9618?sock=startd&key=theirs", "cm.example:9618?key=ours"
    places.name(named)
    places.name("cm.example:9618")
    with pytest.raises(DeniedError, match="only an ad says"):
        TokenCredential("secret").metadata(advertised)
    assert TokenCredential("secret").metadata(named) == (("authorization", "Bearer secret"),)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (
            "<10.0.0.7:9618?addrs=10.0.0.7-9618&alias=ep.example&sock=startd>",
            "10.0.0.7:9618?alias=ep.example&sock=startd",
        ),
        ("<10.0.0.7:4021>", "10.0.0.7:4021"),
        ("unix:/run/slotwise/schedd.sock", "unix:/run/slotwise/schedd.sock"),
    ],
)
def test_an_address_that_a_user_copies_from_an_ad_keeps_what_leads_to_the_daemon(text: str, target: str) -> None:
    assert target_of(text) == target


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("startd.sock.slotwise:1", Asked("startd")),
        (back_name("ab" * 16), Asked(secret="ab" * 16)),
        (f"startd.{ID}.ccb.slotwise", Asked("startd", ID)),
        ("../x.sock.slotwise:1", None),
        ("startd.sock.slotwise.evil:1", None),
        (f"startd.{ID}0.ccb.slotwise:1", None),
        ("example.org:443", None),
        ("", None),
    ],
)
def test_what_a_shared_port_is_asked_for(name: str, asked: Asked | None) -> None:
    assert asked_for(name) == asked


@pytest.mark.parametrize("text", ["", ":1", "a:b", "[::1]", "::1:5", "[a]:5", "a:70000"])
def test_what_is_no_host_and_port(text: str) -> None:
    assert divide(text) is None


def test_a_key_is_a_part_of_the_address_and_of_the_proof() -> None:
    text = "10.0.0.7:4021?CCBID=cm.example:9618%23ab&sock=startd&key=A-b_9"
    found = parse(text)
    assert found is not None and found.key == key_of(text) == "A-b_9" and str(found) == text
    assert found.audience == "10.0.0.7:4021?sock=startd&key=A-b_9"
    assert key_of("unix:/a?key=b") == key_of("host:1") == key_of("no address") == ""


@pytest.mark.parametrize(
    ("named", "target"),
    [
        ("cm.example", "cm.example:9618"),
        ("<cm.example>", "cm.example:9618"),
        ("cm.example:9000", "cm.example:9000"),
        ("<10.0.0.1:9618?sock=collector&noUDP>", "10.0.0.1:9618?sock=collector"),
        ("fd00::2", "[fd00::2]:9618"),
        ("[fd00::2]", "[fd00::2]:9618"),
        ("unix:/run/collector.sock", "unix:/run/collector.sock"),
        ("cm.example:port", None),
        ("user@cm.example", None),
        ("", None),
    ],
)
def test_a_collector_may_be_named_without_its_port(named: str, target: str | None) -> None:
    assert with_port(named, lambda: 9618) == target
