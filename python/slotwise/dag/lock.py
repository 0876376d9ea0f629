"""X.lock: says that a runner works at a DAG, and left behind, that one has to be gone on with."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class HeldError(Exception):
    """Another runner has the lock. ``cluster``: of its job; -1: it does not say."""

    def __init__(self, cluster: int) -> None:
        super().__init__(cluster)
        self.cluster = cluster


class LockFile:
    """The lock of one run.

    :ivar was_left: whether the file was there: a former run did not come to its end.
    :raises HeldError: a runner that lives has it.
    :raises OSError: it cannot be written.
    """

    def __init__(self, path: Path, cluster: int) -> None:
        self.path = path
        self.was_left = path.exists()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            text = os.read(self._fd, 64).strip()
            os.close(self._fd)
            raise HeldError(int(text) if text.isdigit() else -1) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{cluster}\n".encode(), 0)

    def remove(self) -> None:
        """The run has come to its end."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Give the lock up; the file stays."""
        os.close(self._fd)


__all__ = ["HeldError", "LockFile"]
