"""Entries of the host's user database, by name or by uid.

``pwd`` raises KeyError alike for an account that does not exist and for one that could not be looked up, as when the
process has no descriptor left or the directory service does not answer. Whoever took the second for the first would
give a job, and its files, to nobody. So the C library is asked here, which tells most of them apart; where one service
has no descriptor left and the next one does not know the name (nsswitch.conf), it does not either, and that is tried.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import time
from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

#: Answers of the C library that mean that there is no such account (getpwnam(3)), besides none at all.
_NOT_THERE = frozenset((0, errno.ENOENT, errno.ESRCH))
_FIRST_BUFFER, _LARGEST_BUFFER = 4096, 1 << 20
#: Descriptors that a look-up has open at a time, and some more.
_NEEDED = 4


class Account(Struct, frozen=True, dict=True):
    """An entry of the user database."""

    name: str
    uid: int
    gid: int
    home: str

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """All groups of the account, its primary one included; looked up when somebody asks."""
        return tuple(os.getgrouplist(self.name, self.gid))

    @property
    def other_groups(self) -> tuple[int, ...]:
        """Its groups without the primary one."""
        return tuple(group for group in self.groups if group != self.gid)


class _Passwd(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        ("uid", ctypes.c_uint32),
        ("gid", ctypes.c_uint32),
        ("gecos", ctypes.c_char_p),
        ("home", ctypes.c_char_p),
        ("shell", ctypes.c_char_p),
    )


_libc = ctypes.CDLL(None)


def named(name: str) -> Account | None:
    """The account ``name``; None when there is none.

    :raises OSError: when it cannot be looked up.
    """
    if not name or "\0" in name:
        return None
    return _found(_libc.getpwnam_r, ctypes.c_char_p(os.fsencode(name)), name)


def with_uid(uid: int) -> Account | None:
    """The account with ``uid``; None when there is none.

    :raises OSError: when it cannot be looked up.
    """
    return _found(_libc.getpwuid_r, ctypes.c_uint32(uid), f"uid {uid}")


def name_of(uid: int) -> str:
    """The name of an account; where the host knows none, as in a container under any uid, the uid in digits: what its
    jobs have as their owner.

    :raises OSError: when it cannot be looked up.
    """
    found = with_uid(uid)
    return str(uid) if found is None else found.name


def _found(ask: Callable[..., int], key: object, what: str) -> Account | None:
    found = _asked(ask, key, what)
    if found is None:
        _require_descriptors(what)
        found = _asked(ask, key, what)
    return found


def _require_descriptors(what: str) -> None:
    """:raises OSError: when there are too few for a look-up."""
    with contextlib.ExitStack() as stack:
        try:
            for _ in range(_NEEDED):
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            raise _failure(error.errno or errno.EMFILE, what) from None


def _failure(number: int, what: str) -> OSError:
    return OSError(number, f"the account {what} cannot be looked up: {os.strerror(number)}")


def _asked(ask: Callable[..., int], key: object, what: str) -> Account | None:
    size = _FIRST_BUFFER
    while True:
        entry, found = _Passwd(), ctypes.POINTER(_Passwd)()
        buffer = ctypes.create_string_buffer(size)
        status = ask(key, ctypes.byref(entry), buffer, ctypes.c_size_t(size), ctypes.byref(found))
        if status == errno.EINTR:
            continue
        if status != errno.ERANGE or size >= _LARGEST_BUFFER:
            break
        size *= 2
    if found:
        return Account(os.fsdecode(entry.name), entry.uid, entry.gid, os.fsdecode(entry.home or b""))
    if status in _NOT_THERE:
        return None
    raise _failure(status, what)


class _Known(Struct, frozen=True):
    account: Account | None
    ends: float


class KnownAccounts:
    """Accounts by name, each looked up anew after ``lasts_s`` seconds; a failure to look one up is not remembered."""

    def __init__(self, lasts_s: float = 60.0, now: Callable[[], float] = time.monotonic) -> None:
        self._lasts_s, self._now = lasts_s, now
        self._known: dict[str, _Known] = {}

    def named(self, name: str) -> Account | None:
        """As :func:`named`.

        :raises OSError: when it has to be looked up, and cannot be.
        """
        now = self._now()
        known = self._known.get(name)
        if known is None or now >= known.ends:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[name] = _Known(named(name), now + self._lasts_s)
        return known.account


_MOST = 4096
