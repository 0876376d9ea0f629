"""The pool of the demonstration, driven through the `slotwise` command as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_CONFIG = """# A pool of one machine that advertises eight cores, however many there are
NUM_CPUS = 8
MEMORY = 4096
"""


class DemoPool:
    """A personal pool in a directory of its own, and the commands that speak to it.

    :param directory: made by the caller; holds the pool's state and, in ``work``, the users' files.
    """

    def __init__(self, directory: Path) -> None:
        self.home = directory / "pool"
        self.work = directory / "work"
        self.work.mkdir()
        directory.chmod(0o755)
        config = directory / "condor_config"
        config.write_text(_CONFIG)
        self._env = {**os.environ, "SLOTWISE_HOME": str(self.home), "CONDOR_CONFIG": str(config)}
        if os.geteuid() == 0:  # the demonstration's jobs are root's, then; they run as nobody
            self._env["_CONDOR_SLOTWISE_MIN_UID"] = "0"
        self._command = _launcher()

    def run(self, *words: str, user: str = "", check: bool = True) -> str:
        """Run ``slotwise words...`` in the work directory as ``user`` (default: the pool's owner); returns its output.

        :raises RuntimeError: with what the command said, when it fails and ``check`` is true.
        """
        env = dict(self._env)
        if user:
            env["SLOTWISE_TOKEN_FILE"] = str(self._token(user))
        done = subprocess.run(
            [*self._command, *words], cwd=self.work, env=env, capture_output=True, text=True, timeout=90
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"slotwise {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout + (done.stderr if not check else "")

    def ads(self, *words: str) -> list[dict[str, Any]]:
        """The ads that a listing command prints with ``--json``."""
        return json.loads(self.run(*words, "--json") or "[]")

    def add_user(self, user: str, factor: int) -> None:
        """Give ``user`` a token and a priority factor."""
        identity = f"{user}@{self.domain}"
        self.run("token", "create", "--identity", identity, "--scope", "WRITE", "--file", str(self._token(user)))
        self.run("userprio", "-setfactor", identity, str(factor))

    @property
    def domain(self) -> str:
        """UID_DOMAIN of the pool: the second half of submitter names."""
        return self.run("config", "val", "UID_DOMAIN").strip()

    def _token(self, user: str) -> Path:
        return self.home / "secrets" / f"{user}.token"


def _launcher() -> list[str]:
    """The installed command beside this interpreter, else the module."""
    installed = Path(sys.executable).with_name("slotwise")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "slotwise"]
