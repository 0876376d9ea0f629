"""Accounts: those that are not there, and those that cannot be looked up."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest
from slotwise import accounts
from slotwise.accounts import Account, KnownAccounts
from slotwise.daemon import owner

from tests.support import host
from tests.support.configured import configured

_WITHOUT_DESCRIPTORS = """
import os, resource, sys
from slotwise import accounts

if "warm" in sys.argv:  # the C library has read nsswitch.conf, and knows the services that it names
    assert accounts.named("root") and accounts.named("no-such-account") is None
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for name in ("daemon", "no-such-account"):
    try:
        print(name, accounts.named(name))
    except OSError as error:
        print(name, error.errno, error.strerror)
for each in held:
    os.close(each)
print(accounts.named("daemon").name, accounts.named("no-such-account"))
"""


@host.needs(host.accounts)
def test_a_uid_without_an_account_is_not_the_user_whose_name_is_its_number() -> None:
    """As that of a process in a container which shares the daemons' sockets."""
    config = configured(UID_DOMAIN="example.org")
    free = next(uid for uid in range(54321, 60000) if accounts.with_uid(uid) is None)
    assert owner.local_identity(free, config) == (f"{free}@example.org", ("READ", "WRITE"))
    subprocess.run(["useradd", "--badname", "--no-create-home", "--uid", str(free + 1), str(free)], check=True)
    try:
        assert owner.local_identity(free, config) is None
        assert owner.local_identity(free + 1, config) == (f"{free}@example.org", ("READ", "WRITE"))
    finally:
        subprocess.run(["userdel", str(free)], check=True)


def test_accounts_are_found_by_name_and_by_uid() -> None:
    root = accounts.named("root")
    assert root is not None and (root.uid, root.gid) == (0, 0) and 0 in root.groups
    assert accounts.with_uid(0) == root
    assert root.gid not in root.other_groups


@pytest.mark.parametrize("name", ["", "no-such-account", "root\0", "ro\0ot"])
def test_names_of_nobody_are_no_account(name: str) -> None:
    assert accounts.named(name) is None
    assert accounts.with_uid(4_294_967_000) is None


@pytest.mark.parametrize("before", ["warm", "cold"])
def test_an_account_that_cannot_be_looked_up_is_not_one_that_is_not_there(before: str) -> None:
    words = [sys.executable, "-c", _WITHOUT_DESCRIPTORS, before]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    for line, name in zip(told, ("daemon", "no-such-account"), strict=False):
        assert line.startswith(f"{name} {errno.EMFILE} the account {name} cannot be looked up: "), told
    assert told[2] == "daemon None"


def test_what_is_known_is_looked_up_anew_and_a_failure_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    answers: list[Account | OSError | None] = [OSError(errno.EMFILE, "no"), None, Account("ann", 5, 5, "/")]
    asked: list[str] = []

    def look(name: str) -> Account | None:
        asked.append(name)
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(accounts, "named", look)
    known = KnownAccounts(60.0, lambda: now[0])
    with pytest.raises(OSError, match="no"):
        known.named("ann")
    assert known.named("ann") is None and known.named("ann") is None
    assert len(asked) == 2
    now[0] = 60.0
    found = known.named("ann")
    assert found is not None and found.uid == 5


def test_an_account_that_the_host_does_not_know_is_called_by_its_uid() -> None:
    """A personal pool in a container under any uid ran no job."""
    free = next(uid for uid in range(54321, 60000) if accounts.with_uid(uid) is None)
    assert (accounts.name_of(0), accounts.name_of(free)) == ("root", str(free))
