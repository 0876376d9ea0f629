"""Reads files that are sent, piece by piece. In worker threads, with the rights of the thread."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from msgspec import Struct

from slotwise.transfer import depth, safe_open

PIECE = 512 * 1024
#: Files up to this size travel, and are kept, in one piece.
SMALL_MOST = 256 * 1024


class Piece(Struct, frozen=True):
    """Part of a file on its way to the job."""

    name: str
    mode: int
    data: bytes
    offset: int
    last: bool
    directory: bool = False


#: Contents of small files sent often (executables above all), by identity of the file.
_cache: dict[tuple[str, str], tuple[tuple[int, int, int, int], Piece]] = {}


def pieces(path: str, name: str, *, executable: bool = False) -> Iterator[Piece]:
    """A file, or what a directory holds, piece by piece; ``name``: what it is called where it goes, empty for a
    directory of which the contents alone go.

    :param executable: it may be run where it goes.
    :raises OSError: it cannot be read, or is neither a file nor a directory.
    """
    state = os.stat(path)
    if stat.S_ISDIR(state.st_mode):
        if name and os.path.islink(path):  # it may lead anywhere, or round in circles
            raise OSError(errno.ELOOP, "links to directories are not transferred; name the directory itself", path)
        yield from _directory(path, name, state.st_mode)
        return
    mode = stat.S_IMODE(state.st_mode) | (0o111 if executable else 0)
    if state.st_size <= SMALL_MOST:
        # The owner's right to read is checked each time, whoever read the file before.
        descriptor = safe_open.regular(path)
        try:
            state = os.fstat(descriptor)  # of the file that is read, whatever the path led to a moment ago
            identity = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
            known = _cache.get((path, name))
            if known is not None and known[0] == identity and known[1].mode == mode:
                yield known[1]
                return
            data = b""
            while chunk := os.read(descriptor, SMALL_MOST + 1):
                data += chunk
        finally:
            os.close(descriptor)
        piece = Piece(name, mode, data, 0, True)
        if executable:
            if len(_cache) > 200:
                _cache.clear()
            _cache[(path, name)] = (identity, piece)
        yield piece
        return
    with open(safe_open.regular(path), "rb") as stream:
        offset, last = 0, False
        # What somebody adds while it is sent does not go with it: a log that grows as fast as it goes has no end.
        left = os.fstat(stream.fileno()).st_size
        while not last:
            data = stream.read(min(PIECE, left))
            left -= len(data)
            last = not data or left == 0
            yield Piece(name, mode, data, offset, last)
            offset += len(data)


def _directory(path: str, name: str, mode: int) -> Iterator[Piece]:
    if depth.is_too_deep(name):
        raise OSError(errno.ENAMETOOLONG, depth.TOO_DEEP, f"{path[:100]}...")
    if name:
        yield Piece(name, stat.S_IMODE(mode), b"", 0, True, directory=True)
    for entry in sorted(os.scandir(path), key=lambda e: e.name):
        if not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):  # no file, and nothing is missed without it
            yield from pieces(entry.path, os.path.join(name, entry.name))
