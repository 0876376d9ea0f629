"""The rights of a job's owner on files at the access point, for threads that read and write these.

They only matter when the schedd runs as root: see `slotwise.daemon.file_rights`. Owners without an account here, and
those with a uid below SLOTWISE_MIN_UID, have the rights of SLOTWISE_UNKNOWN_OWNER_ACCOUNT (``nobody``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import Final, Literal

from slotwise.accounts import Account, KnownAccounts
from slotwise.daemon.file_rights import file_rights
from slotwise.daemon.host_faults import waited_out
from slotwise.daemon.privileges import own_files, root_files


class Itself(Enum):
    """The schedd as the owner of files. A type of its own, which no name that a job or a user has can become."""

    SCHEDD = "the schedd"


#: Owns what belongs to no job.
SCHEDD: Final = Itself.SCHEDD
#: The account of a job, "" where it has none here; or the schedd.
FileOwner = str | Literal[Itself.SCHEDD]

#: Where not even the fallback account exists.
_NOBODY = Account("nobody", 65534, 65534, "/")
_known = KnownAccounts()
_least_uid = 0


def use_minimum_uid(least: int) -> None:
    """Set the least uid of accounts whose rights are used (SLOTWISE_MIN_UID)."""
    global _least_uid
    _least_uid = least


def account(owner: str, fallback: str = "nobody") -> Account:
    """The account of ``owner``; the fallback if there is none, or if its uid is below SLOTWISE_MIN_UID. A fallback that
    is root is none.

    :raises OSError: when accounts cannot be looked up.
    """
    found = _known.named(owner)
    if found is not None and found.uid >= _least_uid:
        return found
    instead = _known.named(fallback)
    return instead if instead is not None and instead.uid != 0 else _NOBODY


@contextmanager
def as_owner(owner: FileOwner, fallback: str = "nobody") -> Iterator[None]:
    """Give this thread the owner's rights on files inside the block; does nothing unless the process is root.

    :raises OSError: when the kernel refuses, or the account cannot be looked up.
    """
    if os.geteuid() != 0:
        yield
        return
    if isinstance(owner, Itself):
        with own_files():
            yield
        return
    who = waited_out(partial(account, owner, fallback))
    if who.uid == 0:
        with root_files():
            yield
        return
    with file_rights(who.uid, who.gid, who.groups):
        yield
