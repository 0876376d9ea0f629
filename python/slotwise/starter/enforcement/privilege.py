"""File access with a job's rights, from a starter that runs as root."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from slotwise.daemon.file_rights import file_rights
from slotwise.daemon.user_paths import open_path
from slotwise.execution.keeper_spec import Identity

#: CAP_SYS_ADMIN, as a bit of a set of capabilities.
_SYS_ADMIN = 1 << 21


def may_make_namespaces(status: Path = Path("/proc/self/status")) -> bool:
    """Whether the starter has the capability for namespaces; root in a container usually lacks it."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) & _SYS_ADMIN)


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
    with file_rights(identity.uid, identity.gid, identity.groups):
        yield


def read_small(path: Path, identity: Identity, most: int) -> str:
    """The beginning, at most ``most`` bytes, of a text that a job's programs have left in the job's directory.

    :raises OSError: when there is none, or the name is a link, a pipe or a device: a link might lead to what only
        the starter may read, and waiting for a pipe's other end would stop all jobs of this host.
    """
    with rights_of(identity):
        fd = open_path(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
            return file.read(most).decode(errors="replace")
