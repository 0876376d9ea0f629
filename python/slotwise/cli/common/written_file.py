"""Writes a file that a command leaves in the caller's directory, which others may write to as well."""

from __future__ import annotations

import os
from pathlib import Path

from slotwise import ids


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file with these rights (less the umask) in one step; what was there, also a link, is replaced.

    :raises OSError: it cannot be written, as where another user's file has its name in a directory such as /tmp.
    """
    partial = path.with_name(f".{path.name}.{ids.secret(64)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None
