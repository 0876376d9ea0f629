"""Has disks hold what was written into files, so that it is there after a power cut.

A file is on its disk once it was flushed (fsync), and found there once its directory was, too. Where many files were
written on one file system, all of it is flushed at once (syncfs).
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

#: From so many files on one file system on, the whole of it is flushed.
_MANY = 8
#: Files of users may be anything: opening one waits for nobody.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
#: What file systems answer that have nothing to flush.
_NOTHING_TO_FLUSH = (errno.EINVAL, errno.ENOSYS, errno.EROFS)

_libc = ctypes.CDLL(None, use_errno=True)


def synchronise(path: str | Path) -> None:
    """Have the disk hold what was written to a file, or the names in a directory.

    :raises OSError: when that is not possible.
    """
    _flush_by(os.fsync, path)


def replace(fresh: Path, path: Path) -> None:
    """Put the whole file ``fresh`` in the place of ``path``: whenever power is cut, one of the two is there.

    :raises OSError: when that is not possible.
    """
    synchronise(fresh)
    fresh.replace(path)
    synchronise(path.parent)


def flush(paths: Iterable[str], *, below: str = "") -> None:
    """Have disks hold files, and their names in their directories, with the rights of the calling thread.

    What is not there any more has nothing to flush, and neither has a device or a pipe.

    :param below: directories from here down to the files may be new, too.
    :raises OSError: the first error; the other file systems have been flushed.
    """
    on_device: dict[int, list[str]] = {}
    for path in dict.fromkeys(paths):
        try:
            state = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode):
            on_device.setdefault(state.st_dev, []).append(path)
    errors: list[OSError] = []
    for files in on_device.values():
        try:
            _flush_device(files, below)
        except OSError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _flush_device(files: list[str], below: str) -> None:
    """Flush files of one file system."""
    directories = list(dict.fromkeys(above for path in files for above in _directories(path, below)))
    if len(files) < _MANY:
        try:
            for path in files:
                _flush_by(os.fdatasync, path)
            for path in directories:
                synchronise(path)
            return
        except FileNotFoundError:
            pass  # somebody has moved one of them meanwhile
        except PermissionError:
            pass  # its owner may write it, and not read it
    for path in (*directories, *files):
        try:
            _flush_by(_syncfs, path)
            return
        except (FileNotFoundError, PermissionError):
            continue
    os.sync()


def _directories(path: str, below: str) -> list[str]:
    """The directory of a file, and those above it that are ``below`` or in it."""
    found = [os.path.dirname(path) or "."]
    while below and found[-1].startswith(below.rstrip("/") + "/"):
        found.append(os.path.dirname(found[-1]))
    return found


def _flush_by(call: Callable[[int], None], path: str | Path) -> None:
    descriptor = os.open(path, _FLAGS)
    try:
        call(descriptor)
    except OSError as error:
        if error.errno not in _NOTHING_TO_FLUSH:
            raise
    finally:
        os.close(descriptor)


def _syncfs(descriptor: int) -> None:
    if _libc.syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
