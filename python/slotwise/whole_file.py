"""Writes files that readers find whole or not at all: aside first, then put in place in one step.

What had the name before, also a link, is replaced and not followed. The file beside it is a new one in any case, so
that nobody who may write to the directory has a hand in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from slotwise import durable_files, ids

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Characters of the name that the file beside it has in its own.
_LONGEST_NAME = 200


def write(path: Path, data: str | bytes, *, mode: int = 0o666, exact: bool = False, lasts: bool = True) -> None:
    """Write a file in one step; text as UTF-8, with whatever bytes it was read from.

    :param mode: its rights, less the umask unless they are to be ``exact``.
    :param lasts: after a power cut, the file or the one before it is there.
    :raises OSError: it cannot be written; what was there stays.
    """
    with replaced(path, mode, exact=exact, lasts=lasts) as stream:
        stream.write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)


@contextmanager
def replaced(path: Path, mode: int = 0o666, *, exact: bool = False, lasts: bool = True) -> Iterator[BinaryIO]:
    """A stream whose contents become the file when the block ends, and are forgotten when it raises; as :func:`write`.

    :raises OSError: as :func:`write`; it names ``path``.
    """
    partial = path.with_name(f".{path.name[:_LONGEST_NAME]}.{ids.secret(64)}")
    try:
        with os.fdopen(os.open(partial, _FLAGS, mode), "wb") as stream:
            if exact:
                os.fchmod(stream.fileno(), mode)
            yield stream
        if lasts:
            durable_files.replace(partial, path)
        else:
            partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
