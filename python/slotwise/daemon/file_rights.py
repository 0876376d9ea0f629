"""A thread of a daemon of root's takes on the rights of another account on files, for the time of one block.

The file-system identity belongs to a thread on Linux, so a worker thread has the other's rights while all others keep
theirs.
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
    before = tuple(os.getgroups())
    _set_groups(groups)
    try:
        _libc.setfsgid(gid)
        _libc.setfsuid(uid)
        # Neither call reports a failure; an impossible number changes nothing and answers with what holds now.
        if (_libc.setfsuid(-1), _libc.setfsgid(-1)) != (uid, gid):
            raise PermissionError(errno.EPERM, f"cannot take on the rights of user {uid}")
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())
        _set_groups(before)


def _set_groups(groups: tuple[int, ...]) -> None:
    """The supplementary groups of this thread: the daemon's own would open what only its groups may read.

    :raises OSError: when the kernel refuses; nothing may be opened then.
    """
    array = (ctypes.c_uint32 * len(groups))(*groups)
    if _SETGROUPS is None or _libc.syscall(_SETGROUPS, len(groups), array) != 0:
        number = ctypes.get_errno() or errno.ENOSYS
        raise OSError(number, f"cannot take on the groups of the job: {os.strerror(number)}")
