"""Files at the access point are touched with the owner's rights, in one thread and for one block only."""

from __future__ import annotations

import os
import pwd
import threading
from pathlib import Path

import pytest
from slotwise.schedd.user_files.owner_rights import SCHEDD, account, as_owner, use_minimum_uid

from tests.support import host
from tests.support.waiting import LIMIT_S

pytestmark = [
    pytest.mark.host,
    host.needs(host.root),
]


@host.needs(host.account("nobody"))
def test_files_are_made_by_the_owner_and_secrets_stay_secret(tmp_path: Path) -> None:
    open_dir, secret = Path("/tmp") / f"rights-{os.getpid()}", tmp_path / "secret"
    open_dir.mkdir()
    open_dir.chmod(0o777)
    secret.write_text("x")
    secret.chmod(0o600)
    now, other = threading.Event(), list[str]()

    def read() -> None:
        now.wait(LIMIT_S)
        other.append(secret.read_text())

    thread = threading.Thread(target=read)
    thread.start()
    try:
        with as_owner("nobody"):
            made = open_dir / "made"
            made.write_text("mine")
            with pytest.raises(PermissionError):
                secret.read_text()
            now.set()
            thread.join()
            assert other == ["x"], "other threads keep their rights"
        assert secret.read_text() == "x"
        assert made.stat().st_uid == pwd.getpwnam("nobody").pw_uid
        with as_owner("no-such-user-here"), pytest.raises(PermissionError):
            secret.read_text()
    finally:
        for path in open_dir.iterdir():
            path.unlink()
        open_dir.rmdir()


@pytest.mark.parametrize("owner", ["", "no-such-user-here", "root"])
@pytest.mark.parametrize("fallback", ["nobody", "also-none", "root", ""])
def test_no_name_of_an_owner_has_the_rights_of_the_schedd(tmp_path: Path, owner: str, fallback: str) -> None:
    """A user of another domain has the account "": files were read and written with root's rights for it."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    use_minimum_uid(1000)
    try:
        with as_owner(owner, fallback), pytest.raises(PermissionError):
            secret.read_text()
        with as_owner(SCHEDD):
            assert secret.read_text() == "x"
    finally:
        use_minimum_uid(0)


def test_an_owner_without_an_account_is_never_root() -> None:
    assert account("no-such-user-here").uid != 0
    assert account("no-such-user-here", "also-none").uid != 0
