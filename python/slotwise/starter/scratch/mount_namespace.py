"""The starter's own mount namespace: volumes of jobs are mounted in it, out of sight of the rest of the host.

Its keepers and their jobs inherit it, and a job sees only its own volume (the keeper takes the others away). It lasts
as long as one of these processes lives: when the last is gone, the kernel unmounts everything. A starter that starts
anew joins the namespace of a keeper that still lives. Knob: LVM_HIDE_MOUNT.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Iterable
from pathlib import Path

_log = logging.getLogger(__name__)
_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_FS, _CLONE_NEWNS = 0x200, 0x20000
_MS_REC, _MS_SLAVE = 16384, 1 << 19


def enter(keepers: Iterable[int]) -> str:
    """Move this thread (and all that it makes from now on) into a namespace of its own, or into that of a living
    keeper which has one. To be called before other threads look after files. Returns what went wrong, in words."""
    here = Path("/proc/self/ns/mnt").stat().st_ino
    for pid in keepers:
        if _join(pid, here):
            return ""
    if _libc.unshare(_CLONE_NEWNS) != 0:
        return f"no mount namespace: {os.strerror(ctypes.get_errno())}"
    # What the host mounts stays visible here; what is mounted here stays here.
    if _libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None) != 0:
        return f"the mount namespace is not private: {os.strerror(ctypes.get_errno())}"
    return ""


def _join(pid: int, here: int) -> bool:
    try:
        namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if os.fstat(namespace).st_ino == here:
            return False
        # A thread that shares its working directory with others may not change namespaces.
        if _libc.unshare(_CLONE_FS) != 0 or _libc.setns(namespace, _CLONE_NEWNS) != 0:
            _log.warning("could not enter the mount namespace of keeper %d: %s", pid, os.strerror(ctypes.get_errno()))
            return False
        return True
    finally:
        os.close(namespace)
