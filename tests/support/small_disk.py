"""Small file systems that tests fill, as root."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


class SmallDisk:
    """A mounted file system of some megabytes."""

    def __init__(self, at: Path) -> None:
        self.at = at
        self._filling = at / "filling"

    def fill(self) -> None:
        """Leave not a byte, nor, as far as it goes, a file."""
        descriptor = os.open(self._filling, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for size in (1 << 16, 1 << 12, 1):
                _write_all(descriptor, b"x" * size)
        finally:
            os.close(descriptor)

    def leave(self, size: int) -> None:
        """Of what :meth:`fill` has taken, give back so many bytes."""
        os.truncate(self._filling, self._filling.stat().st_size - size)

    def make_room(self) -> None:
        """Give back what :meth:`fill` has taken."""
        self._filling.unlink(missing_ok=True)


def _write_all(descriptor: int, data: bytes) -> None:
    try:
        while True:
            os.write(descriptor, data)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[SmallDisk]:
    """An ext4 in a file, for all accounts; needs :func:`tests.support.host.loop_mounts`."""
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        image, at = Path(directory, "image"), Path(directory, "at")
        at.mkdir()
        image.touch()
        os.truncate(image, megabytes << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop,nodev,nosuid", str(image), str(at)], check=True)
        try:
            yield SmallDisk(at)
        finally:
            if subprocess.run(["umount", str(at)], check=False, capture_output=True).returncode:
                subprocess.run(["umount", "-l", str(at)], check=False)  # something of a failed test is left on it
