"""Lets other accounts reach an installation that lies in a directory of root's, for the pool of one test alone."""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
import sys
from pathlib import Path

#: In a mount namespace of its own: an empty file system that is open to all in the closed directory's place, and what
#: the installation needs of it at its place again.
_SCRIPT = """
closed=$1 needed=$2; shift 2
hold=/var/tmp/slotwise-installation
mkdir -p "$hold"
mount --bind "$needed" "$hold"
mount -t tmpfs -o mode=755 tmpfs "$closed"
mkdir -p "$needed"
mount --move "$hold" "$needed" 2>/dev/null || mount --bind "$hold" "$needed"
exec "$@"
"""


def interpreter() -> str:
    """An interpreter that every account may start: the one that runs the tests may lie in a closed home. Empty where
    there is none."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3", sys.executable):
        with contextlib.suppress(OSError):
            real = Path(path).resolve(strict=True)
            if all(place.stat().st_mode & 0o001 for place in (real, *real.parents)):
                return path
    return ""


@functools.cache
def opened() -> list[str] | None:
    """Words before a command that has it find the installation open to all accounts; None where that cannot be."""
    base = Path(sys.base_prefix).resolve()
    closed = next((above for above in reversed(base.parents) if not above.stat().st_mode & 0o001), None)
    if closed is None:
        return []
    if shutil.which("unshare") is None:
        return None
    words = ["unshare", "--mount", "sh", "-ec", _SCRIPT, "sh", str(closed), str(base)]
    return words if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0 else None
