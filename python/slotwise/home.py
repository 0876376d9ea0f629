"""Where a pool keeps its things: the directory named by ``SLOTWISE_HOME``.

============  ========================================================================
``run/``      addresses, locks and sockets of running daemons (mode 0700)
``secrets/``  the pool's signing key and tokens (mode 0700, files 0600)
``log/``      daemon logs (knob LOG)
``spool/``    job queue, history, accounting, spooled files (knob SPOOL)
``execute/``  scratch directories of running jobs (knob EXECUTE)
============  ========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PoolHome:
    """The state directory of a pool."""

    root: Path

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> PoolHome:
        """``SLOTWISE_HOME``, or ``.slotwise`` under the user's home directory."""
        named = env.get("SLOTWISE_HOME")
        if named:
            return cls(Path(named).absolute())
        return cls((Path(env["HOME"]) if env.get("HOME") else Path.home()) / ".slotwise")

    @property
    def run(self) -> Path:
        """Addresses, locks, sockets."""
        return self.root / "run"

    @property
    def secrets(self) -> Path:
        """Signing key and tokens."""
        return self.root / "secrets"

    @property
    def log(self) -> Path:
        """Daemon logs."""
        return self.root / "log"

    @property
    def spool(self) -> Path:
        """Durable state."""
        return self.root / "spool"

    @property
    def execute(self) -> Path:
        """Scratch directories of jobs."""
        return self.root / "execute"

    def create(self) -> None:
        """Make all directories, with the modes above; existing ones are kept."""
        self.root.mkdir(parents=True, exist_ok=True)
        for path, mode in (
            (self.run, 0o700),
            (self.secrets, 0o700),
            (self.log, 0o755),
            (self.spool, 0o700),
            (self.execute, 0o755),
        ):
            path.mkdir(mode=mode, exist_ok=True)
            if mode == 0o700:
                path.chmod(mode)
