"""Whom local accounts stand for: the pool's owner and root, who may do everything, and all others.

A pool of root's runs each user's jobs as that user, so that every account of the host is one of its users. In a pool of
an ordinary user all jobs run as that user: whoever may submit there has its owner's rights, and no other account is let
in for being one of this host's. Whom the owner wants there gets a token (``slotwise token create``).
"""

from __future__ import annotations

import os
import socket

from slotwise import accounts
from slotwise.config import Config
from slotwise.wire.token import OWNER_LEVELS

#: Who started this process, whatever it becomes: the pool's owner.
_OWNER = os.geteuid()

#: What accounts other than the pool's owner and root may do.
USER_LEVELS = ("READ", "WRITE")


def local_identity(uid: int, config: Config) -> tuple[str, tuple[str, ...]] | None:
    """The identity of a local account, and its levels: login name and UID_DOMAIN (the host's name when unset); None for
    an account that is nobody to this pool.

    :raises OSError: when the account cannot be looked up.
    """
    if _OWNER != 0 and uid not in (0, _OWNER):
        return None
    account = accounts.with_uid(uid)
    if account is None and accounts.named(str(uid)) is not None:
        return None  # by its number it would be the user of an account that has another uid
    domain = config.get("UID_DOMAIN") or config.get("FULL_HOSTNAME") or socket.gethostname()
    name = str(uid) if account is None else account.name
    return f"{name}@{domain}", OWNER_LEVELS if uid in (0, _OWNER) else USER_LEVELS
