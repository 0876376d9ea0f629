"""File access with a job's rights, from a starter that runs as root."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

from slotwise.starter.keeper_spec import Identity

_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def rights_of(identity: Identity) -> Iterator[None]:
    """Read and write files as the job's user within this block.

    Changes the file-system identity of the calling thread only, so the block must not await. Without root it
    changes nothing: the job then runs as the starter.
    """
    if identity.uid is None or identity.gid is None:
        yield
        return
    _libc.setfsgid(identity.gid)
    _libc.setfsuid(identity.uid)
    try:
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())
