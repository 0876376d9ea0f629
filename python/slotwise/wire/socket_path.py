"""Paths of UNIX sockets, however long a pool's home is."""

from __future__ import annotations

import os
from os import PathLike

#: Longest path a UNIX socket may have on Linux, less the closing zero byte.
LONGEST = 107
#: Descriptors of directories by path. They stay open: gRPC connects again to the name that it was given.
_directories: dict[str, int] = {}


def usable(path: str | PathLike[str]) -> str:
    """``path`` as this process may bind it and connect to it: a longer one than the system takes leads through a
    descriptor of its directory.

    :raises OSError: the directory of a long path cannot be opened.
    """
    path = os.fspath(path)
    if len(os.fsencode(path)) <= LONGEST:
        return path
    directory, name = os.path.split(path)
    about = os.stat(directory)  # noqa: PTH116 - with each command
    descriptor = _directories.get(directory)
    if descriptor is None or not os.path.samestat(about, os.fstat(descriptor)):  # another one since
        descriptor = _directories[directory] = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{descriptor}/{name}"


def usable_target(target: str) -> str:
    """The gRPC target ``unix:/path`` as this process may connect to it; others, and sockets of nobody, as they are."""
    if not target.startswith("unix:"):
        return target
    try:
        return f"unix:{usable(target.removeprefix('unix:'))}"
    except OSError:
        return target
