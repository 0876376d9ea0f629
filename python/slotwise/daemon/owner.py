"""Whom local accounts stand for: the pool's owner and root, who may do everything, and all others."""

from __future__ import annotations

import os
import pwd
import socket

from slotwise.config import Config
from slotwise.wire.token import OWNER_LEVELS

#: Who started this process, whatever it becomes: the pool's owner.
_OWNER = os.geteuid()

#: What accounts other than the pool's owner and root may do.
USER_LEVELS = ("READ", "WRITE")


def local_identity(uid: int, config: Config) -> tuple[str, tuple[str, ...]]:
    """The identity of a local account, and its levels: login name and UID_DOMAIN (the host's name when unset)."""
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    domain = config.get("UID_DOMAIN") or config.get("FULL_HOSTNAME") or socket.gethostname()
    return f"{user}@{domain}", OWNER_LEVELS if uid in (0, _OWNER) else USER_LEVELS
