"""Files at the access point are read and written with the rights of the job's owner.

Only matters when the schedd runs as root. The file-system identity belongs to a thread on Linux, so a worker thread
takes the owner's for the time of one call. An owner without an account here gets the account named by
``SLOTWISE_UNKNOWN_OWNER_ACCOUNT`` (``nobody``), never root's rights.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

_libc = ctypes.CDLL(None, use_errno=True)
#: The C library's setgroups() changes every thread; the system call only this one.
_SYS_SETGROUPS = {"x86_64": 116, "aarch64": 159}.get(os.uname().machine, 0)


@dataclass(frozen=True)
class Account:
    """User id, group id and supplementary groups of an owner."""

    uid: int
    gid: int
    groups: tuple[int, ...]


@lru_cache(maxsize=1024)
def account(owner: str, fallback: str = "nobody") -> Account:
    """The account of ``owner``, or the fallback's."""
    try:
        entry = pwd.getpwnam(owner)
    except KeyError:
        try:
            entry = pwd.getpwnam(fallback)
        except KeyError:
            return Account(65534, 65534, ())
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return Account(entry.pw_uid, entry.pw_gid, tuple(groups))


def _set_groups(groups: tuple[int, ...]) -> None:
    if _SYS_SETGROUPS:
        data = struct.pack(f"{len(groups)}I", *groups) if groups else b""
        _libc.syscall(_SYS_SETGROUPS, len(groups), data)


@contextmanager
def as_owner(owner: str, fallback: str = "nobody") -> Iterator[None]:
    """This thread has the owner's rights on files inside the block; nothing changes unless the process is root."""
    if os.geteuid() != 0:
        yield
        return
    who = account(owner, fallback)
    if who.uid == 0:
        yield
        return
    before = tuple(os.getgroups())
    _set_groups(who.groups)
    _libc.setfsgid(who.gid)
    _libc.setfsuid(who.uid)
    try:
        yield
    finally:
        _libc.setfsuid(0)
        _libc.setfsgid(0)
        _set_groups(before)
