"""The pool's authority: which certificates it makes, which one signs, and what is compared by people."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography import x509
from slotwise.daemon.host_tls import HostTls
from slotwise.errors import DeniedError, NotFoundError, UsageError
from slotwise.home import PoolHome
from slotwise.wire import authority
from slotwise.wire.authority import SETTLE_S, Authority, directory_of
from slotwise.wire.keys import PoolSecrets

from tests.support import host

NOW = 1_900_000_000.0
DAY = 86400.0


@pytest.fixture
def home(tmp_path: Path) -> PoolHome:
    made = PoolHome(tmp_path)
    made.create()
    return made


def read(home: PoolHome) -> Authority:
    found = Authority.read(home)
    assert found is not None
    return found


def certificate_of(home: PoolHome, now: float, lifetime_s: float = 90 * DAY) -> str:
    HostTls(home).create()
    request = authority.checked(authority.request_for(authority.host_key(HostTls(home).key), "x"))
    return read(home).issue(request, "ep.example", now, lifetime_s)


def test_only_the_owner_can_read_its_key_and_a_key_that_others_read_is_refused(home: PoolHome) -> None:
    Authority.make(home, "example", ["example"], NOW)
    (key,) = directory_of(home).glob("*.key")
    assert key.stat().st_mode & 0o777 == 0o600 and directory_of(home).stat().st_mode & 0o077 == 0
    key.chmod(0o640)
    with pytest.raises(DeniedError, match="others may read"):
        Authority.read(home)


@host.needs(host.root)
def test_a_key_that_belongs_to_another_account_is_refused(home: PoolHome) -> None:
    secrets = PoolSecrets(home)
    secrets.host_key()
    os.chown(home.secrets / "host.pem", 65534, 65534)
    with pytest.raises(DeniedError, match=r"host\.pem belongs to another account \(uid 65534\)"):
        secrets.host_key()


def test_it_signs_nothing_beyond_its_domains_and_no_further_authority(home: PoolHome) -> None:
    Authority.make(home, "example", ["example", "lab.org"], NOW)
    (found,) = x509.load_pem_x509_certificates(read(home).bundle(NOW).encode())
    constraints = found.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical and constraints.value.permitted_subtrees == [
        x509.DNSName("example"),
        x509.DNSName("lab.org"),
    ]
    assert found.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    assert read(home).permits("ep.lab.org", NOW) and not read(home).permits("ep.elsewhere.org", NOW)


def test_a_further_authority_signs_when_all_hosts_know_it_and_hosts_renew_then(home: PoolHome) -> None:
    files = HostTls(home)
    files.create()
    Authority.make(home, "example", [], NOW)
    first = read(home).bundle(NOW)
    files.write(files.authorities, first)
    files.write(files.certificate, certificate_of(home, NOW))
    assert files.renewal_due_at() == pytest.approx(NOW + 60 * DAY, abs=2)

    Authority.make(home, "example", [], NOW + DAY)
    before, after = NOW + DAY + SETTLE_S - 1, NOW + DAY + SETTLE_S + 1
    assert authority.fingerprint(read(home).bundle(before)) == authority.fingerprint(first)
    assert authority.fingerprint(read(home).bundle(after)) != authority.fingerprint(first)
    assert len(x509.load_pem_x509_certificates(read(home).bundle(after).encode())) == 2
    files.write(files.authorities, read(home).bundle(after))
    assert files.renewal_due_at() == 0.0
    files.write(files.certificate, certificate_of(home, after))
    assert files.renewal_due_at() == pytest.approx(after + 60 * DAY, abs=2)

    (former,) = [each.id for each in read(home).described(after) if not each.signs]
    assert read(home).needed_for(former, after, 90 * DAY) == pytest.approx(90 * DAY - 1, abs=2)
    with pytest.raises(NotFoundError, match="no authority abc"):
        read(home).needed_for("abc", after, 90 * DAY)
    read(home).remove(home, former)
    assert [each.signs for each in read(home).described(after)] == [True]
    with pytest.raises(DeniedError, match="only authority"):
        read(home).remove(home, read(home).described(after)[0].id)


def test_a_certificate_does_not_outlast_its_authority(home: PoolHome) -> None:
    Authority.make(home, "example", [], NOW)
    assert authority.ends_at(certificate_of(home, NOW, 100 * 365 * DAY)) == int(NOW + authority.AUTHORITY_S)


def test_fingerprints_are_compared_in_both_forms(home: PoolHome) -> None:
    Authority.make(home, "example", [], NOW)
    pem = read(home).bundle(NOW)
    shown = authority.fingerprint(pem)
    from cryptography.hazmat.primitives import hashes

    digest = x509.load_pem_x509_certificate(pem.encode()).fingerprint(hashes.SHA256()).hex()
    colons = ":".join(digest[at : at + 2].upper() for at in range(0, 64, 2))
    for given in (shown, shown + "=", shown.removeprefix("SHA256:"), digest, f"SHA256:{colons}", f"sha256={digest}"):
        assert authority.same_fingerprint(pem, given), given
    assert not authority.same_fingerprint(pem, "SHA256:" + "A" * 43)
    for wrong in ("", "SHA256:", shown[:-1], shown + "A", digest[:-1]):
        with pytest.raises(UsageError, match="is not a fingerprint"):
            authority.same_fingerprint(pem, wrong)
