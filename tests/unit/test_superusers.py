"""Queue superusers: whom they may submit as."""

from __future__ import annotations

import grp
import os

import pytest
from slotwise.daemon.accounts import named
from slotwise.errors import ConfigError, DeniedError
from slotwise.model.ownership import LocalDomains
from slotwise.schedd.users.superusers import SuperUsers

DOMAINS = LocalDomains("example.org")


def users(pattern: str = "") -> SuperUsers:
    return SuperUsers.of(["root", "portal@other.edu"], DOMAINS, pattern, "condor_config, line 7")


@pytest.mark.parametrize(
    ("caller", "owner", "pattern", "user"),
    [
        ("root@example.org", "ann", "", "ann@example.org"),
        ("root@example.org", "ann@EXAMPLE.org", "^ann$", "ann@EXAMPLE.org"),
        ("root@example.org", "stranger", "", None),
        ("root@example.org", "stranger", "^(ann|strang)", "stranger@example.org"),
        ("root@example.org", "bob", "^ann$", None),
        # Another domain's ann is somebody else.
        ("root@example.org", "ann@other.edu", "^ann$", None),
        ("root@example.org", "ann@other.edu", "^ann@other\\.edu$", "ann@other.edu"),
        ("portal@other.edu", "ann", "", "ann@example.org"),
        ("portal@example.org", "ann", "", None),
        ("root@evil.example", "ann", ".*", None),
        ("bob@example.org", "ann", ".*", None),
        ("bob@example.org", "bob", "^ann$", "bob@example.org"),
    ],
)
def test_who_may_submit_as_whom(caller: str, owner: str, pattern: str, user: str | None) -> None:
    def submitted() -> str:
        return users(pattern).user_for(caller, owner, {"ann@example.org", "bob@example.org"}.__contains__)

    if user is not None:
        assert submitted() == user
        return
    with pytest.raises(DeniedError, match=r"may not submit jobs of \w+@") as refused:
        submitted()
    if pattern and users().has(caller):
        assert "QUEUE_SUPER_USER_MAY_IMPERSONATE (condor_config, line 7)" in str(refused.value)


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a regular expression"):
        users("(ann")


def test_a_group_names_its_members() -> None:
    entry = grp.getgrgid(os.getgid())
    assert named("ann") == ["ann"]
    assert named("%there-is-no-such-group") == []
    assert set(entry.gr_mem) <= set(named(f"%{entry.gr_name}"))
