"""Files at the access point are read and written with the rights of the job's owner.

Only matters when the schedd runs as root: see `slotwise.daemon.file_rights`. An owner without an account here gets the
account named by ``SLOTWISE_UNKNOWN_OWNER_ACCOUNT`` (``nobody``), never root's rights.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from slotwise.daemon.file_rights import file_rights


@dataclass(frozen=True)
class Account:
    """User id, group id and supplementary groups of an owner."""

    uid: int
    gid: int
    groups: tuple[int, ...]


@lru_cache(maxsize=1024)
def account(owner: str, fallback: str = "nobody") -> Account:
    """The account of ``owner``, or the fallback's."""
    try:
        entry = pwd.getpwnam(owner)
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
    who = account(owner, fallback)
    if who.uid == 0:
        yield
        return
    with file_rights(who.uid, who.gid, who.groups):
        yield
