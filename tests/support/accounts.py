"""Two temporary accounts of ordinary users, for tests that attack a pool of root's as another user of the host."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import host
from tests.support.waiting import LIMIT_S

#: Fixtures and tests may have accounts of one prefix at a time.
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class HostUser:
    """An account with a home of mode 0700."""

    name: str
    uid: int
    gid: int
    home: Path

    def run(self, script: str, *, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a shell script as this user, with none of root's rights."""
        # Not subprocess's own `user`: that forks, which a process with gRPC's threads cannot do safely.
        drop = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.gid), "--clear-groups"]
        return subprocess.run(
            [*drop, "/bin/sh", "-ec", script],
            cwd=cwd or self.home,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=check,
        )


@contextlib.contextmanager
def host_users(*names: str) -> Iterator[tuple[HostUser, ...]]:
    """Make an account for each name, and remove them with their processes and homes."""
    host.need(host.accounts)
    made: list[HostUser] = []
    homes = Path(tempfile.mkdtemp(prefix="slotwise-homes-", dir="/var/tmp"))
    homes.chmod(0o755)
    try:
        for prefix in names:
            name = f"sw{prefix}{os.getpid()}n{next(_NUMBERS)}"
            home = homes / name
            subprocess.run(
                ["useradd", "--create-home", "--home-dir", str(home), "--shell", "/bin/sh", name], check=True
            )
            entry = pwd.getpwnam(name)
            home.chmod(0o700)
            made.append(HostUser(name, entry.pw_uid, entry.pw_gid, home))
        yield tuple(made)
    finally:
        for user in made:
            subprocess.run(["pkill", "-KILL", "-u", str(user.uid)], check=False)
            subprocess.run(["userdel", user.name], check=False, capture_output=True)
        shutil.rmtree(homes, ignore_errors=True)
