"""Opens files that users name, without blocking on them and without following magic links.

Opening a named pipe waits for its other end, and some devices never end. A worker thread that hangs on one is lost, and
a user could block all of them. For magic links see `slotwise.daemon.user_paths`.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time

from slotwise.daemon.user_paths import open_path

#: How long a pipe or terminal may take to accept a small file, in seconds.
_WRITE_S = 10.0


def regular(path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a regular file; returns the descriptor.

    :raises OSError: as ``os.open``; EINVAL for anything but a regular file.
    """
    # O_NONBLOCK has no effect on regular files; O_NOCTTY: a terminal does not become the daemon's.
    descriptor = open_path(path, flags | os.O_NONBLOCK | os.O_NOCTTY, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def write_special(path: str, data: bytes) -> None:
    """Write to an existing pipe or device.

    :raises OSError: ENXIO for a pipe that nobody reads, ETIMEDOUT when its reader is too slow.
    """
    descriptor = open_path(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    deadline = time.monotonic() + _WRITE_S
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    view = memoryview(data)
    try:
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0 or not waiting.poll(left * 1000):
                    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path) from None
    finally:
        os.close(descriptor)
