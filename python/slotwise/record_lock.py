"""Who holds an exclusive POSIX record lock on a file. It asks and takes nothing: no holder is ever kept waiting."""

from __future__ import annotations

import fcntl
import os
import struct

#: ``struct flock`` of Linux on 64 bit: type, whence, start, length, pid.
_FLOCK = "hhqqi4x"


def holder(descriptor: int) -> int | None:
    """The process that holds the lock on an open file; None when nobody does.

    :raises OSError: the file system refuses.
    """
    # A read lock conflicts with the holder's write lock, and may be asked for on a read-only descriptor.
    asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(pid)
