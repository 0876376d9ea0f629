"""Writes a file that a command leaves in the caller's directory, which others may write to as well."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from slotwise import whole_file


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file with these rights (less the umask) in one step; what was there, also a link, is replaced.

    :raises OSError: it cannot be written, as where another user's file has its name in a directory such as /tmp.
    """
    with replaced(path, mode) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


@contextmanager
def replaced(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A stream whose contents become the file in one step, when all of them are there; what was there, also a link, is
    replaced. Pipes and devices, as /dev/stdout, are written to.

    :raises OSError: as :func:`write`.
    """
    if (stream := _pipe(path)) is not None:
        with stream:
            yield stream
        return
    with whole_file.replaced(path, mode, lasts=False) as stream:
        yield stream


def _pipe(path: Path) -> BinaryIO | None:
    """The pipe or device with this name, open; None where there is none."""
    try:
        if _is_file(path.stat().st_mode):
            return None
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return None
    if _is_file(os.fstat(descriptor).st_mode):  # it has become a link to a file meanwhile
        os.close(descriptor)
        return None
    return os.fdopen(descriptor, "wb")


def _is_file(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
