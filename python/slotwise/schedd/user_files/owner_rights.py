"""The rights of a job's owner on files at the access point, for threads that read and write these.

They only matter when the schedd runs as root: see `slotwise.daemon.file_rights`. Owners without an account here, and
those with a uid below SLOTWISE_MIN_UID, have the rights of SLOTWISE_UNKNOWN_OWNER_ACCOUNT (``nobody``).
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from slotwise.daemon.file_rights import file_rights
from slotwise.daemon.privileges import own_files, root_files

#: Stands for the schedd itself as the owner of its own files.
OWN = ""


@dataclass(frozen=True)
class Account:
    """The uid, gid and supplementary groups of an owner."""

    uid: int
    gid: int
    groups: tuple[int, ...]


_least_uid = 0


def use_minimum_uid(least: int) -> None:
    """Set the least uid of accounts whose rights are used (SLOTWISE_MIN_UID)."""
    global _least_uid
    _least_uid = least
    account.cache_clear()


@lru_cache(maxsize=1024)
def account(owner: str, fallback: str = "nobody") -> Account:
    """The account of ``owner``; the fallback if there is none, or if its uid is below SLOTWISE_MIN_UID."""
    try:
        entry = pwd.getpwnam(owner)
        if entry.pw_uid < _least_uid:
            raise KeyError(owner)
    except KeyError:
        try:
            entry = pwd.getpwnam(fallback)
        except KeyError:
            return Account(65534, 65534, ())
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return Account(entry.pw_uid, entry.pw_gid, tuple(groups))


@contextmanager
def as_owner(owner: str, fallback: str = "nobody") -> Iterator[None]:
    """Give this thread the owner's rights on files inside the block; does nothing unless the process is root.

    :raises OSError: when the kernel refuses.
    """
    if os.geteuid() != 0:
        yield
        return
    if owner == OWN:
        with own_files():
            yield
        return
    who = account(owner, fallback)
    if who.uid == 0:
        with root_files():
            yield
        return
    with file_rights(who.uid, who.gid, who.groups):
        yield
