"""A pool that an ordinary user starts, on a host where the tests run as root."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.accounts import HostUser
from tests.support.open_installation import opened
from tests.support.pool import Pool


class UsersPool(Pool):
    """A pool that an ordinary user starts."""

    def __init__(self, user: HostUser, root: Path, config: str) -> None:
        super().__init__(root, config)
        drop = ["setpriv", "--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups"]
        self.account = (*(opened() or ()), *drop)
        self.command = (*self.account, sys.executable, "-m", "slotwise")
        self.env["HOME"] = str(user.home)
        for path in (root, *root.rglob("*")):
            os.chown(path, user.uid, user.gid)
