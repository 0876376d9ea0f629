"""File access with a job's rights, from a starter that runs as root."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
from collections.abc import Iterator

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
    """
    if identity.uid is None or identity.gid is None:
        yield
        return
    _set_groups(identity.groups)
    _libc.setfsgid(identity.gid)
    _libc.setfsuid(identity.uid)
    try:
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())
        _set_groups(_OWN_GROUPS)


def _set_groups(groups: tuple[int, ...]) -> None:
    """The supplementary groups of this thread: the daemon's own would open what only its groups may read.

    :raises OSError: when the kernel refuses; nothing may be opened then.
    """
    array = (ctypes.c_uint32 * len(groups))(*groups)
    if _SETGROUPS is None or _libc.syscall(_SETGROUPS, len(groups), array) != 0:
        number = ctypes.get_errno() or errno.ENOSYS
        raise OSError(number, f"cannot take on the groups of the job: {os.strerror(number)}")
