"""Files at the access point are read and written with the rights of the job's owner.

Only matters when the schedd runs as root: see `slotwise.daemon.file_rights`. An owner without an account here gets the
account named by ``SLOTWISE_UNKNOWN_OWNER_ACCOUNT`` (``nobody``), and so does one whose uid is below SLOTWISE_MIN_UID.
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

#: The owner of what is the schedd's own.
OWN = ""


@dataclass(frozen=True)
class Account:
    """User id, group id and supplementary groups of an owner."""

    uid: int
    gid: int
    groups: tuple[int, ...]


_least_uid = 0


def use_minimum_uid(least: int) -> None:
    """From now on nobody's files are touched with the rights of an account below this uid."""
    global _least_uid
    _least_uid = least
    account.cache_clear()


@lru_cache(maxsize=1024)
def account(owner: str, fallback: str = "nobody") -> Account:
    """The account of ``owner``, or the fallback's when there is none or it may own no jobs (SLOTWISE_MIN_UID)."""
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
    """This thread has the owner's rights on files inside the block; nothing changes unless the process is root.

    :raises OSError: when the kernel refuses them.
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
