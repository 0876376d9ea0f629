"""The pool's owner: the user whose daemons these are, and whose token may do everything."""

from __future__ import annotations

import os
import pwd
import socket
import time

from slotwise.config import Config
from slotwise.errors import DeniedError
from slotwise.home import PoolHome
from slotwise.wire.token import mint, pool_key, verify, write_secret


def owner_identity(config: Config) -> str:
    """The identity of the user who owns the pool: login name and UID_DOMAIN (the host's name when unset)."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    domain = config.get("UID_DOMAIN") or config.get("FULL_HOSTNAME") or socket.gethostname()
    return f"{user}@{domain}"


def write_owner_token(home: PoolHome, config: Config) -> None:
    """Make the pool key and the owner's token (ADMINISTRATOR, mode 0600) unless good ones are there."""
    key = pool_key(home, create=True)
    path = home.secrets / "token"
    identity = owner_identity(config)
    try:
        known, _ = verify(key, path.read_text().strip())
        if known.name == identity and known.may("ADMINISTRATOR"):
            path.chmod(0o600)
            return
    except (OSError, DeniedError):
        pass
    write_secret(path, mint(key, identity, ["ADMINISTRATOR"], issued_at=int(time.time())) + "\n")
