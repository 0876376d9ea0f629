"""File access with a job's rights, from a starter that runs as root."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import stat
from collections.abc import Iterator
from pathlib import Path

from slotwise.starter.keeper_spec import Identity

_libc = ctypes.CDLL(None, use_errno=True)
#: The system call itself changes one thread; the library's function would change all.
_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "ppc64le": 81, "s390x": 206}.get(platform.machine())
_OWN_GROUPS = tuple(os.getgroups())


@contextlib.contextmanager
def rights_of(identity: Identity) -> Iterator[None]:
    """Read and write files as the job's user within this block.

    Changes the file-system identity of the calling thread only, so the block must not await. Without root it
    changes nothing: the job then runs as the starter.

    :raises OSError: when the kernel refuses; nothing may be opened then.
    """
    if identity.uid is None or identity.gid is None:
        yield
        return
    _set_groups(identity.groups)
    try:
        _libc.setfsgid(identity.gid)
        _libc.setfsuid(identity.uid)
        # Neither call tells of a failure; an impossible number changes nothing and tells what holds now.
        if (_libc.setfsuid(-1), _libc.setfsgid(-1)) != (identity.uid, identity.gid):
            raise PermissionError(errno.EPERM, f"cannot take on the rights of user {identity.uid}")
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())
        _set_groups(_OWN_GROUPS)


def read_small(path: Path, identity: Identity, most: int) -> str:
    """The beginning, at most ``most`` bytes, of a text that a job's programs have left in the job's directory.

    :raises OSError: when there is none, or the name is a link, a pipe or a device: a link might lead to what only
        the starter may read, and waiting for a pipe's other end would stop all jobs of this host.
    """
    with rights_of(identity):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
            return file.read(most).decode(errors="replace")


def _set_groups(groups: tuple[int, ...]) -> None:
    """The supplementary groups of this thread: the daemon's own would open what only its groups may read.

    :raises OSError: when the kernel refuses; nothing may be opened then.
    """
    array = (ctypes.c_uint32 * len(groups))(*groups)
    if _SETGROUPS is None or _libc.syscall(_SETGROUPS, len(groups), array) != 0:
        number = ctypes.get_errno() or errno.ENOSYS
        raise OSError(number, f"cannot take on the groups of the job: {os.strerror(number)}")
