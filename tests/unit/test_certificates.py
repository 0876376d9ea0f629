"""Whom a client certificate stands for."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from slotwise._native import MapFile
from slotwise.authorization.entries import Peer
from slotwise.authorization.settings import read as read_lists
from slotwise.errors import UnauthenticatedError
from slotwise.wire.certificates import identity, subject_text
from slotwise.wire.map_file import UserMap
from slotwise.wire.token import Identity

from tests.support import host
from tests.support.certificates import Authority, common_name
from tests.support.configured import configured

CN, ORG, OU = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME
DC, UID = NameOID.DOMAIN_COMPONENT, NameOID.USER_ID


def name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


def users(text: str, *, hash_keys: bool = False) -> UserMap:
    return UserMap(MapFile(text.encode(), hash_keys=hash_keys), "here.example")


def test_subjects_are_written_as_htcondor_writes_them() -> None:
    # What HTCondor 25.14 logs ("SSL authentication succeeded to ...") for certificates of these subjects.
    alice = name(
        (DC, "org"), (DC, "example"), (ORG, "Uni"), (OU, "Physics"), (CN, "Alice Miller"), (UID, "alice"),
        (NameOID.EMAIL_ADDRESS, "alice@example.org"),
    )  # fmt: skip
    assert subject_text(alice) == (
        "/DC=org/DC=example/O=Uni/OU=Physics/CN=Alice Miller/UID=alice/emailAddress=alice@example.org"
    )
    assert subject_text(name((ORG, "Uni"), (CN, "Jürgen"))) == "/O=Uni/CN=J\\xC3\\xBCrgen"
    assert subject_text(common_name("host/ap.example.org")) == "/CN=host/ap.example.org"


@host.needs(host.programs("openssl"))
def test_subjects_are_written_as_openssl_writes_them(tmp_path: Path) -> None:
    oids = [oid for oid in vars(NameOID).values() if isinstance(oid, x509.ObjectIdentifier)]
    parts = [(oid, "DE" if "ountry" in oid._name else f"value {place}") for place, oid in enumerate(oids)]
    file = Authority(tmp_path).issue("all", name(*parts))
    shown = subprocess.run(
        ["openssl", "x509", "-in", file, "-noout", "-subject", "-nameopt", "compat"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    theirs = set(shown.removeprefix("subject=").removeprefix("subject= ").split("/"))
    ours = set(subject_text(name(*parts)).split("/"))
    # Versions of OpenSSL differ in which attributes they have names for; others are numbers.
    assert {part for part in ours ^ theirs if not part[:1].isdigit()} == set()
    assert len(ours & theirs) > 20


@given(st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_a_subject_is_one_line_of_printable_characters_with_as_many_names_as_it_has(value: str) -> None:
    try:
        text = subject_text(name((ORG, "x"), (CN, value)))
    except (UnauthenticatedError, ValueError):
        return
    assert text.isprintable() and text.isascii()
    assert text.count("/CN=") == 1 and text.count("/O=") == 1


@pytest.mark.parametrize("value", ["x/CN=root", "mallory/O=Uni/CN=root", "/UID=0", "a/1.2.3=b", "x" * 64 + "/CN="])
def test_a_value_that_reads_as_another_attribute_is_refused(value: str) -> None:
    with pytest.raises(UnauthenticatedError, match="ambiguous"):
        subject_text(name((ORG, "Uni"), (OU, value[:64] if len(value) <= 64 else f"{value[-60:]}")))


def test_the_map_file_says_who_it_is(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    lines = users("SCITOKENS .* sci@x\nSSL ^/CN=alice$ alice@example.org\nSSL ^/CN=(b.*)$ \\1\n")
    found = identity(authority.issue("alice").read_bytes(), lines, time.time())
    assert (found.name, found.method, found.levels, found.subject) == (
        "alice@example.org", "SSL", frozenset(), "/CN=alice",
    )  # fmt: skip
    assert found.expires == pytest.approx(time.time() + 2 * 86400, abs=60)
    # HTCondor 25.14 maps a user without a domain to one of UID_DOMAIN.
    assert identity(authority.issue("bare").read_bytes(), lines, time.time()).name == "bare@here.example"


def test_who_is_mapped_to_nobody_is_told_the_line_to_write(tmp_path: Path) -> None:
    # HTCondor calls these ssl@unmapped, whom ALLOW_READ = * would let in.
    certificate = Authority(tmp_path).issue("carol").read_bytes()
    with pytest.raises(
        UnauthenticatedError, match="no line of CERTIFICATE_MAPFILE maps the SSL principal /CN=carol"
    ) as e:
        identity(certificate, users("SSL ^/CN=alice$ alice@x\nSCITOKENS .* carol@x\n"), time.time())
    assert e.value.hint is not None and 'SSL "/CN=carol" user@domain' in e.value.hint


@pytest.mark.parametrize("canonical", ["a@b@c", "@x", "a/b@x", '"a b@x"'])
def test_what_no_list_could_name_is_nobody(tmp_path: Path, canonical: str) -> None:
    certificate = Authority(tmp_path).issue("alice").read_bytes()
    with pytest.raises(UnauthenticatedError, match="which is not user@domain"):
        identity(certificate, users(f"SSL alice {canonical}\n"), time.time())


def test_a_certificate_counts_while_it_is_valid_though_its_connection_lasts(tmp_path: Path) -> None:
    certificate, lines = Authority(tmp_path).issue("alice").read_bytes(), users("SSL alice alice@x\n")
    for later, why in ((3 * 86400, "has expired on"), (-6 * 86400, "is not yet valid")):
        with pytest.raises(UnauthenticatedError, match=why):
            identity(certificate, lines, time.time() + later)
    expired = Authority(tmp_path / "b").issue("alice", ends=-timedelta(days=1)).read_bytes()
    with pytest.raises(UnauthenticatedError, match="has expired"):
        identity(expired, lines, time.time())
    with pytest.raises(UnauthenticatedError, match="no subject"):
        identity(Authority(tmp_path / "c").issue("nobody", x509.Name([])).read_bytes(), lines, time.time())


# ------------------------------------------------------------------------------------------------ what they may do

ALICE = Identity("alice@example.org", frozenset(), "SSL", subject="/CN=alice")


def allowed(knobs: dict[str, str], levels: Iterable[str]) -> dict[str, bool]:
    policy = read_lists(configured(**knobs), "SCHEDD")
    return {level: policy.decide(ALICE, level, Peer(("10.1.2.3",))).allowed for level in levels}


def test_a_certificate_alone_allows_nothing_and_lists_allow_what_they_say() -> None:
    assert not any(allowed({}, ["READ", "WRITE", "ADMINISTRATOR", "DAEMON", "CONFIG", "NEGOTIATOR"]).values())
    decision = read_lists(configured(), "SCHEDD").decide(ALICE, "READ", Peer(()))
    assert decision.reason == (
        "no ALLOW_READ is set, and a certificate alone allows nothing: name alice@example.org in it"
    )
    assert allowed({"ALLOW_WRITE": "*@example.org"}, ["READ", "WRITE", "ADMINISTRATOR"]) == {
        "READ": True, "WRITE": True, "ADMINISTRATOR": False,
    }  # fmt: skip
    assert not allowed({"ALLOW_WRITE": "*", "DENY_WRITE": "alice@*"}, ["WRITE"])["WRITE"]
    assert not allowed({"ALLOW_WRITE": "alice@example.org/10.9.*"}, ["WRITE"])["WRITE"]


def test_methods_of_a_level_leave_certificates_out() -> None:
    lists = {"ALLOW_READ": "*", "ALLOW_ADMINISTRATOR": "*", "ALLOW_DAEMON": "*"}
    methods = {
        "SEC_ADMINISTRATOR_AUTHENTICATION_METHODS": "FS, IDTOKENS",
        "SEC_DAEMON_AUTHENTICATION_METHODS": "idtokens",
    }
    assert allowed(lists | methods, ["READ", "ADMINISTRATOR", "DAEMON", "ADVERTISE_STARTD"]) == {
        "READ": True, "ADMINISTRATOR": False, "DAEMON": False, "ADVERTISE_STARTD": False,
    }  # fmt: skip
    without = {"SEC_DEFAULT_AUTHENTICATION_METHODS": "FS,IDTOKENS", "SEC_READ_AUTHENTICATION_METHODS": "fs ssl"}
    assert allowed(lists | without, ["READ", "WRITE"]) == {"READ": True, "WRITE": False}
    reason = read_lists(configured(**without), "SCHEDD").decide(ALICE, "WRITE", Peer(())).reason
    assert reason.startswith("SEC_DEFAULT_AUTHENTICATION_METHODS does not list SSL")
