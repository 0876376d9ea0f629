"""What is read of proxy certificates, as HTCondor 25.14.1 puts it into job ads."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.errors import SubmitError, UsageError
from slotwise.model.proxy import ProxyError, parse
from slotwise.schedd.user_files import proxies
from slotwise.submit import parse as parse_submit

PROXY = Path(__file__).with_name("proxy.pem").read_bytes()
SUBJECT = "/DC=org/DC=test/OU=People/CN=Ann Example 12\\/3/emailAddress=ann@example.org/UID=ann"
EXPIRES = 3436957850


def test_it_is_the_user_s_name_and_the_first_end() -> None:
    assert parse(PROXY).attributes() == {
        "x509UserProxySubject": SUBJECT,
        "x509UserProxyExpiration": EXPIRES,
        "x509UserProxyEmail": "ann@example.org",
    }


@pytest.mark.parametrize(
    "text", [b"", b"no proxy", PROXY.split(b"-----BEGIN PRIVATE")[0], PROXY.replace(b"MII", b"AII")]
)
def test_files_that_are_no_proxies(text: bytes) -> None:
    with pytest.raises(ProxyError, match="unable to read proxy file"):
        parse(text)


@given(st.integers(0, len(PROXY) - 1), st.binary(max_size=3))
def test_damaged_files_are_refused_or_read(at: int, put: bytes) -> None:
    with contextlib.suppress(ProxyError):
        parse(PROXY[:at] + put + PROXY[at + len(put) :])


def made(tmp_path: Path, now: int) -> None:
    parse_submit("executable = /bin/true\nx509userproxy = p\nqueue\n", cwd=tmp_path, env={}, owner="ann", now=now)


def test_submit_looks_at_the_proxy(tmp_path: Path) -> None:
    with pytest.raises(SubmitError, match="unable to read proxy file"):
        made(tmp_path, 1_800_000_000)
    (tmp_path / "p").write_bytes(PROXY)
    made(tmp_path, 1_800_000_000)
    with pytest.raises(SubmitError, match="proxy has expired"):
        made(tmp_path, EXPIRES + 1)


def test_nobody_says_himself_what_a_proxy_tells() -> None:
    proxies.check(["x509userproxy", "Owner"])
    with pytest.raises(UsageError, match="read from the proxy"):
        proxies.check(["X509UserProxySubject"])
