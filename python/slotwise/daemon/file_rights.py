"""A thread of a daemon of root's takes on the rights of another account on files, for the time of one block.

The file-system identity belongs to a thread on Linux, so a worker thread has the other's rights while all others keep
theirs. A new thread begins with those of the thread that made it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
from collections.abc import Iterator

_libc = ctypes.CDLL(None, use_errno=True)
#: The system call itself changes one thread; the library's function would change all.
_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "ppc64le": 81, "s390x": 206}.get(platform.machine())


@contextlib.contextmanager
def file_rights(uid: int, gid: int, groups: tuple[int, ...]) -> Iterator[None]:
    """Read and write files as ``uid`` with ``gid`` and ``groups`` within this block, which must not await.

    :raises OSError: when the kernel refuses; nothing may be opened then.
    """
    before = file_identity()
    if (uid, gid, groups) == before:
        yield
        return
    try:
        take_file_rights(uid, gid, groups)
        yield
    finally:
        _set(*before)


def file_identity() -> tuple[int, int, tuple[int, ...]]:
    """Whose rights on files this thread has: user, group, supplementary groups."""
    return _libc.setfsuid(-1), _libc.setfsgid(-1), tuple(os.getgroups())


def take_file_rights(uid: int, gid: int, groups: tuple[int, ...]) -> None:
    """As :func:`file_rights`, from now on, for this thread and those that it makes.

    :raises OSError: when the kernel refuses; nothing may be opened then.
    """
    _set(uid, gid, groups)
    # Neither call reports a failure; an impossible number changes nothing and answers with what holds now.
    if (_libc.setfsuid(-1), _libc.setfsgid(-1)) != (uid, gid):
        raise PermissionError(errno.EPERM, f"cannot take on the rights of user {uid}")


def _set(uid: int, gid: int, groups: tuple[int, ...]) -> None:
    _set_groups(groups)
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)


def _set_groups(groups: tuple[int, ...]) -> None:
    """The supplementary groups of this thread: the daemon's own would open what only its groups may read.

    :raises OSError: when the kernel refuses; nothing may be opened then.
    """
    array = (ctypes.c_uint32 * len(groups))(*groups)
    if _SETGROUPS is None or _libc.syscall(_SETGROUPS, len(groups), array) != 0:
        number = ctypes.get_errno() or errno.ENOSYS
        raise OSError(number, f"cannot take on the groups of the job: {os.strerror(number)}")
