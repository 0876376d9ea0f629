"""The common input files that a host keeps, below EXECUTE/common_inputs (0700, the starter's own).

A set is received into a directory of its own and then placed into scratch directories: as hard links where the job
cannot change what others see, that is, where the files are root's and the job is not root; else as copies, which share
blocks where the file system can. What a job does to its directory, replacing files in it included, changes no set.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from slotwise.execution.keeper_spec import Identity
from slotwise.execution.launcher import remove_tree
from slotwise.starter.enforcement.privilege import rights_of

#: The directory below EXECUTE.
NAME = "common_inputs"
_CHUNK = 1 << 20
#: What the kernel answers where it cannot copy by itself.
_NO_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)


def empty(execute: Path) -> list[str]:
    """Remove what a former starter kept; returns what could not be removed. Blocks."""
    place = execute / NAME
    return remove_tree(place) if place.is_symlink() or place.exists() else []


def make(execute: Path, name: str) -> Path:
    """A directory for a set.

    :raises OSError: when it cannot be made, or somebody else has made the one above it.
    """
    top = execute / NAME
    top.mkdir(mode=0o700, exist_ok=True)
    state = top.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
        raise OSError(errno.EPERM, "not a directory of the starter's alone", str(top))
    place = top / name
    place.mkdir(mode=0o700)
    return place


def free_bytes(execute: Path) -> int:
    """What may still be written there."""
    state = os.statvfs(execute)
    return state.f_bavail * state.f_frsize


def may_link(identity: Identity) -> bool:
    """Whether a job can be given links: another user than the starter's and root cannot change root's files."""
    return os.geteuid() == 0 and identity.uid not in (None, 0)


def place(
    source: Path, scratch: Path, identity: Identity, *, linked: bool, stopped: Callable[[], bool] = lambda: False
) -> None:
    """Put a set into a job's directory; what has the name of a file there makes way. Blocks.

    Directories are made and opened with the job's rights, no link among them is followed: something of the job's own
    may have run there already. Files that others could not read where they come from are copied always. Once
    ``stopped``, no further file is put there.

    :raises OSError: when something cannot be read, made or written.
    """
    with rights_of(identity):
        top = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _place(source, top, identity, linked, stopped)
    finally:
        os.close(top)


def _place(source: Path, target: int, identity: Identity, linked: bool, stopped: Callable[[], bool]) -> None:
    with os.scandir(source) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.is_dir(follow_symlinks=False):
                with rights_of(identity):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(entry.name, dir_fd=target)
                    below = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=target)
                try:
                    _place(Path(entry.path), below, identity, linked, stopped)
                finally:
                    os.close(below)
            elif not stopped():
                _place_file(Path(entry.path), entry.name, target, identity, linked)


def _place_file(source: Path, name: str, target: int, identity: Identity, linked: bool) -> None:
    with rights_of(identity), contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=target)
    mode = stat.S_IMODE(source.stat().st_mode)
    if linked and mode & 0o004:
        with contextlib.suppress(OSError):  # another file system, or too many links: a copy
            source.chmod(0o444 | mode & 0o111)
            os.link(source, name, dst_dir_fd=target, follow_symlinks=False)
            return
    reading = os.open(source, os.O_RDONLY)
    try:
        with rights_of(identity):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            writing = os.open(name, flags, 0o600, dir_fd=target)
            try:
                os.fchmod(writing, mode | 0o600)
                _copy(reading, writing)
            finally:
                os.close(writing)
    finally:
        os.close(reading)


def _copy(reading: int, writing: int) -> None:
    try:
        while os.copy_file_range(reading, writing, _CHUNK * 64):
            pass
    except OSError as error:
        if error.errno not in _NO_COPY:
            raise
        while data := memoryview(os.read(reading, _CHUNK)):
            while data:
                data = data[os.write(writing, data) :]
