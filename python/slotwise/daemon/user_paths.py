"""Opening paths that users name, in a daemon that has other files open.

``/proc/self/fd/17`` leads any user of a thread to what the daemon has open there, whatever the rights on the way to
that file: the kernel follows such *magic links* without looking at the path. So they are not followed, and nothing of a
process file system is opened at all. Manual page of openat2(2), RESOLVE_NO_MAGICLINKS.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator

_libc = ctypes.CDLL(None, use_errno=True)
_OPENAT2 = 437  # the same on all architectures
_RESOLVE_NO_MAGICLINKS = 0x02
_AT_FDCWD = -100
_PROC_MAGIC = 0x9FA0
#: As many links on one way as the kernel follows.
_LINKS_MOST = 40
_PATH_ONLY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_path(path: str | os.PathLike[str], flags: int, mode: int = 0o777) -> int:
    """As ``os.open``, for a path that a user named; the descriptor is not inherited.

    :raises OSError: as ``os.open``; ELOOP for a magic link, EACCES for what lies in a process file system, EINVAL for a
        name with a zero byte, at which the system call would cut it.
    """
    name = os.fspath(path)
    if "\0" in name:
        raise OSError(errno.EINVAL, "a path has no zero bytes", name)
    descriptor = _open(os.fsencode(name), flags | os.O_CLOEXEC, mode, name)
    if _is_proc(descriptor):
        os.close(descriptor)
        raise PermissionError(errno.EACCES, "files of a process file system are not used", name)
    return descriptor


@contextlib.contextmanager
def parent_of(path: str) -> Iterator[tuple[int, str]]:
    """The directory that ``path`` lies in, open, and the last name: for calls that take ``dir_fd``.

    :raises OSError: as :func:`open_path`.
    """
    directory, name = os.path.split(path.rstrip("/"))
    descriptor = open_path(directory or ".", os.O_PATH | os.O_DIRECTORY)
    try:
        yield descriptor, name or "."
    finally:
        os.close(descriptor)


def _open(path: bytes, flags: int, mode: int, name: str) -> int:
    how = _OpenHow(flags, mode if flags & os.O_CREAT else 0, _RESOLVE_NO_MAGICLINKS)
    while True:
        descriptor = _libc.syscall(_OPENAT2, _AT_FDCWD, path, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return int(descriptor)
        number = ctypes.get_errno()
        if number == errno.ENOSYS:  # Linux before 5.6, or a filter of system calls
            return open_stepwise(name, flags, mode)
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), name)


def open_stepwise(path: str, flags: int, mode: int = 0o777) -> int:
    """What :func:`open_path` does where the kernel has no openat2: follows the links of the path itself, one by one.

    :raises OSError: as ``os.open``; ELOOP for a magic link.
    """
    pending = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    at = os.open("/" if path.startswith("/") else ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    links = 0
    try:
        while len(pending) > 1 or _leads_on(at, pending, flags):
            part = pending.pop()
            step = os.open(part, _PATH_ONLY, dir_fd=at)
            if not stat.S_ISLNK(os.fstat(step).st_mode):
                os.close(at)
                at = step
                continue
            try:
                magic = _is_proc(step)
                target = os.readlink("", dir_fd=step)
            finally:
                os.close(step)
            links += 1
            if magic or links > _LINKS_MOST:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target.startswith("/"):
                os.close(at)
                at = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            pending += [part for part in reversed(target.split("/")) if part not in ("", ".")]
        last = pending.pop() if pending else "."
        # What is there now is not a link: one that somebody puts there meanwhile is not followed.
        return os.open(last, flags | os.O_NOFOLLOW, mode, dir_fd=at)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(at)


def _leads_on(at: int, pending: list[str], flags: int) -> bool:
    """Whether the last name of a path is a link that is to be followed."""
    if not pending or flags & os.O_NOFOLLOW:
        return False
    try:
        return stat.S_ISLNK(os.stat(pending[-1], dir_fd=at, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _is_proc(descriptor: int) -> bool:
    buffer = ctypes.create_string_buffer(256)
    if _libc.fstatfs(descriptor, buffer) != 0:
        return False
    return ctypes.c_long.from_buffer(buffer).value == _PROC_MAGIC
