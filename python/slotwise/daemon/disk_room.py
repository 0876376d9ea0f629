"""Room that the file system keeps for what is about to be written to a file: blocks beyond its end, which change
neither its size nor what it holds (fallocate(2) with FALLOC_FL_KEEP_SIZE)."""

from __future__ import annotations

import ctypes
import errno
import os

_KEEP_SIZE = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def reserve(descriptor: int, size: int) -> None:
    """Reserve ``size`` bytes behind the end of a file that is open for writing. Where the file system reserves nothing
    it is asked what is free.

    :raises OSError: the room is not there (ENOSPC, EDQUOT), or the disk fails.
    """
    if _LIBC.fallocate(descriptor, _KEEP_SIZE, os.fstat(descriptor).st_size, size) == 0:
        return
    number = ctypes.get_errno()
    if number not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINTR):
        raise OSError(number, os.strerror(number))
    about = os.fstatvfs(descriptor)
    free = about.f_bfree if os.geteuid() == 0 else about.f_bavail
    if free * about.f_frsize < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
