"""Opening files that users name: whatever lies there, nobody waits for it, and no magic link is followed.

To open a named pipe waits for its other end, and some devices have no end. A worker thread that hangs so is lost, and a
user could take all of them. For magic links see `slotwise.daemon.user_paths`.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time

from slotwise.daemon.user_paths import open_path

#: How long a pipe or terminal may take to accept all of a small result.
_WRITE_S = 10.0


def regular(path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of a regular file.

    :raises OSError: as ``os.open``; EINVAL for what is no regular file.
    """
    # O_NONBLOCK does nothing to regular files; O_NOCTTY: a terminal does not become ours.
    descriptor = open_path(path, flags | os.O_NONBLOCK | os.O_NOCTTY, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def write_special(path: str, data: bytes) -> None:
    """Write to a pipe or device that is there.

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
