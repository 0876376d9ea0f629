"""A pool whose users have X.509 certificates and no tokens: each daemon has a port that takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from slotwise.wire import address

from tests.support import host
from tests.support.certificates import Authority, full_name
from tests.support.pool import Pool
from tests.support.ports import free_port

pytestmark = host.needs(host.own_name)

SERVER = """
UID_DOMAIN = example.org
SLOTWISE_LISTEN = 0.0.0.0
START = False
AUTH_SSL_SERVER_CERTFILE = {tls}/server.pem
AUTH_SSL_SERVER_KEYFILE = {tls}/server.key
AUTH_SSL_SERVER_CAFILE = {tls}/ca.pem
AUTH_SSL_CLIENT_CAFILE = {tls}/ca.pem
COLLECTOR_HOST = localhost:0
SLOTWISE_COLLECTOR_PORT = 0
USE_SHARED_PORT = False
CERTIFICATE_MAPFILE = {tls}/map
CERTIFICATE_MAPFILE_ASSUME_HASH_KEYS = True
ALLOW_READ = *
ALLOW_WRITE = alice@example.org
"""
CLIENT = """
COLLECTOR_HOST = localhost:{port}
AUTH_SSL_CLIENT_CAFILE = {tls}/ca.pem
"""
JOB = "executable = /bin/true\nqueue\n"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path / "tls")
    for name in ("server", "alice", "carol"):
        made.issue(name)
    made.issue("late", ends=-timedelta(days=1))
    (made.directory / "map").write_text('SSL "/CN=alice" alice\nSSL /^\\/CN=l/ late@example.org\n')
    return made


@pytest.fixture
def pool(make_pool: Callable[[str], Pool], authority: Authority) -> Iterator[Pool]:
    made = make_pool(SERVER.format(tls=authority.directory))
    made.up()
    yield made


@pytest.fixture
def user(pool: Pool, authority: Authority, tmp_path: Path) -> Pool:
    """What somebody has at another host: no pool, no token, and a certificate with ``shown``."""
    port = address.lookup(pool.home, "collector").tcp.rpartition(":")[2]
    made = Pool(tmp_path / "elsewhere", CLIENT.format(tls=authority.directory, port=port))
    (made.root / "job.sub").write_text(JOB)
    return made


def shown(authority: Authority, name: str) -> dict[str, Any]:
    at = authority.directory / name
    return {
        "_CONDOR_AUTH_SSL_CLIENT_CERTFILE": f"{at}.pem",
        "_CONDOR_AUTH_SSL_CLIENT_KEYFILE": f"{at}.key",
    }


def test_a_certificate_is_a_user_where_there_is_no_token(pool: Pool, user: Pool, authority: Authority) -> None:
    alice = shown(authority, "alice")
    pool.until("the access point has advertised", lambda: pool.run("status", "-schedd", "-af", "Name").stdout)
    assert "submitted to cluster 1" in user.run("submit", "job.sub", **alice).stdout
    assert user.run("q", "-af", "User", **alice).stdout == "alice@example.org\n"
    ads = user.run("status", "-schedd", "-af", "MyAddress", "CertificateAddress", **alice).stdout.split()
    port = address.lookup(pool.home, "schedd").certificate_port
    assert port and ads[1] == f"{full_name()}:{port}" != ads[0]
    log, line = pool.home.log / "SchedAuditLog", "of alice@example.org by SSL, certificate /CN=alice from <"
    pool.until("the audit log has her", lambda: line in log.read_text())

    # One line bans her, and says so.
    config = pool.config_file.read_text()
    pool.config_file.write_text(config + "DENY_WRITE = alice@*\n")
    pool.run("reconfig")
    refused = user.run("rm", "1", check=False, **alice)
    assert refused.returncode and "DENY_WRITE (alice@*)" in refused.stderr
    pool.config_file.write_text(config)
    pool.run("reconfig")

    # A token says who calls, certificate or not.
    token = user.root / "bob.token"
    pool.run("token", "create", "--identity", "bob@example.org", "--scope", "READ", "--file", str(token))
    denied = user.run("rm", "1", check=False, SLOTWISE_TOKEN_FILE=str(token), **alice)
    assert denied.returncode and "bob@example.org may not call" in denied.stderr
    user.run("rm", "1", **alice)

    # The map file may change while the daemons run, and a line that is wrong changes nothing.
    (authority.directory / "map").write_text('SSL "/CN=alice" alice\nSSL /(/ x\n')
    refused = pool.run("reconfig", check=False)
    assert "map, line 2: the principal is not a regular expression" in refused.stdout + refused.stderr
    user.run("submit", "job.sub", **alice)
    (authority.directory / "map").write_text('SSL "/CN=alice" mallory\n')
    pool.run("reconfig")
    denied = user.run("submit", "job.sub", check=False, **alice)
    assert denied.returncode and "mallory@example.org" in denied.stderr


def test_behind_a_shared_port_callers_with_certificates_have_names_of_their_own(
    make_pool: Callable[[str], Pool], authority: Authority, tmp_path: Path
) -> None:
    port = free_port()
    server = SERVER.replace("SLOTWISE_COLLECTOR_PORT = 0\nUSE_SHARED_PORT = False", f"SHARED_PORT_PORT = {port}")
    pool = make_pool(server.format(tls=authority.directory))
    pool.up()
    assert address.lookup(pool.home, "schedd").target == f"{full_name()}:{port}?sock=schedd"
    user = Pool(tmp_path / "elsewhere", CLIENT.format(tls=authority.directory, port=port))
    (user.root / "job.sub").write_text(JOB)
    alice = shown(authority, "alice")
    pool.until("the access point has advertised", lambda: pool.run("status", "-schedd", "-af", "Name").stdout)
    assert "submitted to cluster 1" in user.run("submit", "job.sub", **alice).stdout
    ads = user.run("status", "-schedd", "-af", "CertificateAddress", **alice).stdout
    assert ads == f"{full_name()}:{port}?sock=schedd_certificate\n"
    # As HTCondor's tools write it.
    named = {"_CONDOR_COLLECTOR_HOST": f"<localhost:{port}?noUDP&sock=collector>"}
    assert user.run("q", "-af", "User", **(alice | named)).stdout == "alice@example.org\n"
    pool.down()


def test_certificates_that_do_not_count_are_refused_with_the_remedy(
    pool: Pool, user: Pool, authority: Authority, tmp_path: Path
) -> None:
    def told(certificates: Authority, name: str) -> str:
        done = user.run("q", check=False, **shown(certificates, name))
        assert done.returncode and done.stdout == ""
        return done.stderr

    assert 'add a line to the map file: SSL "/CN=carol" user@domain' in told(authority, "carol")
    assert "has expired on" in told(authority, "late")
    other = Authority(tmp_path / "other")
    other.issue("alice")
    said = told(other, "alice")
    assert "does not accept the certificate" in said and "AUTH_SSL_SERVER_CAFILE" in said
    (authority.directory / "carol.key").chmod(0o644)
    assert "others may use the private key" in told(authority, "carol")
    assert "carries no token" in user.run("q", check=False).stderr
    without = shown(authority, "alice") | {"_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS": "FS, IDTOKENS"}
    assert "carries no token" in user.run("q", check=False, **without).stderr
